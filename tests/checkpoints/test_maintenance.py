"""Pruning a whole store: by a policy, for a user, with progress, and by itself after checkpoints."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, Retention, Rule, sync
from perdure.app import maintenance
from perdure.app.maintenance import EVERY
from perdure.app.store import parts_of
from perdure.core.errors import InvalidInputError, PlanOutdatedError, StorageBusyError
from perdure.core.ports import Silence
from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES, opened

HERE = ("memory", "file", "sqlite")
TEXT = "as it was " * 60


class Ticking(ManualClock):
    """A clock that goes on whenever it is looked at: no two points have the same time."""

    def now(self) -> int:
        self.advance(timedelta(seconds=1))
        return super().now()


@pytest.fixture(params=[f"{place} {mode}" for place in HERE for mode in ("sync", "async")])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    place, mode = request.param.split()
    async with opened(PLACES[place](tmp_path), mode, clock=Ticking()) as store:
        yield store


async def fill(store: Any, id: str, count: int = 4, **options: Any) -> Any:
    """A thread with so many points."""
    thread = store.thread(id, **options)
    for n in range(count):
        await thread.save({"n": n, "text": f"{id} {n} {TEXT}"}, kind="routine")
    return thread


async def left(store: Any, id: str, **options: Any) -> list[int]:
    thread = store.thread(id, **options)
    found = await thread.history(limit=1000)
    return [(await thread.load(point))["n"] for point in found]


async def test_a_policy_is_applied_to_every_thread(store: Any) -> None:
    """B9."""
    for id in ("a", "b", "c"):
        await fill(store, id, 2 if id == "c" else 4)
    report = await store.prune(Retention(last=2))
    assert [await left(store, id) for id in ("a", "b", "c")] == [[3, 2], [3, 2], [1, 0]]
    assert {each.thread_id: each.points for each in report.pruned} == {"a": 2, "b": 2}
    assert report.bytes > 0
    assert str(report).startswith("pruned 4 points of 2 threads")
    again = await store.prune(Retention(last=2))
    assert (again.pruned, again.plan.dropped, again.bytes) == ((), (), 0)


async def test_a_dry_run_tells_what_is_then_done_and_changes_nothing(store: Any) -> None:
    """B9."""
    for id in ("a", "b"):
        await fill(store, id)
    told = await store.prune(Retention(last=1), dry_run=True)
    assert (told.pruned, told.bytes, told.plan.bytes > 0) == ((), 0, True)
    assert await left(store, "a") == await left(store, "b") == [3, 2, 1, 0]
    assert "6 of 8 points to drop" in told.plan.text()
    done = await store.prune(Retention(last=1))
    assert {each.point.id for each in done.plan.dropped} == {each.point.id for each in told.plan.dropped}
    assert await left(store, "a") == await left(store, "b") == [3]


async def test_progress_is_told_thread_by_thread(store: Any) -> None:
    for id in ("a", "b", "c"):
        await fill(store, id)
    heard: list[tuple[int, int, str, int]] = []
    await store.prune(
        Retention(last=1), progress=lambda done, of, pruned: heard.append((done, of, pruned.thread_id, pruned.points))
    )
    assert [(done, of, points) for done, of, _, points in heard] == [(1, 3, 3), (2, 3, 3), (3, 3, 3)]
    assert {id for _, _, id, _ in heard} == {"a", "b", "c"}


async def test_a_prune_that_is_stopped_is_finished_by_the_next(store: Any) -> None:
    for id in ("a", "b", "c"):
        await fill(store, id)

    class Stopped(Exception):
        pass

    def stop(done: int, of: int, pruned: object) -> None:
        raise Stopped

    with pytest.raises(Stopped):
        await store.prune(Retention(last=1), progress=stop)
    assert sorted([len(await left(store, id)) for id in ("a", "b", "c")]) == [1, 4, 4]
    await store.prune(Retention(last=1))
    assert [await left(store, id) for id in ("a", "b", "c")] == [[3], [3], [3]]


async def test_only_a_users_threads_are_pruned_where_one_is_named(store: Any) -> None:
    """B9: another user's threads are not touched, whatever they are called."""
    for user in ("alice", "alice2"):
        await fill(store, "t", user=user)
    await store.prune(Retention(last=1), user="alice")
    assert await left(store, "t", user="alice") == [3]
    assert await left(store, "t", user="alice2") == [3, 2, 1, 0]
    await store.prune(Retention(last=1), user="nobody")
    assert await left(store, "t", user="alice2") == [3, 2, 1, 0]


async def test_limits_per_user_count_across_their_threads(store: Any) -> None:
    """B9."""
    for id, user in (("a", "alice"), ("b", "alice"), ("c", "bob")):
        await fill(store, id, user=user)
    await store.prune(Retention(last=3, per="user"))
    kept = [await left(store, id, user=user) for id, user in (("a", "alice"), ("b", "alice"), ("c", "bob"))]
    assert kept == [[3], [3, 2, 1], [3, 2, 1]]  # the newest of each thread stays


async def test_limits_per_agent_tell_agents_apart_exactly(store: Any) -> None:
    """S3.15: agent-1 is not agent-10."""
    for n in range(8):
        thread = store.thread("t", agent=("agent-1", "agent-10")[n % 2])
        await thread.load(default=None)
        await thread.save({"n": n, "text": TEXT}, kind="routine")
    await store.prune(Retention(kinds={"routine": Rule(last=2)}))
    assert await left(store, "t") == [7, 6, 5, 4]


async def test_other_namespaces_are_left_alone(tmp_path: Path) -> None:
    url = PLACES["sqlite"](tmp_path)[0]
    async with Perdure.open(url) as one, Perdure.open(url, namespace="other") as other:
        await fill(one, "t")
        await fill(other, "t")
        await one.prune(Retention(last=1))
        assert (await left(one, "t"), await left(other, "t")) == ([3], [3, 2, 1, 0])


async def test_without_a_policy_nothing_is_ever_pruned(store: Any) -> None:
    with pytest.raises(InvalidInputError, match="no policy"):
        await store.prune()
    await fill(store, "t", EVERY + 3)
    assert len(await left(store, "t")) == EVERY + 3
    for bad in (Rule(last=1), "all"):
        with pytest.raises(InvalidInputError):
            await store.prune(bad)


# ── by itself ─────────────────────────────────────────────────────────────────────────────────────────────────────────


class Heard(Silence):
    """Telemetry that remembers what was logged."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message))


KEEP = Retention(last=3)


@pytest.mark.parametrize("place", HERE)
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_store_with_a_policy_prunes_after_checkpoints(place: str, mode: str, tmp_path: Path) -> None:
    """S3.15, B9."""
    async with opened(PLACES[place](tmp_path), mode, retention=KEEP) as store:
        thread = await fill(store, "t", EVERY)
        assert len(await left(store, "t")) == EVERY
        await thread.save({"n": EVERY, "text": TEXT}, kind="routine")
        assert await left(store, "t") == [EVERY, EVERY - 1, EVERY - 2]
        await thread.append("log", "x", checkpoint=True)
        await store.prune()
        assert len(await left(store, "t")) == 3


async def test_points_of_appends_count_too(tmp_path: Path) -> None:
    async with Perdure.open(PLACES["sqlite"](tmp_path)[0], retention=KEEP) as store:
        thread = store.thread("t")
        for n in range(EVERY + 1):
            await thread.append("items", n, checkpoint=True)
        assert len(await thread.history(limit=1000)) == 3
        assert (await thread.load())["items"] == list(range(EVERY + 1))
        for n in range(2 * EVERY):
            await thread.append("items", n)
        assert len(await thread.history(limit=1000)) == 3


async def test_a_policy_per_user_looks_at_all_their_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(maintenance, "EVERY", 1)
    policy = Retention(last=3, per="user")
    async with Perdure.open(PLACES["sqlite"](tmp_path)[0], retention=policy) as store:
        for id, user in (("a", "alice"), ("c", "bob"), ("b", "alice")):
            await fill(store, id, user=user)
        kept = [await left(store, id, user=user) for id, user in (("a", "alice"), ("b", "alice"), ("c", "bob"))]
        assert kept == [[3], [3, 2, 1], [3, 2, 1]]


@pytest.mark.parametrize("error", [StorageBusyError("x", "busy"), PlanOutdatedError("t", "changed")])
async def test_a_save_never_fails_for_a_prune_that_did(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard = Heard()
    async with Perdure.open(PLACES["sqlite"](tmp_path)[0], retention=KEEP, telemetry=heard) as store:

        async def fail(*asked: object, **options: object) -> Any:
            raise error

        monkeypatch.setattr(parts_of(store).pruner, "points", fail)
        thread = await fill(store, "t", EVERY + 1)
        assert (await thread.load())["n"] == EVERY
        assert len(await thread.history(limit=1000)) == EVERY + 1
    assert heard.lines == [("warning", "a thread could not be pruned")] * 2


def test_what_is_no_policy_cannot_be_opened_with() -> None:
    for bad in (3, Rule(last=1), "all"):
        with pytest.raises(InvalidInputError, match="retention"):
            sync.Perdure.open("memory://", retention=bad)  # pyright: ignore[reportArgumentType]
