"""A user who is named gets their own checkpoints only; what belongs to others looks absent."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from perdure import CheckpointManager, StandardAgent
from perdure.errors import InvalidInputError, NotFoundError
from tests.flowagent.test_storages import point

FORGED = "perdure.given"


async def saved(manager: CheckpointManager, user: str, **fields: Any) -> str:
    return await manager.save(StandardAgent("booking", user, collected_fields=fields))


async def refusal(call: Any) -> str:
    with pytest.raises(NotFoundError) as caught:
        await call
    return str(caught.value)


async def test_a_named_user_restores_their_own_checkpoints(manager: CheckpointManager) -> None:
    alice, bob = await saved(manager, "alice", city="Paris"), await saved(manager, "bob", city="Rome")
    assert (await manager.restore(alice, user_id="alice")).collected_fields == {"city": "Paris"}
    assert (await manager.restore(bob, "bob")).collected_fields == {"city": "Rome"}
    assert (await manager.restore(alice)).collected_fields == {"city": "Paris"}  # trusted code names nobody


@pytest.mark.parametrize("user", ["bob", "", "alic", "alice2", "ALICE"])
async def test_those_of_others_look_absent(manager: CheckpointManager, user: str) -> None:
    alice, mine = await saved(manager, "alice", secret=1), await saved(manager, user, mine=1)
    heard: list[object] = []
    manager.on("checkpoint_restored")(lambda *told: heard.append(told))
    absent = await refusal(manager.restore("chk_0", user_id=user))
    assert await refusal(manager.restore(alice, user_id=user)) == absent.replace("chk_0", alice)
    for old, new in ((alice, mine), (mine, alice), (alice, alice)):
        assert await refusal(manager.compare(old, new, user_id=user)) == absent.replace("chk_0", alice)
    assert heard == []
    assert (await manager.compare(mine, mine, user_id=user)).differences == []


async def test_nobody_has_checkpoints_of_their_own(manager: CheckpointManager) -> None:
    nobodys = await saved(manager, "", n=1)
    assert (await manager.restore(nobodys, user_id="")).user_id == ""
    assert nobodys in await refusal(manager.restore(nobodys, user_id="alice"))


async def test_a_storage_says_the_same(storage: Any) -> None:
    alice = await saved(CheckpointManager(storage), "alice", n=1)
    found = await storage.load_of(alice, "alice")
    assert (found.id, found.user_id, found.collected_fields) == (alice, "alice", {"n": 1})
    assert [await storage.load_of(each, "bob") for each in (alice, "chk_0")] == [None, None]


async def test_ids_that_callers_chose_are_those_of_one_user(ours: Any) -> None:
    """An id of an older system can be anybody's: whoever saves a second one must not be taken for the first."""
    manager = CheckpointManager(ours)
    await ours.save(point(1, id="order-7", user_id="alice", collected_fields={"whose": "alice"}))
    await ours.save(point(2, id="order-7", user_id="bob", collected_fields={"whose": "bob"}))
    for user in ("alice", "bob"):
        assert (await manager.restore("order-7", user_id=user)).collected_fields == {"whose": user}
    with pytest.raises(InvalidInputError, match="several users have a checkpoint 'order-7'; name one: user_id="):
        await manager.restore("order-7")
    assert "'order-7'" in await refusal(manager.restore("order-7", user_id="carol"))


async def test_a_save_goes_on_from_a_point_of_the_agents_own(ours: Any) -> None:
    manager = CheckpointManager(ours)
    await ours.save(point(1, id="order-7", user_id="alice"))
    await ours.save(point(2, id="later", user_id="alice", collected_fields={"number": 2}))
    await ours.save(point(3, id="order-7", user_id="bob"))
    agent = await manager.restore("order-7", user_id="alice")
    agent.collected_fields["number"] = 10
    newest = await ours.load(await manager.save(agent))
    first = (await ours.list_by_user("alice"))[-1]
    assert (newest.collected_fields, newest.user_id) == ({"number": 10}, "alice")
    assert newest.parent_checkpoint_id != "later"
    assert first.id == "order-7"


_FORGERIES = (
    {"id": "chk_of_alice", "timestamp": datetime(2020, 1, 1, tzinfo=UTC)},
    {"user_id": "alice", "agent_id": "hers"},
    {"id": "x", "timestamp": datetime(2020, 1, 1, tzinfo=UTC), "user_id": "alice"},
    "text",
    None,
)


@pytest.mark.parametrize("forged", _FORGERIES)
async def test_what_the_library_keeps_beside_the_metadata_cannot_be_given(ours: Any, forged: object) -> None:
    manager, metadata = CheckpointManager(ours), {FORGED: forged, "turn": 1}
    with pytest.raises(InvalidInputError, match=r"'perdure\.given'"):
        await manager.save(StandardAgent("a", "bob"), metadata=metadata)
    with pytest.raises(InvalidInputError, match=r"'perdure\.given'"):
        await ours.save(point(1, user_id="bob", metadata=metadata))
    assert await manager.list_by_user("bob") == []


@pytest.mark.parametrize("forged", _FORGERIES)
async def test_nor_does_it_say_whose_a_checkpoint_is_where_it_came_by_other_means(ours: Any, forged: object) -> None:
    """A thread of the namespace `flowagent` can be saved by its own face too."""
    manager = CheckpointManager(ours)
    alice = await saved(manager, "alice", city="Paris")
    bob = await saved(manager, "bob", city="Rome")
    thread = ours._store.thread("booking", user="bob")
    await thread.save(await thread.load(), status="RUNNING", metadata={FORGED: forged})
    found = await manager.list_by_user("bob")
    assert {(each.user_id, each.agent_id) for each in found} == {("bob", "booking")}
    assert found[-1].id == bob
    assert (await manager.restore(alice, user_id="alice")).collected_fields == {"city": "Paris"}
    assert [each.id for each in await manager.list_by_user("alice")] == [alice]


async def test_a_time_without_a_zone_does_not_stop_the_cleaning_up_for_everybody(ours: Any) -> None:
    await ours.save(point(1, user_id="bob", timestamp=datetime(2020, 1, 1)))
    kept = await saved(CheckpointManager(ours), "alice", n=1)
    assert await CheckpointManager(ours).cleanup_old_checkpoints(max_age_days=365) == 1
    assert [each.id for each in await ours.list_by_user("alice")] == [kept]
    assert await ours.list_by_user("bob") == []


async def test_what_one_user_does_leaves_the_others_alone(manager: CheckpointManager, storage: Any) -> None:
    alice = await saved(manager, "alice", city="Paris")
    await saved(manager, "bob", city="Rome")
    agent = await manager.restore(alice, user_id="alice")
    agent.user_id = "bob"  # code of bob's that got hold of it saves it as its own
    await manager.save(agent)
    assert [each.id for each in await manager.list_by_user("alice")] == [alice]
    assert len(await manager.list_by_user("bob")) == 2
    if hasattr(storage, "_store"):
        assert await manager.clear_user_history("bob") == 2
    assert (await manager.restore(alice, user_id="alice")).collected_fields == {"city": "Paris"}
