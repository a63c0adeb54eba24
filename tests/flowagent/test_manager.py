"""Saving and restoring agents: the same on every storage, and on one with three methods."""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from perdure import Checkpoint, CheckpointManager, CheckpointStorage, Message, StandardAgent, register
from perdure.errors import InvalidInputError, NotFoundError, StorageMethodMissingError, UnsupportedValueError
from perdure.testing.clock import ManualClock
from tests.flowagent.places import ThreeMethods


class Traveller(StandardAgent):
    required_fields = ("city", "day")

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.plan: list[Any] = []
        self.client = object()

    async def on_running(self, msg: Message) -> str:
        self.plan.append(msg.content)
        return f"{len(self.plan)} in {self.collected_fields['city']}"


def traveller(**given: Any) -> Traveller:
    fields = {"city": "Paris", "day": datetime(2026, 5, 1, tzinfo=UTC)}
    return Traveller("agent-1", "user_123", collected_fields=fields, **given)


async def test_a_restored_agent_is_the_agent_with_its_history(manager: CheckpointManager) -> None:
    """S1.5, S1.6, S1.18; flowagent itself lost the history."""
    agent = traveller(context_summary="a trip")
    assert await agent.reply("museum") == "1 in Paris"
    restored = await manager.restore(await manager.save(agent))
    assert type(restored) is Traveller
    for name in ("agent_id", "user_id", "status", "collected_fields", "context_summary", "history", "plan"):
        assert getattr(restored, name) == getattr(agent, name), name
    assert list(restored.required_fields) == ["city", "day"]
    assert restored.checkpoint_manager is manager
    assert await restored.reply(Message(content="opera", role="user")) == "2 in Paris"
    assert [each.content for each in restored.history] == ["museum", "1 in Paris", "opera", "2 in Paris"]


async def test_a_checkpoint_shares_nothing_with_the_agent(manager: CheckpointManager) -> None:
    agent = traveller()
    saved: list[Checkpoint] = []
    manager.on("checkpoint_saved")(saved.append)
    point = await manager.save(agent)
    agent.collected_fields["city"] = "Rome"
    agent.plan.append("later")
    assert saved[0].collected_fields["city"] == "Paris"
    restored = await manager.restore(point)
    restored.collected_fields["city"] = "Oslo"
    assert (await manager.restore(point)).collected_fields["city"] == "Paris"
    assert (await manager.restore(point)).plan == []


async def test_saves_are_a_chain_and_listed_newest_first(manager: CheckpointManager) -> None:
    """S1.16, S1.30: five in one second, by a clock that stands still, are five in the right order."""
    agent = traveller()
    ids: list[str] = []
    for number in range(5):
        agent.collected_fields["number"] = number
        ids.append(await manager.save(agent, metadata={"number": number}))
    assert len(set(ids)) == 5
    assert all(each.startswith("chk_") for each in ids)  # S1.36
    found = await manager.list_by_user("user_123")
    assert [each.id for each in found] == ids[::-1]
    assert [each.parent_checkpoint_id for each in found] == [*ids[3::-1], None]
    assert [each.metadata for each in found] == [{"number": number} for number in (4, 3, 2, 1, 0)]
    assert [each.collected_fields["number"] for each in found] == [4, 3, 2, 1, 0]
    assert [each.id for each in await manager.list_by_user("user_123", limit=2, offset=1)] == [ids[3], ids[2]]


async def test_a_save_after_restoring_an_old_point_goes_on_from_there(manager: CheckpointManager) -> None:
    """S1.41: what came after that point stays listed, and can be restored."""
    agent = traveller()
    first = await manager.save(agent)
    agent.collected_fields["city"] = "Rome"
    second = await manager.save(agent)
    restored = await manager.restore(first)
    restored.collected_fields["day"] = "Monday"
    third = await manager.save(restored)
    fourth = await manager.save(restored)
    parents = {each.id: each.parent_checkpoint_id for each in await manager.list_by_user("user_123")}
    assert parents == {fourth: third, third: first, second: first, first: None}
    assert (await manager.restore(second)).collected_fields["city"] == "Rome"
    assert (await manager.restore(fourth)).collected_fields == {"city": "Paris", "day": "Monday"}
    fifth = await manager.save(agent)  # it never left its branch
    assert (await manager.list_by_user("user_123"))[0].parent_checkpoint_id == second
    assert (await manager.restore(fifth)).collected_fields["city"] == "Rome"


async def test_saves_at_once_are_one_after_the_other(manager: CheckpointManager) -> None:
    agent = traveller()
    ids = await asyncio.gather(*(manager.save(agent) for _ in range(5)))
    found = {each.id: each.parent_checkpoint_id for each in await manager.list_by_user("user_123")}
    assert list(found) == sorted(ids, reverse=True)
    assert list(found.values()) == [*sorted(ids, reverse=True)[1:], None]


async def test_users_and_agents_are_matched_exactly(manager: CheckpointManager) -> None:
    for agent_id, user_id in (("agent-1", "u"), ("agent-10", "u"), ("agent-1", "u2"), ("agent-1", "")):
        await manager.save(StandardAgent(agent_id, user_id))
    assert [(each.agent_id, each.user_id) for each in await manager.list_by_user("u")] == [
        ("agent-10", "u"),
        ("agent-1", "u"),
    ]
    assert [each.user_id for each in await manager.list_by_user("")] == [""]
    assert await manager.list_by_user("nobody") == []


async def test_exact_types_come_back(manager: CheckpointManager) -> None:
    agent = StandardAgent("a", "u", collected_fields={"pair": (1, 2), "at": datetime(2026, 1, 1), "raw": b"\0"})
    agent.collected_fields["message"] = Message(role="tool", content={"rows": [1, 2]})
    agent.collected_fields["part"] = agent.collected_fields["message"].content
    restored = await manager.restore(await manager.save(agent))
    assert restored.collected_fields == agent.collected_fields
    assert type(restored.collected_fields["pair"]) is tuple


async def test_comparing_names_the_changed_fields_and_the_statuses(manager: CheckpointManager) -> None:
    """S1.19, S1.20, S1.21."""
    agent = StandardAgent("a", "u", status="RUNNING", collected_fields={"same": 1, "a.b": 1, "gone": 1, "one": 1})
    old = await manager.save(agent)
    agent.collected_fields = {"same": 1, "a.b": 2, "one": True, "new": None}
    agent.status = "COMPLETED"
    agent.history.append(Message(role="user", content="hi"))
    diff = await manager.compare(old, await manager.save(agent))
    assert diff.changed_fields == ["a.b", "gone", "one", "new"]
    assert (diff.old_status, diff.new_status) == ("RUNNING", "COMPLETED")
    assert [each.path for each in diff.differences][-1] == "history[0:0]"
    assert str(diff).startswith("status: 'RUNNING' -> 'COMPLETED'\ncollected_fields")
    same = await manager.compare(old, old)
    assert (same.changed_fields, same.differences, str(same)) == ([], [], "no difference")


async def test_what_does_not_exist_is_said_to_be_absent(manager: CheckpointManager) -> None:
    for call in (manager.restore("chk_0"), manager.compare("chk_0", "chk_1")):
        with pytest.raises(NotFoundError, match="'chk_0' does not exist"):
            await call


async def test_handlers_hear_of_what_was_done_and_cannot_harm_it(
    manager: CheckpointManager, caplog: pytest.LogCaptureFixture
) -> None:
    """S1.39, S1.40."""
    heard: list[Any] = []

    @manager.on("checkpoint_saved")
    def broken(checkpoint: Checkpoint) -> None:
        raise RuntimeError("a defect of the handler")

    @manager.on("checkpoint_saved")
    async def saved(checkpoint: Checkpoint) -> None:
        heard.append((checkpoint.id, (await manager.list_by_user("u"))[0].id, checkpoint.status))

    @manager.on("checkpoint_restored")
    async def restored(checkpoint: Checkpoint, agent: StandardAgent) -> None:
        heard.append((checkpoint.id, agent.agent_id))

    assert callable(broken)
    assert saved.__name__ == "saved"
    with caplog.at_level(logging.ERROR):
        point = await manager.save(StandardAgent("a", "u", status="RUNNING"))
    await manager.restore(point)
    assert heard == [(point, point, "RUNNING"), (point, "a")]
    assert "a defect of the handler" in caplog.text
    assert restored is not None


async def test_there_are_only_two_events(manager: CheckpointManager) -> None:
    with pytest.raises(InvalidInputError, match="checkpoint_saved, checkpoint_restored"):
        manager.on("saved")


async def test_a_storage_with_three_methods_names_the_one_to_add() -> None:
    """S1.9, S1.10, S1.11: it can do everything but delete."""
    manager = CheckpointManager(ThreeMethods())
    with pytest.raises(StorageMethodMissingError, match=r"ThreeMethods .* `async def delete_by_user\(self, user_id"):
        await manager.clear_user_history("u")
    with pytest.raises(StorageMethodMissingError, match=r"delete_older_than\(self, moment: datetime\) -> int"):
        await manager.cleanup_old_checkpoints()


async def test_a_storage_that_adds_the_method_can_delete(clock: ManualClock) -> None:
    asked: list[Any] = []

    class Deleting(ThreeMethods):
        async def delete_by_user(self, user_id: str) -> int:
            asked.append(user_id)
            return 3

        async def delete_older_than(self, moment: datetime) -> int:
            asked.append(moment)
            return 4

    manager = CheckpointManager(Deleting(), clock=clock)
    assert (await manager.clear_user_history("u"), await manager.cleanup_old_checkpoints(max_age_days=7)) == (3, 4)
    assert asked == ["u", datetime(2025, 12, 25, tzinfo=UTC)]


async def test_a_storage_may_choose_ids_and_keep_objects() -> None:
    class Numbered(CheckpointStorage):
        points: dict[str, Checkpoint] = {}  # noqa: RUF012

        async def save(self, checkpoint: Checkpoint) -> str:
            self.points[f"n{len(self.points)}"] = checkpoint
            return f"n{len(self.points) - 1}"

        async def load(self, checkpoint_id: str) -> Checkpoint | None:
            return self.points.get(checkpoint_id)

        async def list_by_user(self, user_id: str, limit: int = 50, offset: int = 0) -> list[Checkpoint]:
            return list(self.points.values())

    manager, agent = CheckpointManager(Numbered()), traveller()
    assert [await manager.save(agent), await manager.save(agent)] == ["n0", "n1"]
    assert (await manager.list_by_user("user_123"))[1].parent_checkpoint_id == "n0"
    agent.collected_fields["city"] = "Rome"
    assert (await manager.restore("n1")).collected_fields["city"] == "Paris"


class Slotted(Traveller):
    __slots__ = ("__secret", "client", "context_summary", "later", "stops")

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.stops, self.__secret = ["Rome"], 7

    def told(self) -> int:
        return self.__secret


class SlottedAgain(Slotted):
    __slots__ = "hotel"


async def test_attributes_in_slots_are_kept_like_all_others(manager: CheckpointManager) -> None:
    agent = SlottedAgain("a", "u", context_summary="a trip")
    agent.hotel = {"stars": 5}
    point = await manager.save(agent)
    agent.stops.append("Oslo")
    restored = await manager.restore(point)
    assert (restored.stops, restored.hotel, restored.told(), restored.plan) == (["Rome"], {"stars": 5}, 7, [])
    assert restored.context_summary == "a trip"
    for name in ("later", "client"):  # never set, and no data
        with pytest.raises(AttributeError, match=f"set '{name}' in on_restored"):
            getattr(restored, name)


async def test_what_cannot_be_kept_is_refused_when_saving(manager: CheckpointManager) -> None:
    @dataclass
    class Leg:
        to: str

    agent = traveller()
    agent.plan.append(Leg("Rome"))
    with pytest.raises(UnsupportedValueError, match=r"agent.plan\[0\]: .*Leg cannot be kept; add perdure.register"):
        await manager.save(agent)
    assert await manager.list_by_user("user_123") == []
    register(Leg, tag="tests.flowagent.Leg")
    assert (await manager.restore(await manager.save(agent))).plan == [Leg("Rome")]
    agent.counts = defaultdict(int)  # type: ignore[attr-defined]
    with pytest.raises(UnsupportedValueError, match=r"agent.counts: .*turn it into a plain dict"):
        await manager.save(agent)


async def test_a_resource_is_left_out_and_missed_by_name(
    manager: CheckpointManager, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO):
        point = await manager.save(traveller())
    restored = await manager.restore(point)
    with pytest.raises(AttributeError, match=r"made without __init__: set 'client' in on_restored\(\)"):
        _ = restored.client


async def test_an_agent_makes_its_resources_again(manager: CheckpointManager) -> None:
    class Reconnecting(Traveller):
        async def on_restored(self) -> None:
            self.client = "again"  # type: ignore[assignment]

    agent = Reconnecting("a", "u")
    assert (await manager.restore(await manager.save(agent))).client == "again"


async def test_a_factory_makes_the_agent_where_there_is_one(storage: CheckpointStorage) -> None:
    def make(agent_id: str, user_id: str) -> Traveller:
        made = Traveller(agent_id, user_id)
        made.client = "from the factory"  # type: ignore[assignment]
        return made

    point = await CheckpointManager(storage).save(traveller())
    restored = await CheckpointManager(storage, factories={"Traveller": make}).restore(point)
    assert (restored.client, restored.collected_fields["city"]) == ("from the factory", "Paris")


def lost_agent() -> StandardAgent:
    class Lost(StandardAgent):
        pass

    return Lost("a", "u")


async def test_an_unknown_class_is_named_with_what_to_do() -> None:
    storage = ThreeMethods()
    manager = CheckpointManager(storage)
    point = await manager.save(lost_agent())
    storage.texts[point] = storage.texts[point].replace('"Lost"', '"NeverDefined"')
    with pytest.raises(NotFoundError, match=r"called 'NeverDefined' .*factories={'NeverDefined': …}"):
        await manager.restore(point)


async def test_of_classes_with_one_name_the_saved_one_is_restored() -> None:
    def make(place: str) -> type[StandardAgent]:
        return type("Twin", (StandardAgent,), {"__module__": place, "__qualname__": "Twin"})

    one, other = make("one"), make("other")
    storage = ThreeMethods()
    manager = CheckpointManager(storage)
    point = await manager.save(one("a", "u"))
    assert type(await manager.restore(point)) is one
    storage.texts[point] = storage.texts[point].replace("one:Twin", "elsewhere:Twin")
    with pytest.raises(InvalidInputError, match=r"several agents are called 'Twin' \(one:Twin, other:Twin\)"):
        await manager.restore(point)
    assert other is not one


async def test_a_class_that_is_defined_again_takes_over(manager: CheckpointManager) -> None:
    """As in a notebook: the newest definition counts."""

    def make(answer: str) -> type[StandardAgent]:
        class Redefined(StandardAgent):
            async def on_running(self, msg: Message) -> str:
                return answer

        return Redefined

    first = make("old")
    point = await manager.save(first("a", "u"))
    second = make("new")
    restored = await manager.restore(point)
    assert type(restored) is second
    assert await restored.reply("hi") == "new"


async def test_ages_and_arguments_are_checked(manager: CheckpointManager) -> None:
    for call in (
        manager.cleanup_old_checkpoints(max_age_days=-1),
        manager.cleanup_old_checkpoints(max_age_days="30"),  # type: ignore[arg-type]
        manager.list_by_user("u", offset="1"),  # type: ignore[arg-type]
        manager.save("no agent"),  # type: ignore[arg-type]
        manager.save(StandardAgent("a", "u"), metadata={"x": object()}),
    ):
        with pytest.raises(InvalidInputError):
            await call
    for name in ("limit", "offset"):
        with pytest.raises(InvalidInputError, match=f"{name} must be an int from 0 to .*, not -1"):
            await manager.list_by_user("u", **{name: -1})
    with pytest.raises(InvalidInputError, match="must be a CheckpointStorage"):
        CheckpointManager("sqlite:///x.db")  # type: ignore[arg-type]


async def test_timestamps_come_from_the_clock(manager: CheckpointManager, clock: ManualClock) -> None:
    """S1.31."""
    agent = StandardAgent("a", "u")
    await manager.save(agent)
    clock.advance(timedelta(hours=1))
    await manager.save(agent)
    hours = [each.timestamp - datetime(2026, 1, 1, tzinfo=UTC) for each in await manager.list_by_user("u")]
    assert hours == [timedelta(hours=1), timedelta(0)]
