"""The checkpoints that runs save by themselves: where, how often, and at no cost of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, Retention, Rule, ScriptedModel, Triggers, sync
from perdure.core.policies import Policies
from perdure.errors import InvalidInputError
from perdure.runtime.models import call_model
from perdure.runtime.triggering import turned
from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES
from tests.runtime.scenes import Jobs, Killed, block, dies, jobs, kinds

__all__ = ["jobs"]

Open = Callable[..., Any]


@pytest.fixture(params=["memory", "sqlite"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Open:
    url, _ = PLACES[request.param](tmp_path)

    @asynccontextmanager
    async def opened(**triggers: Any) -> AsyncIterator[Any]:
        async with Perdure.open(url, checkpoints=Triggers(**triggers), clock=ManualClock()) as store:
            await store.thread("t").save({"messages": []}, note="the first")
            yield store

    return opened


async def answer(messages: list[Any], **settings: Any) -> str:
    return f"answer {len(messages)}"


async def talking(run: Any, turns: int, model: Any = answer) -> None:
    for turn in range(turns):
        await run.model(model, [f"question {at}" for at in range(turn + 1)])


async def points(store: Any) -> list[str | None]:
    """The notes of the checkpoints, oldest first."""
    return [point.note for point in (await store.thread("t").history())[::-1]][1:]


async def test_by_event_every_turn_is_a_point_that_people_understand(opening: Open) -> None:
    """S4.13."""
    async with opening(strategy="event") as store:
        async with store.thread("t").run() as run:
            await talking(run, 3)
        assert await points(store) == ["after turn 1", "after turn 2", "after turn 3"]
        (point, *_) = await store.thread("t").history()
        assert (point.kind, point.metadata) == ("routine", {"trigger": "event", "turn": 3, "run": run.id})
        assert await store.thread("t").load(point) == {"messages": []}


async def test_a_checkpoint_is_in_the_write_of_its_turn(opening: Open) -> None:
    """S4.32: it is a reference of a few bytes, and costs no commit."""
    async with opening(strategy="event") as store:
        async with store.thread("t").run() as run:
            await talking(run, 1)
        entries = [each for each in await store.thread("t").entries() if each.version > 2]
        assert [each.kind.value for each in entries] == [
            "step.finished", "model.called", "checkpoint.saved", "run.finished",
        ]  # fmt: skip
        assert len({each.write_id for each in entries[:3]}) == 1
        assert len(entries[2].payload) < 200


async def test_by_interval_every_fifth_turn_and_the_end_are_points(opening: Open) -> None:
    """S4.14: every N iterations plus events; N is 5."""
    async with opening(strategy="interval") as store:
        await block(store, lambda run: talking(run, 11))
        assert await points(store) == ["after turn 5", "after turn 10", "at the end"]


async def test_by_interval_pauses_and_errors_are_points_too(opening: Open) -> None:
    """S4.14."""
    async with opening(strategy="interval", interval=2) as store:
        with suppress(ValueError):
            async with store.thread("t").run(key="k") as run:
                await talking(run, 2)
                raise ValueError("no")
        async with store.thread("t").run(key="k") as run:
            await talking(run, 2)
            await run.pause("go", ask="Go on?")
        assert await points(store) == ["after turn 2", "failed: ValueError", "Go on?"]
        told = [(each.kind, each.status) for each in await store.thread("t").history(limit=2)]
        assert told == [("pause", "input_required"), ("recovery", "failed")]


async def test_hybrid_is_both(opening: Open) -> None:
    """S4.15."""
    async with opening(strategy="hybrid", interval=2) as store:
        await block(store, lambda run: talking(run, 2))
        assert await points(store) == ["after turn 1", "after turn 2", "at the end"]
        asked = [each.metadata["trigger"] for each in await store.thread("t").history(limit=3)]
        assert asked == ["end", "interval", "event"]


async def test_nothing_is_saved_when_checkpoints_are_off_and_manual_ones_still_are(opening: Open) -> None:
    """S4.12."""
    async with opening(enabled=False, strategy="hybrid", after_tools=True, before_llm=True) as store:
        async with store.thread("t").run() as run:
            await talking(run, 2)
            await run.tool("send", answer, [])
            await run.save({"done": True}, note="by hand")
            await run.pause("go", ask="Go on?")
        assert await points(store) == ["by hand"]
        assert (await kinds(store)).count("step.finished") == 2  # the journal is not a matter of strategy


async def test_without_a_strategy_only_a_pause_is_a_point(opening: Open) -> None:
    async with opening() as store:
        async with store.thread("t").run() as run:
            await talking(run, 6)
            await run.pause("go", ask="Go on?")
        assert await points(store) == ["Go on?"]


async def test_after_tools_the_result_of_a_tool_is_a_point(opening: Open, jobs: Jobs) -> None:
    """S4.16."""
    async with opening(after_tools=True) as store:
        async with store.thread("t").run() as run:
            await run.step("plan", jobs.job("plan"))
            await run.tool("scrape", jobs.job("scrape", "page"))
        assert await points(store) == ["after tool scrape"]


async def test_after_tools_the_point_of_an_agent_has_the_result_in_it(opening: Open) -> None:
    """S4.16."""

    async def look(city: str) -> str:
        return f"{city}: fine"

    async with opening(after_tools=True) as store:
        calls = [("look", {"city": "Rome"}), ("look", {"city": "Bonn"}), ("gone", {})]
        agent = store.agent("helper", model=ScriptedModel([calls, [("gone", {})], "done"]), tools=[look])
        await agent.run("go", thread="t")
        assert await points(store) == ["after tool look, look"]
        (point, *_) = await store.thread("t").history()
        messages = (await store.thread("t").load(point))["messages"]
        assert [each["content"] for each in messages[2:4]] == ["Rome: fine", "Bonn: fine"]


@pytest.mark.parametrize("after_tools", [True, False])
async def test_a_long_tool_is_never_run_again_after_a_crash(opening: Open, jobs: Jobs, after_tools: bool) -> None:
    """S4.16: with the checkpoint, and without one: its result is in the log."""
    async with opening(after_tools=after_tools) as store:

        async def work(run: Any) -> Any:
            page = await run.tool("scrape", jobs.job("scrape", "page"))
            await run.step("read", jobs.job("read", dies=[1]))
            return page

        await dies(block(store, work))
        assert await block(store, work) == "page"
        assert (jobs.count("scrape"), jobs.count("read")) == (1, 2)
        assert await points(store) == ["after tool scrape"] * after_tools


async def test_before_a_model_is_asked_its_prompt_is_there(opening: Open) -> None:
    """S4.17: the prompt of a call that crashed can be read."""

    async def crashes(messages: list[Any], **settings: Any) -> str:
        raise Killed

    async with opening(before_llm=True) as store:
        await dies(block(store, lambda run: run.model(crashes, ["a prompt", "made badly"], temperature=2)))
        (point, *_) = await store.thread("t").history()
        seen = await store.thread("t").seen(point)
        assert (point.note, seen.messages, seen.settings) == (
            "before turn 1", ["a prompt", "made badly"], {"temperature": 2},
        )  # fmt: skip
        assert (await kinds(store))[-2:] == ["model.called", "checkpoint.saved"]


async def test_a_request_that_was_written_before_a_crash_is_not_written_again(opening: Open, jobs: Jobs) -> None:
    """S4.17."""

    async def work(run: Any) -> Any:
        messages = ["one"]
        for _ in range(3):
            messages.append(await run.model(jobs.job("model", "said", dies=[2]), messages))
        return messages

    async with opening(before_llm=True, strategy="event") as store:
        await dies(block(store, work))
        assert await block(store, work) == ["one", "said", "said", "said"]
        assert (jobs.count("model"), (await kinds(store)).count("model.called")) == (4, 3)
        assert await points(store) == [f"{when} turn {turn}" for turn in (1, 2, 3) for when in ("before", "after")]
        assert (await store.thread("t").seen()).messages == ["one", "said", "said"]


async def test_before_a_model_its_prompt_is_written_also_in_a_thread_without_a_state() -> None:
    async def crashes(messages: list[Any], **settings: Any) -> str:
        raise Killed

    async with Perdure.open("memory://", checkpoints=Triggers(before_llm=True, strategy="hybrid")) as store:
        await dies(block(store, lambda run: run.model(crashes, ["a prompt"])))
        assert (await store.thread("t").seen()).messages == ["a prompt"]
        assert await store.thread("t").history() == []


async def test_a_long_conversation_that_is_written_before_it_is_asked_stays_linear(tmp_path: Path) -> None:
    path, messages = tmp_path / "long.db", list[str]()
    async with Perdure.open(f"sqlite:///{path}", checkpoints=Triggers(before_llm=True, strategy="event")) as store:
        await store.thread("t").save({})
        async with store.thread("t").run() as run:
            for turn in range(100):
                messages.append(f"question {turn} " + "t" * 8000)
                await run.model(answer, messages)
        assert (await store.thread("t").seen()).messages == messages
    assert path.stat().st_size < 2_500_000


async def test_turns_are_counted_on_after_a_crash_and_no_point_is_saved_twice(opening: Open) -> None:
    """S4.14, S4.1: recorded turns count, and have their points already."""
    alive = [False]

    async def work(run: Any) -> None:
        await talking(run, 3)
        if not alive[0]:
            raise Killed
        await talking_on(run)

    async def talking_on(run: Any) -> None:
        for turn in range(3):
            await run.model(answer, [f"later {turn}"])

    async with opening(strategy="interval", interval=2) as store:
        await dies(block(store, work))
        alive[0] = True
        await block(store, work)
        assert await points(store) == ["after turn 2", "after turn 4", "after turn 6", "at the end"]


async def test_by_time_a_point_is_saved_at_the_next_moment(tmp_path: Path) -> None:
    clock = ManualClock()
    triggers = Triggers(every=timedelta(minutes=30))
    async with Perdure.open("memory://", checkpoints=triggers, clock=clock) as store:
        await store.thread("t").save({})
        async with store.thread("t").run() as run:
            for minutes in (10, 10, 10, 10, 19, 1):
                clock.advance(timedelta(minutes=minutes))
                await run.model(answer, [minutes])
        assert await points(store) == ["after turn 3", "after turn 6"]


async def test_a_loop_saves_the_turn_with_its_reply(opening: Open) -> None:
    """S4.13: the point of a turn has the reply in it, and after a crash it is still one point."""
    alive = [False]

    async def loop(run: Any) -> None:
        for turn in range(2):
            reply = await call_model(run, answer, [f"question {turn}"], "model", {}, checkpoint=False)
            await run.append("messages", reply, checkpoint=turned(run))
            if not alive[0]:
                raise Killed

    async with opening(strategy="event") as store:
        await dies(block(store, loop))
        alive[0] = True
        await block(store, loop)
        history = (await store.thread("t").history())[::-1][1:]
        assert [each.note for each in history] == ["after turn 1", "after turn 2"]
        assert [len((await store.thread("t").load(each))["messages"]) for each in history] == [1, 2]


async def test_a_loop_goes_on_under_another_strategy(tmp_path: Path) -> None:
    """A write that had a checkpoint is the same write without one."""
    alive, url = [False], f"sqlite:///{tmp_path}/store.db"

    async def loop(run: Any) -> str:
        reply = await call_model(run, answer, ["question"], "model", {}, checkpoint=False)
        await run.append("messages", reply, checkpoint=turned(run))
        if not alive[0]:
            raise Killed
        return "done"

    for strategy in ("event", None, "hybrid"):
        async with Perdure.open(url, checkpoints=Triggers(strategy=strategy)) as store:  # type: ignore[arg-type]
            alive[0] = strategy == "hybrid"
            with suppress(Killed):
                assert await block(store, loop) == "done"
    async with Perdure.open(url) as store:
        history = await store.thread("t").history()
        assert [each.note for each in history] == ["at the end", "after turn 1"]
        assert (await store.thread("t").load())["messages"] == ["answer 1"]


async def test_tools_side_by_side_are_a_point_each(opening: Open, jobs: Jobs) -> None:
    async with opening(after_tools=True, strategy="event") as store:
        async with store.thread("t").run() as run:
            await asyncio.gather(*(run.tool(f"tool {at}", jobs.job(f"{at}", at)) for at in range(4)))
        assert sorted(map(str, await points(store))) == [f"after tool tool {at}" for at in range(4)]
        assert (await store.verify(restore=True)).ok


async def test_a_policy_prunes_the_points_of_a_run_when_it_is_over(tmp_path: Path) -> None:
    keep = Retention(kinds={"routine": Rule(last=3)})
    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url, retention=keep, checkpoints=Triggers(strategy="event")) as store:
        await store.thread("t").save({"messages": []}, note="the first")
        await block(store, lambda run: talking(run, 60))
        assert await points(store) == ["after turn 58", "after turn 59", "after turn 60"]


def test_synchronous_runs_save_the_same_points() -> None:
    """S4.13, S4.16."""
    with sync.Perdure.open("memory://", checkpoints=Triggers(strategy="event", after_tools=True)) as store:
        store.thread("t").save({})
        with store.thread("t").run() as run:
            run.model(lambda messages: "said", ["hi"])
            run.tool("send", lambda: "sent")
        assert [point.note for point in store.thread("t").history()] == ["after tool send", "after turn 1", None]


async def test_open_takes_policies_and_nothing_else() -> None:
    for wrong in ({"checkpoints": "event"}, {"recovery": True}, {"approvals": ["deploy"]}, {"webhooks": ["http://x"]}):
        with pytest.raises(InvalidInputError, match=next(iter(wrong))):
            Perdure.open("memory://", **wrong)  # type: ignore[arg-type]
    store = Perdure.open("memory://")
    assert store._parts.running.runtime.triggers == Policies().checkpoints == Triggers()
    await store.close()


async def test_a_rerun_saves_its_points_on_the_fork_and_its_prompts_are_seen_there(opening: Open) -> None:
    """S4.17."""

    async def work(run: Any) -> None:
        messages = ["one"]
        for _ in range(3):
            messages.append(await run.model(answer, messages))

    async with opening(before_llm=True, strategy="event") as store:
        store.handler("talk")(work)
        await store.start("talk", thread="t")
        await store.resume("t")
        before_2 = (await store.thread("t").history())[::-1][3]
        assert before_2.note == "before turn 2"
        (info,) = await store.thread("t").rerun(before_2, to="again")
        again = store.thread("again")
        assert info.status == "finished"
        assert (await again.seen()).messages == ["one", "answer 1", "answer 2"]
        newest = await again.history(limit=3)
        assert [point.note for point in newest] == ["after turn 3", "before turn 3", "after turn 2"]
        assert (await again.seen(newest[2])).messages == ["one", "answer 1"]
        assert (await store.verify(restore=True)).ok


async def test_a_model_that_fails_inside_a_step_is_asked_again_with_the_same_request(opening: Open, jobs: Jobs) -> None:
    """S4.17: in a step that is tried again, the request that was written stays the one."""
    async with opening(before_llm=True) as store:
        async with store.thread("t").run() as run:

            async def plan() -> Any:
                return await run.model(jobs.fails("model", ValueError("overloaded"), 1), ["plan"])

            assert await run.options(retry=2).step("plan", plan) == 2
            assert run.triggering.turns == 1
        assert (await kinds(store)).count("model.called") == 1
        assert await points(store) == ["before turn 1"]
        assert (await store.thread("t").seen()).messages == ["plan"]


async def test_a_turn_inside_a_step_that_is_tried_again_is_one_turn(opening: Open, jobs: Jobs) -> None:
    """S4.14."""
    async with opening(strategy="event") as store:
        async with store.thread("t").run() as run:

            async def plan() -> Any:
                await run.model(answer, ["plan"])
                return await jobs.fails("check", ValueError("no"), 2)()

            jobs.ran.clear()
            await run.options(retry=3).step("plan", plan)
            await run.model(answer, ["go on"])
        assert await points(store) == ["after turn 1", "after turn 2"]
