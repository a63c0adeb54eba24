"""The savers that are compared, each in the child process of its own; imported where LangGraph is."""

from __future__ import annotations

import contextlib
import sqlite3
from typing import Any

import langgraph.graph  # noqa: F401  # whoever has a saver has a graph: importing that is part of no figure
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from psycopg import Connection
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from perdure.adapters.langgraph import PerdureSaver

WRITERS = 8
_CONNECTION: Any = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}


class Side:
    """One saver on one database."""

    saver: Any

    def __init__(self, url: str) -> None:
        self._url = url
        self._closing = contextlib.AsyncExitStack()

    def open(self) -> None:
        """Make the saver, connected and its layout checked."""
        raise NotImplementedError

    def for_threads(self) -> Any:
        """The saver for eight threads at once."""
        return self.saver

    async def for_tasks(self) -> Any:
        """The saver for eight tasks at once."""
        return self.saver

    async def close(self) -> None:
        """Let go of everything."""
        await self._closing.aclose()


class Ours(Side):
    """`PerdureSaver`: one object for all callers."""

    def open(self) -> None:
        self.saver = PerdureSaver.open(self._url)
        self.saver.setup()
        self._closing.push_async_exit(self.saver)


class TheirsOnSqlite(Side):
    """`SqliteSaver` on the connection that its from_conn_string makes: setup() sets WAL, synchronous stays FULL."""

    def open(self) -> None:
        connection = sqlite3.connect(self._url.removeprefix("sqlite:///"), check_same_thread=False)
        self.saver = SqliteSaver(connection)
        self.saver.setup()
        if connection.execute("PRAGMA synchronous").fetchone() != (2,):
            raise RuntimeError("SqliteSaver does not leave synchronous at FULL here")
        self._closing.callback(connection.close)


class TheirsOnPostgres(Side):
    """`PostgresSaver` on the connection that its from_conn_string makes; for many writers on a pool of as many."""

    def open(self) -> None:
        connection = Connection.connect(self._url, **_CONNECTION)
        self.saver = PostgresSaver(connection)
        self.saver.setup()
        self._closing.callback(connection.close)

    def for_threads(self) -> Any:
        pool = ConnectionPool(self._url, min_size=WRITERS, max_size=WRITERS, kwargs=_CONNECTION, open=True)
        pool.wait()
        self._closing.callback(pool.close)
        return PostgresSaver(pool)

    async def for_tasks(self) -> Any:
        pool: Any = AsyncConnectionPool(self._url, min_size=WRITERS, max_size=WRITERS, kwargs=_CONNECTION, open=False)
        await pool.open(wait=True)
        self._closing.push_async_callback(pool.close)
        return AsyncPostgresSaver(pool)


def side_of(name: str, url: str) -> Side:
    """The side of a name."""
    if name == "perdure":
        return Ours(url)
    return TheirsOnSqlite(url) if url.startswith("sqlite:") else TheirsOnPostgres(url)
