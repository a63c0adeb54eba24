"""Streams: recorded as they come, made again after a crash, read from outside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import pytest

from perdure import Perdure
from perdure import sync as perdure_sync
from perdure.runtime.streaming import Chunk


class Source:
    """Gives numbers, and breaks once at one of them."""

    def __init__(self, breaks_at: int | None = None) -> None:
        self.started = 0
        self._breaks_at = breaks_at

    async def __call__(self, count: int) -> AsyncIterator[int]:
        for number in self.plain(count):
            yield number

    def plain(self, count: int) -> Iterator[int]:
        self.started += 1
        for number in range(count):
            if number == self._breaks_at and self.started == 1:
                raise ConnectionError("gone")
            yield number


async def test_a_stream_that_came_to_its_end_is_read_from_the_log() -> None:
    source = Source()
    async with Perdure.open("memory://") as store:
        for _ in range(2):
            async with store.thread("t").run(key="k") as run:
                items = [item async for item in run.stream("numbers", source, 40)]
                assert items == list(range(40))
        assert source.started == 1


async def test_a_stream_that_broke_is_made_again_from_its_begin() -> None:
    source = Source(breaks_at=35)
    async with Perdure.open("memory://") as store:
        with pytest.raises(ConnectionError):
            async with store.thread("t").run() as run:
                _ = [item async for item in run.stream("numbers", source, 40)]
        async with store.thread("t").run() as run:
            assert [item async for item in run.stream("numbers", source, 40)] == list(range(40))
        assert source.started == 2


async def test_a_reader_drops_the_attempt_that_broke() -> None:
    async with Perdure.open("memory://") as store:
        thread, source = store.thread("t"), Source(breaks_at=35)
        with pytest.raises(ConnectionError):
            async with thread.run() as run:
                _ = [item async for item in run.stream("numbers", source, 40)]
        partial = await thread.streamed()
        assert kept(partial) == list(range(32))
        async with thread.run() as run:
            _ = [item async for item in run.stream("numbers", source, 40)]
        assert kept([*partial, *await thread.streamed(after=partial[-1].version)]) == list(range(40))


def kept(chunks: list[Chunk]) -> list[int]:
    """What a reader has who begins anew with every attempt."""
    items: list[int] = []
    for chunk in chunks:
        items = [*items[: chunk.offset], *chunk.items]
    return items


def test_a_synchronous_stream_is_recorded_too() -> None:
    source = Source()
    with perdure_sync.Perdure.open("memory://") as store:
        for _ in range(2):
            with store.thread("t").run(key="k") as run:
                assert list(run.stream("numbers", source.plain, 20)) == list(range(20))
        assert source.started == 1
