"""Pruning a thread: what goes and why, what is never dropped, and everything else as it was."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Retention, Rule, sync
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.retention_policy import SEED_KINDS
from perdure.testing.clock import ManualClock
from tests.app.isolation import bare, register
from tests.checkpoints.places import PLACES, opened

HERE = ("memory", "file", "sqlite")
TEXT = "as it was " * 60


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[f"{place} {mode}" for place in HERE for mode in ("sync", "async")])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    place, mode = request.param.split()
    async with opened(PLACES[place](tmp_path), mode, clock=clock) as store:
        yield store


def state(n: int) -> dict[str, Any]:
    return {"n": n, "text": f"{n} {TEXT}", "all": list(range(n))}


async def filled(store: Any, count: int = 6, **options: Any) -> tuple[Any, list[Any]]:
    """A thread with so many points, state n at version n."""
    thread = store.thread("t", agent="bot")
    return thread, [await thread.save(state(n), **options) for n in range(1, count + 1)]


async def numbers(thread: Any) -> list[int]:
    """Which points are listed, each loaded and compared."""
    found = await thread.history(limit=1000, everything=True)
    loaded = [await thread.load(point) for point in found]
    assert loaded == [state(each["n"]) for each in loaded]
    return [each["n"] for each in loaded]


async def test_all_but_the_newest_are_dropped_and_those_load_as_before(store: Any) -> None:
    """B9."""
    thread, _ = await filled(store)
    done = await thread.prune(2)
    assert (done.points, done.entries > 0, done.bytes > 0) == (4, True, True)
    assert await numbers(thread) == [6, 5]
    assert await store.thread("t").load() == state(6)
    again = await thread.prune(2)
    assert (again.points, again.entries, again.bytes) == (0, 0, 0)
    assert (await thread.info()).version == 7


@pytest.mark.parametrize("keep", [-1, True, 1.5, "1", None, Rule(last=1)])
async def test_what_is_no_policy_is_refused(store: Any, keep: Any) -> None:
    thread, _ = await filled(store, 3)
    for ask in (thread.plan, thread.prune):
        with pytest.raises(InvalidInputError):
            await ask(keep)
    assert await numbers(thread) == [3, 2, 1]


async def test_a_plan_changes_nothing_and_is_what_is_then_done(store: Any) -> None:
    """B9: a dry run."""
    thread, points = await filled(store)
    plan = await thread.plan(Retention(last=2))
    assert {each.point.id for each in plan.dropped} == {point.id for point in points[:4]}
    assert await numbers(thread) == [6, 5, 4, 3, 2, 1]
    assert (await thread.info()).version == 6
    assert plan.bytes > 0
    assert "4 of 6 points to drop" in plan.text()
    done = await thread.prune(Retention(last=2))
    assert (done.points, [point.id for point in await thread.history()]) == (4, [points[5].id, points[4].id])
    assert done.bytes > 0


async def test_points_go_by_age_and_size(store: Any, clock: ManualClock) -> None:
    """B9."""
    thread = store.thread("t")
    for n in range(1, 7):
        await thread.save(state(n))
        clock.advance(timedelta(days=1))
    await thread.prune(Retention(days=4))
    assert await numbers(thread) == [6, 5, 4, 3]
    plan = await thread.plan(Retention(bytes=0))
    assert len(plan.dropped) == 3
    await thread.prune(Retention(bytes=0))
    assert await numbers(thread) == [6]


async def test_the_kinds_of_the_seed_are_kept_as_it_says(store: Any, clock: ManualClock) -> None:
    """S3.15, S3.16, S3.17."""
    thread = store.thread("t", agent="bot")
    recoveries = [await thread.save(state(1), kind="recovery"), await thread.save(state(2), kind="recovery")]
    await thread.save(state(3), kind="pre_operation")
    for n in range(4, 9):
        await thread.save(state(n), kind="routine")
    await thread.save(state(9))
    await thread.prune(SEED_KINDS)
    assert await numbers(thread) == [9, 8, 7, 6, 3, 2, 1]  # three routine ones
    await thread.clear(recoveries[0])
    await thread.prune(SEED_KINDS)
    assert await numbers(thread) == [9, 8, 7, 6, 3, 2]
    clock.advance(timedelta(days=8))
    await thread.prune(SEED_KINDS)
    assert await numbers(thread) == [9, 8, 7, 6, 3]


async def test_routine_points_are_counted_per_agent(store: Any) -> None:
    """S3.15: agent-1 is not agent-10."""
    for n in range(1, 9):
        thread = store.thread("t", agent="agent-1" if n % 2 else "agent-10")
        await thread.load(default=None)
        await thread.save(state(n), kind="routine")
    await store.thread("t").prune(Retention(kinds={"routine": Rule(last=2)}))
    assert await numbers(store.thread("t")) == [8, 7, 6, 5]
    await store.thread("t").prune(Retention(kinds={"routine": Rule(last=1)}))
    assert await numbers(store.thread("t")) == [8, 7]


async def test_tagged_points_stay_until_the_tag_goes(store: Any) -> None:
    """B9: protected points."""
    thread, points = await filled(store)
    await thread.tag(points[1], "good")
    await thread.prune(1)
    assert await numbers(thread) == [6, 2]
    await thread.untag("good")
    await thread.prune(1)
    assert await numbers(thread) == [6]


async def test_a_tag_between_points_keeps_its_version(store: Any) -> None:
    thread = store.thread("t")
    for n in range(1, 9):
        await (thread.save(state(n)) if n % 4 == 0 else thread.update(set=state(n)))
    await thread.tag("@2", "good")
    await thread.prune(1)
    assert await thread.load("@tag:good") == state(2)
    assert await numbers(thread) == [8]
    with pytest.raises(NotFoundError, match="pruned"):
        await thread.load("@4")


async def test_what_was_forked_from_stays_until_the_fork_goes(store: Any) -> None:
    """B4, B9."""
    thread, points = await filled(store)
    branch = await thread.fork(points[2], to="branch")
    await branch.save(state(7))
    await thread.prune(1)
    await branch.prune(1)
    assert await numbers(thread) == [6, 3]
    assert await branch.load() == state(7)
    assert await branch.load("@3") == state(3)
    await branch.delete()
    await thread.prune(1)
    assert await numbers(thread) == [6]


async def test_what_a_fork_went_back_to_stays(store: Any) -> None:
    """B4, B5, B9."""
    thread, points = await filled(store)
    branch = await thread.fork(points[4], to="branch")
    await branch.rewind(points[1])
    await thread.prune(1)
    assert await numbers(thread) == [6, 5, 2]
    assert (await branch.load())["n"] == 2
    assert (await branch.redo()).to == 5
    assert (await branch.load())["n"] == 5


async def test_where_somebody_is_still_asked_stays(store: Any) -> None:
    """B9."""
    thread, _ = await filled(store, 3)
    register(store, "sync" if isinstance(bare(store), sync.Perdure) else "async")
    await store.start("ask", {"ask": "go on?", "who": None}, thread="t")
    await store.recover()
    (pause,) = await store.pauses("t")
    for n in range(4, 7):
        await thread.save(state(n))
    await thread.prune(1)
    assert await thread.load(pause.version) == state(3)
    await store.decide(pause, approved=True, by="ann")
    await store.resume("t")
    await thread.prune(1)
    assert await thread.load() == state(6)
    with pytest.raises(NotFoundError):
        await thread.load(pause.version)


async def test_a_thread_without_points_is_pruned_by_its_versions(store: Any) -> None:
    thread = store.thread("t")
    for n in range(1, 8):
        await thread.update(set=state(n))
    plan = await thread.plan(2)
    assert [each.point.id for each in plan.dropped] == [f"@{n}" for n in range(5, 0, -1)]
    await thread.prune(2)
    assert (await thread.load("@-1"), await thread.load("@-2")) == (state(7), state(6))
    with pytest.raises(NotFoundError):
        await thread.load("@-3")


async def test_marks_of_older_versions_go_with_their_entries(store: Any) -> None:
    thread, points = await filled(store, 4)
    mark = await thread.checkpoint(points[1], note="marked")
    await thread.prune(2)
    assert [point.id for point in await thread.history()] == [mark.id, points[3].id]
    assert await thread.load(mark) == state(2)
    await thread.save(state(5))
    await thread.prune(1)
    assert await numbers(thread) == [5]
    with pytest.raises(NotFoundError):
        await thread.load(mark)


async def test_what_was_left_by_a_rewind_is_pruned_like_the_rest(store: Any) -> None:
    """B5, B9."""
    thread, points = await filled(store)
    await thread.rewind(points[1])
    await thread.prune(1)
    assert await thread.load() == state(2)
    assert await numbers(thread) == [2]
    await thread.save(state(8))
    assert await store.thread("t").load() == state(8)
    assert (await thread.verify(restore=True)).damaged == []


async def test_a_redo_whose_goal_was_pruned_says_so(store: Any) -> None:
    thread, points = await filled(store)
    await thread.rewind(points[0])
    await thread.prune(1)
    with pytest.raises(NotFoundError, match="pruned"):
        await thread.redo()
    assert await thread.load() == state(1)


# ── messages ──────────────────────────────────────────────────────────────────────────────────────────────────────────


async def chat(store: Any) -> Any:
    """Nine messages, six of which live only in older states."""
    thread = store.thread("t")
    said: list[str] = []
    for n in range(9):
        said = [*said[-2:], f"{n} {TEXT}"]
        await thread.save({"messages": said, "n": n})
    return thread


async def test_messages_that_lived_only_in_dropped_states_are_kept(store: Any) -> None:
    """B9."""
    thread = await chat(store)
    before = await thread.messages()
    await thread.prune(1)
    assert await thread.messages() == before
    await thread.append("messages", "new")
    assert await thread.messages() == [*before, "new"]
    assert await thread.messages(limit=3) == [*before[-2:], "new"]
    await thread.tag("@-1", "here")
    await thread.save({"messages": ["summary"], "n": 10})
    await thread.save({"messages": ["summary", "x"], "n": 11})
    await thread.prune(1)
    assert await thread.messages() == [*before, "new", "summary", "x"]


async def test_messages_go_with_their_states_where_that_is_asked_for(store: Any) -> None:
    """B9."""
    thread = await chat(store)
    before = await thread.messages()
    await thread.prune(Retention(last=1, messages="drop"))
    assert await thread.messages() == before[-3:]
    await thread.append("messages", "new")
    assert await thread.messages() == [*before[-3:], "new"]


# ── space ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_large_values_of_dropped_points_give_their_room_back(store: Any, clock: ManualClock) -> None:
    """B9: compact really frees."""
    thread = store.thread("t")
    for n in range(4):
        await thread.save({"n": n, "large": f"{n}" * 200_000, "kept": "k" * 200_000})
    before = await store.sizes()
    await thread.prune(1)
    clock.advance(timedelta(hours=2))
    await store.compact()
    after = await store.sizes()
    assert (before.blobs, after.blobs) == (5, 2)
    assert await store.thread("t").load() == {"n": 3, "large": "3" * 200_000, "kept": "k" * 200_000}


async def test_a_pruned_thread_is_intact(store: Any) -> None:
    thread, points = await filled(store, 12)
    await thread.tag(points[3], "good")
    await thread.rewind(points[5])
    await thread.prune(3)
    await thread.save(state(14))
    assert (await thread.verify(restore=True)).damaged == []
    assert (await store.verify(restore=True)).damaged == []


# ── others at the same time ───────────────────────────────────────────────────────────────────────────────────────────


async def test_a_handle_that_knew_the_thread_before_goes_on(store: Any) -> None:
    thread, _ = await filled(store)
    other = store.thread("t")
    assert await other.load() == state(6)
    await thread.prune(1)
    assert await other.load() == state(6)
    await other.append("log", "one")
    await other.update(set={"n": 7})
    await other.save(state(8))
    assert await thread.load() == state(8)
    assert await other.load("@-1") == state(8)


@pytest.fixture(params=["file", "sqlite"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[sync.Perdure, sync.Perdure]]:
    """Two store objects on one place, as two processes have them."""
    url = PLACES[request.param](tmp_path)[0]
    with sync.Perdure.open(url) as one, sync.Perdure.open(url) as other:
        yield one, other


def test_another_process_that_knew_the_newest_state_goes_on(stores: tuple[sync.Perdure, sync.Perdure]) -> None:
    mine, theirs = (store.thread("t") for store in stores)
    for n in range(1, 6):
        mine.save(state(n))
    assert theirs.load() == state(5)
    mine.prune(1)
    theirs.append("log", "one")
    theirs.save(state(7))
    assert mine.load() == theirs.load() == state(7)


@pytest.mark.parametrize("tagged", [False, True])
def test_another_process_that_knew_a_state_inside_the_pruned_range_reads_the_newest(
    stores: tuple[sync.Perdure, sync.Perdure], tagged: bool
) -> None:
    mine, theirs = (store.thread("t") for store in stores)
    point = mine.save({"items": [TEXT]})
    if tagged:
        mine.tag(point, "good")  # so that what is pruned becomes a change, and not a base
    for n in range(3):
        mine.append("items", f"mine {n} {TEXT}", checkpoint=True)
    assert len(mine.load()["items"]) == 4
    theirs.load()
    for n in range(3):
        theirs.append("items", f"theirs {n} {TEXT}", checkpoint=True)
    theirs.prune(1)
    assert mine.load() == theirs.load()
    mine.append("items", "last")
    assert len(stores[1].thread("t").load()["items"]) == 8


def test_nothing_is_lost_while_others_write(tmp_path: Path) -> None:
    """Three writers and two who prune, each with a store of its own on one SQLite file."""
    url, each, failed = f"sqlite:///{tmp_path}/store.db", 25, list[BaseException]()
    done = threading.Event()

    def run(work: Any) -> None:
        try:
            with sync.Perdure.open(url) as store:
                work(store.thread("t"))
        except BaseException as exc:
            failed.append(exc)

    def write(name: str) -> Any:
        def work(thread: sync.Thread) -> None:
            for n in range(each):
                thread.append("items", f"{name} {n}", checkpoint=True)

        return work

    def prune(thread: sync.Thread) -> None:
        while not done.is_set():
            thread.prune(2)

    with sync.Perdure.open(url) as store:
        store.thread("t").save({"items": []})
    writers = [threading.Thread(target=run, args=(write(name),)) for name in "abc"]
    pruners = [threading.Thread(target=run, args=(prune,)) for _ in range(2)]
    for worker in (*writers, *pruners):
        worker.start()
    for worker in writers:
        worker.join(120)
    done.set()
    for worker in pruners:
        worker.join(60)
    with sync.Perdure.open(url) as store:
        thread = store.thread("t")
        items = thread.load()["items"]
        assert failed == []
        assert sorted(items) == sorted(f"{name} {n}" for name in "abc" for n in range(each))
        for name in "abc":
            assert [item for item in items if item.startswith(name)] == [f"{name} {n}" for n in range(each)]
        assert thread.verify(restore=True).damaged == []
        thread.prune(2)
        assert len(thread.history(limit=1000)) == 2


def test_a_fork_made_before_the_first_change_keeps_nobody_from_pruning() -> None:
    with sync.Perdure.open("memory://") as store:
        thread = store.thread("t")
        thread.append("messages", "hi")
        thread.tag("@1", "begun")
        thread.untag("begun")
        for number in range(20):
            thread.save({"messages": ["hi"], "n": number, "text": "x" * 200})
        fork = thread.fork("@1", to="early")
        thread.prune(1)
        assert fork.load() == {"messages": ["hi"]}
        assert thread.load()["n"] == 19


def test_messages_that_a_rewind_brought_back_stay_when_its_target_goes() -> None:
    with sync.Perdure.open("memory://") as store:
        thread, one, two = store.thread("t"), {"role": "user", "content": "one"}, {"role": "user", "content": "two"}
        thread.save({"x": 0})
        thread.save({"x": 0, "messages": [one]})
        thread.append("messages", two, checkpoint=True)
        thread.save({"x": 3})
        thread.rewind("@1")
        thread.tag("@5", "kept")
        thread.rewind("@5")
        thread.rewind("@4")
        assert thread.messages() == [one, two]
        thread.prune(1)
        assert thread.messages() == [one, two]
