"""The orchestrator: who gets a message, and what is saved without being asked for."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from perdure import CheckpointManager, InMemoryCheckpointStorage, Message, Orchestrator, StandardAgent
from perdure.errors import InvalidInputError, NotFoundError, StorageUnavailableError


class Stepping(StandardAgent):
    """Goes through the statuses it is told."""

    async def on_running(self, msg: Message) -> str:
        for status in str(msg.content).split():
            self.collected_fields["at"] = status
            self.status = status
        return "there"

    on_one = on_two = on_running


class Failing(StandardAgent):
    async def on_running(self, msg: Message) -> None:
        self.collected_fields["done"] = "half"
        raise OSError("as asked")


@pytest.fixture
def manager() -> CheckpointManager:
    return CheckpointManager(InMemoryCheckpointStorage())


def saving(manager: CheckpointManager, *agents: StandardAgent) -> Orchestrator:
    return Orchestrator(agents=list(agents), checkpoint_manager=manager, auto_checkpoint=True)


async def listed(manager: CheckpointManager) -> list[tuple[Any, ...]]:
    found = await manager.list_by_user("u")
    return [(each.status, each.collected_fields.get("at"), len(each.history)) for each in reversed(found)]


async def test_every_status_an_agent_goes_through_is_saved(manager: CheckpointManager) -> None:
    """S1.13."""
    orchestrator = saving(manager, Stepping("a", "u"))
    assert await orchestrator.handle_message("u", "ONE TWO ONE") == "there"
    assert await listed(manager) == [
        ("INITIALIZING", None, 1),
        ("RUNNING", None, 1),
        ("ONE", "ONE", 1),
        ("TWO", "TWO", 1),
        ("ONE", "ONE", 2),
    ]
    kinds = {each.kind for each in await manager.list_by_user("u")}
    assert kinds == {"routine"}


async def test_what_did_not_change_is_not_saved_again(manager: CheckpointManager) -> None:
    agent = Stepping("a", "u", status="COMPLETED")
    orchestrator = saving(manager, agent)
    await orchestrator.handle_message("u", "thanks")
    await agent._changed()  # pyright: ignore[reportPrivateUsage]
    assert await listed(manager) == [("COMPLETED", None, 1)]


async def test_statuses_before_a_manual_save_are_saved_before_it(manager: CheckpointManager) -> None:
    agent = Stepping("a", "u")
    saving(manager, agent)
    agent.status = "ONE"
    agent.status = "TWO"
    await manager.save(agent)
    assert [status for status, *_ in await listed(manager)] == ["ONE", "TWO"]


async def test_an_error_is_saved_after_the_point_before_it(manager: CheckpointManager) -> None:
    orchestrator = saving(manager, Failing("a", "u"))
    with pytest.raises(OSError, match="as asked"):
        await orchestrator.handle_message("u", "go")
    newest, before, *_ = await manager.list_by_user("u")
    assert (newest.status, newest.collected_fields) == ("ERROR", {"done": "half"})
    assert (before.status, before.collected_fields) == ("RUNNING", {})


async def test_a_storage_that_is_away_does_not_hide_the_error_of_the_agent(
    manager: CheckpointManager, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    agent = Failing("a", "u", status="RUNNING")
    orchestrator = saving(manager, agent)
    keep = manager.storage.keep

    async def gone(draft: Any, base: Any) -> Any:
        if draft.status == "ERROR":
            raise StorageUnavailableError("the storage", "is away")
        return await keep(draft, base)

    monkeypatch.setattr(manager.storage, "keep", gone)
    with caplog.at_level(logging.ERROR), pytest.raises(OSError, match="as asked"):
        await orchestrator.handle_message("u", "go")
    assert "could not be saved" in caplog.text
    monkeypatch.undo()
    await manager.save(agent)
    assert (await manager.list_by_user("u"))[0].status == "ERROR"


async def test_without_auto_checkpoint_nothing_is_saved_but_the_manager_is_there(manager: CheckpointManager) -> None:
    """S1.15."""
    agent = Stepping("a", "u")
    orchestrator = Orchestrator(agents=[agent], checkpoint_manager=manager)
    await orchestrator.handle_message("u", "ONE")
    assert agent.checkpoint_manager is manager
    assert await manager.list_by_user("u") == []
    bare = Stepping("b", "u")
    Orchestrator(agents=[bare])
    assert bare.checkpoint_manager is None


async def test_a_message_goes_to_the_first_agent_of_the_user_that_has_not_finished() -> None:
    done, busy, later = Stepping("a", "u", status="COMPLETED"), Stepping("b", "u"), Stepping("c", "u")
    other = Stepping("a", "u2")
    orchestrator = Orchestrator(agents=[done, other, busy, later])
    await orchestrator.handle_message("u", "ONE")
    assert [len(each.history) for each in (done, busy, later, other)] == [0, 2, 0, 0]
    with pytest.raises(NotFoundError, match="an agent of user 'nobody'"):
        await orchestrator.handle_message("nobody", "hi")


async def test_a_restored_agent_takes_the_place_of_the_one_it_was(manager: CheckpointManager) -> None:
    agent = Stepping("a", "u")
    orchestrator = saving(manager, agent)
    await orchestrator.handle_message("u", "ONE")
    restored = await manager.restore((await manager.list_by_user("u"))[-1].id)
    orchestrator.add(restored)
    assert orchestrator.agents == [restored]
    before = len(await manager.list_by_user("u"))
    await agent.reply("TWO")
    assert len(await manager.list_by_user("u")) == before
    await orchestrator.handle_message("u", "TWO")
    assert (await manager.list_by_user("u"))[0].status == "TWO"


def test_arguments_are_checked() -> None:
    with pytest.raises(InvalidInputError, match="needs a checkpoint_manager"):
        Orchestrator(agents=[], auto_checkpoint=True)
    with pytest.raises(InvalidInputError, match="must be a StandardAgent"):
        Orchestrator(agents=["agent"])  # type: ignore[list-item]
