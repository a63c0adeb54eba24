"""A task cancelled at any moment: its write is there wholly or not at all, and the store still works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any

import pytest

import perdure
from tests.faults.places import BACKENDS, same, url_of

BEFORE = {"items": ["x" * 3000, "y"], "deep": {"n": [1, 2]}}
CHANGED = {"items": ["x" * 3000, "z", "new" * 9000], "deep": {"n": [1, True]}}
Work = Callable[[perdure.Thread], Coroutine[Any, Any, Any]]

OPERATIONS: dict[str, tuple[Work, Any]] = {
    "save": (lambda thread: thread.save(CHANGED, key="once"), CHANGED),
    "append": (
        lambda thread: thread.append("items", "q" * 30_000, key="once"),
        {**BEFORE, "items": [*BEFORE["items"], "q" * 30_000]},
    ),
    "update": (lambda thread: thread.update(set={"deep.n": 5}, key="once"), {**BEFORE, "deep": {"n": 5}}),
    "load": (lambda thread: thread.load(), BEFORE),
    "load a version": (lambda thread: thread.load("@1"), BEFORE),
}


class Watched:
    """Runs a coroutine and counts how often it waits; at the chosen time its task is cancelled."""

    def __init__(self, work: Coroutine[Any, Any, Any], at: int, late: bool) -> None:
        self._work, self._at, self._late = work, at, late
        self.waits = 0

    def __await__(self) -> Generator[Any, Any, Any]:
        steps = self._work.__await__()
        task = asyncio.current_task()
        assert task is not None
        try:
            waited = next(steps)
            while True:
                self.waits += 1
                if self.waits == self._at:
                    self._cancel(task, waited)
                try:
                    value = yield waited
                except BaseException as exc:
                    waited = steps.throw(exc)
                else:
                    waited = steps.send(value)
        except StopIteration as done:
            return done.value

    def _cancel(self, task: asyncio.Task[Any], waited: Any) -> None:
        """At once, when the work is on its way; or late, when its answer is there and not yet taken."""
        if self._late and waited is not None:
            waited.add_done_callback(lambda _: task.cancel())
        else:
            asyncio.get_running_loop().call_soon(task.cancel)


async def _attempt(work: Coroutine[Any, Any, Any], at: int, late: bool) -> int | None:
    """Cancel at the `at`th wait; None when it was cancelled, else how often it waited."""
    watched = Watched(work, at, late)

    async def run() -> Any:
        return await watched

    try:
        await asyncio.create_task(run())
    except asyncio.CancelledError:
        return None
    return watched.waits


async def _settled(store: perdure.Perdure) -> None:
    """Wait until what was handed to a writer before is done: it works in order of arrival."""
    await store.thread("other").append("done", 1)


@pytest.mark.parametrize("late", [False, True], ids=["at once", "late"])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.parametrize("warm", [True, False], ids=["warm", "cold"])
@pytest.mark.parametrize("backend", BACKENDS)
async def test_a_cancelled_operation_is_whole_or_absent(
    backend: str, warm: bool, name: str, late: bool, tmp_path: Path
) -> None:
    for at in range(1, 30):
        folder = tmp_path / str(at)
        folder.mkdir()
        async with perdure.Perdure.open(url_of(backend, folder)) as store:
            if await _cancelled_once(store, backend, folder, OPERATIONS[name], (at, warm, late)):
                return
    raise AssertionError("an operation waits more than 30 times")


async def _cancelled_once(
    store: perdure.Perdure, backend: str, folder: Path, operation: tuple[Work, Any], how: tuple[int, bool, bool]
) -> bool:
    """Cancel one operation and look; True when it was over before the moment came."""
    (work, after), (at, warm, late) = operation, how
    await _prepared(store, backend, folder, warm)
    thread = store.thread("t")
    waits = await _attempt(work(thread), at, late)
    await _settled(store)
    found = await store.thread("t").load()
    assert same(found, after if waits is not None else found)
    assert same(found, BEFORE) or same(found, after)
    await _agree(store, backend, folder, found)
    await work(store.thread("t"))
    assert same(await store.thread("t").load(), after)
    await _goes_on(store, backend, folder)
    return waits is not None


async def _prepared(store: perdure.Perdure, backend: str, folder: Path, warm: bool) -> None:
    if warm or backend == "memory":
        await store.thread("t").save(BEFORE)
        return
    async with perdure.Perdure.open(url_of(backend, folder)) as first:
        await first.thread("t").save(BEFORE)


async def _agree(store: perdure.Perdure, backend: str, folder: Path, found: Any) -> None:
    """What the store remembers, what it reads from the log, and what another store reads are the same."""
    assert same(await store.thread("t").load("@-1"), found)
    if backend != "memory":
        async with perdure.Perdure.open(url_of(backend, folder)) as cold:
            assert same(await cold.thread("t").load(), found)


async def _goes_on(store: perdure.Perdure, backend: str, folder: Path) -> None:
    """The key was used once, and other writes go on."""
    thread = store.thread("t")
    entries = await thread.entries()
    assert [entry.key for entry in entries] in ([None, "once"], [None])
    await thread.append("items", "later")
    await _agree(store, backend, folder, await thread.load())
