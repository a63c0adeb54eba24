"""Branches of checkpoints, and another message at an old point."""

from __future__ import annotations

import pytest

from perdure import CheckpointManager, CheckpointTree, InMemoryCheckpointStorage, Message, StandardAgent
from perdure.errors import NotFoundError


class Echo(StandardAgent):
    async def on_running(self, msg: Message) -> str:
        return f"you said {msg.content}"


async def test_another_message_at_an_old_point_is_a_branch_with_a_label() -> None:
    """N1."""
    manager = CheckpointManager(InMemoryCheckpointStorage())
    agent = Echo("echo", "ann")
    ids: list[str] = []
    for text in ("one", "two", "three"):
        await agent.reply(text)
        ids.append(await manager.save(agent))
    other = await manager.replay_from(ids[0], "another two", branch_label="what if", user_id="ann")
    assert [each.content for each in other.history] == [
        "one", "you said one", "another two", "you said another two",
    ]  # fmt: skip
    tree = await manager.tree("ann")
    (new,) = [each for each in tree if each.metadata.get("branch") == "what if"]
    assert [each.id for each in tree.path_to_root(new.id)] == [new.id, ids[0]]
    assert [[each.id for each in branch] for branch in tree.branches()] == [ids, [ids[0], new.id]]
    assert {each.id for each in tree.leaves()} == {ids[2], new.id}
    assert (tree.depth(), tree.depth(ids[2]), tree.depth(new.id), tree.depth(ids[0])) == (3, 2, 1, 0)
    assert [each.id for each in tree.branch_points()] == [ids[0]]
    assert "[what if]" in str(tree)
    with pytest.raises(NotFoundError):
        await manager.replay_from(ids[0], "x", user_id="bob")


async def test_a_tree_is_made_of_what_is_there() -> None:
    tree = CheckpointTree([])
    assert (len(tree), tree.roots, tree.leaves(), tree.branches(), tree.depth(), str(tree)) == (0, [], [], [], 0, "")
    with pytest.raises(NotFoundError, match="checkpoint 'chk_x' in this tree"):
        tree.path_to_root("chk_x")
    manager = CheckpointManager(InMemoryCheckpointStorage())
    agent = Echo("echo", "ann")
    for text in ("one", "two"):
        await agent.reply(text)
        await manager.save(agent)
    newest = (await manager.list_by_user("ann"))[:1]
    assert CheckpointTree(newest).roots == newest  # the parent is not among them
