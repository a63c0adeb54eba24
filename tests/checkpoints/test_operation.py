"""A point around something risky: kept until the operation completed, gone back to when it failed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, Retention, Thread, sync
from perdure.core.errors import InvalidIdError, InvalidInputError, NotFoundError, VersionConflictError
from perdure.core.retention_policy import SEED_KINDS
from tests.checkpoints.places import PLACES

HERE = ("memory", "file", "sqlite")


class Risky(Exception):
    """What goes wrong in these tests."""


@pytest.fixture(params=HERE)
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[sync.Perdure]:
    with sync.Perdure.open(PLACES[request.param](tmp_path)[0]) as store:
        yield store


@pytest.fixture(params=HERE)
async def async_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Perdure]:
    async with Perdure.open(PLACES[request.param](tmp_path)[0]) as store:
        yield store


def thread_of(store: sync.Perdure) -> sync.Thread:
    thread = store.thread("t", agent="bot")
    thread.save({"n": 1})
    return thread


def fail(thread: sync.Thread, n: int, **options: Any) -> None:
    """An operation that saves n and then goes wrong."""
    with thread.operation("deploy", **options):
        thread.save({"n": n})
        raise Risky


async def fail_async(thread: Thread, name: str, n: int, **options: Any) -> None:
    """The same in asynchronous code."""
    async with thread.operation(name, **options):
        await thread.save({"n": n})
        raise Risky


def kinds(thread: sync.Thread) -> list[str]:
    return [point.kind for point in thread.history()]


def test_the_point_of_an_operation_stays_while_it_runs_and_may_go_once_it_completed(store: sync.Perdure) -> None:
    """S3.16."""
    thread = thread_of(store)
    with thread.operation("deploy") as point:
        assert (point.kind, point.note, point.agent_id) == ("pre_operation", "deploy", "bot")
        thread.save({"n": 2})
        thread.save({"n": 3})
        thread.prune(SEED_KINDS)
        assert thread.load(point) == {"n": 1}
    assert "pre_operation" in kinds(thread)  # cleared, and retention decides
    thread.prune(SEED_KINDS)
    assert "pre_operation" not in kinds(thread)
    assert thread.load() == {"n": 3}


def test_the_point_of_a_failed_operation_stays(store: sync.Perdure) -> None:
    """S3.16."""
    thread = thread_of(store)
    with pytest.raises(Risky):
        fail(thread, 2)
    (point,) = thread.history(kind="pre_operation")
    thread.save({"n": 3})
    thread.prune(SEED_KINDS)
    assert thread.load() == {"n": 3}
    assert thread.load(point) == {"n": 1}
    thread.clear(point)
    thread.prune(SEED_KINDS)
    assert kinds(thread) == ["manual"] * 3


def test_a_failed_operation_is_taken_back_where_that_is_asked_for(store: sync.Perdure) -> None:
    """S3.16, B5."""
    thread = thread_of(store)
    with pytest.raises(Risky):
        fail(thread, 2, on_failure="rewind")
    assert thread.load() == {"n": 1}
    newest = thread.history()[0]
    assert (newest.kind, newest.note) == ("rewind", "deploy failed")
    thread.save({"n": 4})
    assert thread.load() == {"n": 4}


def test_what_others_wrote_meanwhile_is_taken_back_too(store: sync.Perdure) -> None:
    thread = thread_of(store)

    def work() -> None:
        with thread.operation("deploy", on_failure="rewind"):
            store.thread("t").append("log", "by another handle")
            raise Risky

    with pytest.raises(Risky):
        work()
    assert thread.load() == {"n": 1}


def test_a_failed_operation_that_wrote_nothing_leaves_the_state(store: sync.Perdure) -> None:
    thread = thread_of(store)
    with pytest.raises(KeyboardInterrupt), thread.operation("deploy", on_failure="rewind"):
        raise KeyboardInterrupt
    assert thread.load() == {"n": 1}


def test_operations_may_stand_inside_each_other(store: sync.Perdure) -> None:
    thread = thread_of(store)
    with thread.operation("outer"):
        thread.save({"n": 2})
        with pytest.raises(Risky):
            fail(thread, 3, on_failure="rewind")
        assert thread.load() == {"n": 2}
        thread.save({"n": 4})
    assert thread.load() == {"n": 4}


def test_what_cannot_be_an_operation_is_refused_before_anything_happens(store: sync.Perdure) -> None:
    thread = thread_of(store)
    for name, options, error in (
        ("deploy", {"on_failure": "undo"}, InvalidInputError),
        ("", {}, InvalidIdError),
    ):
        with pytest.raises(error), thread.operation(name, **options):  # pyright: ignore[reportArgumentType]
            raise AssertionError("the block was entered")
    with pytest.raises(NotFoundError), store.thread("empty").operation("deploy"):
        raise AssertionError("the block was entered")
    assert len(thread.history()) == 1


def test_the_error_of_the_block_goes_on_as_it_was(store: sync.Perdure) -> None:
    thread = thread_of(store)
    error = Risky("why")
    with pytest.raises(Risky) as caught, thread.operation("deploy"):
        raise error
    assert caught.value is error


async def test_operations_in_asynchronous_code(async_store: Perdure) -> None:
    """S3.16."""
    thread = async_store.thread("t")
    await thread.save({"n": 1})
    async with thread.operation("one"):
        await thread.save({"n": 2})
    assert await thread.load() == {"n": 2}
    with pytest.raises(Risky):
        await fail_async(thread, "two", 3, on_failure="rewind")
    assert await thread.load() == {"n": 2}
    with pytest.raises(Risky):
        await fail_async(thread, "three", 4)
    assert await thread.load() == {"n": 4}
    await thread.prune(Retention(last=1, kinds=SEED_KINDS.kinds))
    left = {point.note for point in await thread.history(kind="pre_operation", everything=True)}
    assert left == {"two", "three"}


async def test_a_conflict_inside_a_block_is_an_error_of_the_block(async_store: Perdure) -> None:
    thread = async_store.thread("t")
    await thread.save({"n": 1})

    async def work() -> None:
        async with thread.operation("deploy", on_failure="rewind"):
            await async_store.thread("t").update(set={"n": 2})
            await thread.save({"n": 3})

    with pytest.raises(VersionConflictError):
        await work()
    assert await thread.load() == {"n": 1}
