"""LangGraph's savers on PostgreSQL as a child process.

    python -m benchmarks.peers.langgraph_postgres URL VARIANT TURNS

It reads one command a line and answers with one line: the seconds of the calls alone, or a number.

    save N        put() of PostgresSaver after turn N of thread w, on one connection as from_conn_string makes it
    get           get_tuple() of the newest checkpoint of w
    list N        list() of the N newest checkpoints of w
    threads N M   8 threads of one PostgresSaver on a pool of 8, each puts turns N to M of its own thread, all at once
    tasks N M     the same by 8 tasks and AsyncPostgresSaver
    close         let go of everything
"""

from __future__ import annotations

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from benchmarks.peers.langgraph import Play, newest
from benchmarks.peers.obeying import obey
from benchmarks.timing import timed

WRITERS = 8
_CONNECTION: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class Saver:
    """W through put(). Its put_writes() is left out, in the peer's favour."""

    def __init__(self, url: str, variant: Any, count: int) -> None:
        self._url = url
        self._variant = variant
        self._count = count
        self._connection = Connection.connect(url, **_CONNECTION)
        self._saver = PostgresSaver(self._connection)
        self._saver.setup()
        self._play = Play("w", variant, count)
        self._loop = asyncio.new_event_loop()

    def save(self, at: str) -> float:
        return self._play.put(self._saver.put, int(at))

    def get(self) -> float:
        return timed(lambda: self._saver.get_tuple(newest("w")))

    def list(self, count: str) -> float:
        return timed(lambda: list(self._saver.list(newest("w"), limit=int(count))))

    def threads(self, first: str, end: str) -> float:
        saver, hands, plays = self._pooled
        turns = range(int(first), int(end))

        def write(play: Play) -> None:
            for turn in turns:
                play.put(saver.put, turn)

        return timed(lambda: list(hands.map(write, plays)))

    @cached_property
    def _pooled(self) -> tuple[PostgresSaver, ThreadPoolExecutor, list[Play]]:
        pool = ConnectionPool(self._url, min_size=WRITERS, max_size=WRITERS, kwargs=_CONNECTION, open=True)
        pool.wait()
        return PostgresSaver(pool), ThreadPoolExecutor(WRITERS), self._plays("thread")

    def tasks(self, first: str, end: str) -> float:
        saver, plays = self._pooled_for_tasks
        turns = range(int(first), int(end))

        async def write(play: Play) -> None:
            for turn in turns:
                play.config = await saver.aput(*play.arguments(turn))

        async def write_all() -> None:
            await asyncio.gather(*(write(play) for play in plays))

        return timed(lambda: self._loop.run_until_complete(write_all()))

    @cached_property
    def _pooled_for_tasks(self) -> tuple[AsyncPostgresSaver, list[Play]]:
        async def opened() -> AsyncPostgresSaver:
            pool: Any = AsyncConnectionPool(
                self._url, min_size=WRITERS, max_size=WRITERS, kwargs=_CONNECTION, open=False
            )
            await pool.open(wait=True)
            return AsyncPostgresSaver(pool)

        return self._loop.run_until_complete(opened()), self._plays("task")

    def _plays(self, name: str) -> list[Play]:
        return [Play(f"{name}-{at}", self._variant, self._count) for at in range(WRITERS)]

    def close(self) -> int:
        self._connection.close()
        if "_pooled" in self.__dict__:
            self._pooled[0].conn.close()  # type: ignore[union-attr]
        if "_pooled_for_tasks" in self.__dict__:
            self._loop.run_until_complete(self._pooled_for_tasks[0].conn.close())  # type: ignore[union-attr]
        self._loop.close()
        return 0


if __name__ == "__main__":
    obey(Saver(sys.argv[1], sys.argv[2], int(sys.argv[3])))
