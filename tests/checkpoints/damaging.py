"""Changing stored bytes behind the back of a store: one set of hands for memory and for each database."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import msgspec
import psycopg

from perdure import Perdure
from perdure.core.verification import Report
from perdure.storage.memory import MemoryStorage
from perdure.testing.servers import require, shared_mariadb
from tests.checkpoints.places import PLACES, Place
from tests.contract.backends import postgres_url
from tests.contract.emptied import Emptied, databases, schemas
from tests.storage.mysql import connected

BACKENDS = ("memory", "sqlite", "postgres", "mysql")
_FIELDS = {"at": "micros", "idem_key": "key", "payload_digest": "digest", "back_to": "to"}
_LINE = {
    "head_state_version": "state_version", "run_version": "run", "updated_at": "updated", "created_at": "created",
}  # fmt: skip
_VERSIONS = 1 << 32
Change = Callable[[Any], Any]


def flipped(data: bytes) -> bytes:
    """The same with one bit turned over in the middle."""
    at = len(data) // 2
    return data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :]


class Hands:
    """Hands in the tables of a database, each row named by a thread and a version."""

    def __init__(self, backend: str, place: Place) -> None:
        self._backend = backend
        self._url = place[0]
        self._prefix = f"{place[1]['schema']}." if backend == "postgres" else "perdure_"

    def change(self, thread: str, table: str, version: int, column: str, change: Change) -> None:
        at = self._at(thread, version)
        ((before,),) = self._run(f'SELECT "{column}" FROM {self._prefix}{table} WHERE "row" = ?', at)
        self._run(f'UPDATE {self._prefix}{table} SET "{column}" = ? WHERE "row" = ?', change(before), at)

    def remove(self, thread: str, table: str, version: int) -> None:
        self._run(f'DELETE FROM {self._prefix}{table} WHERE "row" = ?', self._at(thread, version))

    def move(self, thread: str, table: str, version: int, to: int) -> None:
        self._run(
            f'UPDATE {self._prefix}{table} SET "row" = ? WHERE "row" = ?',
            self._at(thread, to),
            self._at(thread, version),
        )

    def copy(self, thread: str, table: str, version: int, to: int) -> None:
        """Insert a row that is the copy of another."""
        named = ("kind", "at", "actor", "write_id", "request", "schema", "payload_digest", "chain", "payload")
        columns = ", ".join(f'"{name}"' for name in named)
        self._run(
            f'INSERT INTO {self._prefix}{table} ("row", {columns}) SELECT ?, {columns} FROM {self._prefix}{table} '
            'WHERE "row" = ?', self._at(thread, to), self._at(thread, version),
        )  # fmt: skip

    def line(self, thread: str, column: str, value: Any) -> None:
        self._run(f'UPDATE {self._prefix}thread SET "{column}" = ? WHERE id = ?', value, thread)

    def forget_line(self, thread: str) -> int:
        """Remove the directory line of a thread, and return the number of its row."""
        number = self._at(thread, 0) // _VERSIONS
        self._run(f'DELETE FROM {self._prefix}thread WHERE "row" = ?', number)
        return number

    def forget_name(self, number: int) -> None:
        """Remove what the catalog says of the thread with this row."""
        self._run(f"DELETE FROM {self._prefix}catalog WHERE thread = ?", number)

    def forget_uses(self) -> None:
        self._run(f"DELETE FROM {self._prefix}blob_use")

    def move_uses(self, version: int) -> None:
        self._run(f"UPDATE {self._prefix}blob_use SET version = ?", version)

    def spoil_blobs(self) -> None:
        self._run(f"UPDATE {self._prefix}blob SET payload = ?", b"\x01\x00\x00\xa1x")

    def versions(self, thread: str, table: str) -> list[int]:
        low, high = self._at(thread, 0), self._at(thread, 0) + _VERSIONS
        named = f'SELECT "row" FROM {self._prefix}{table} WHERE "row" >= ? AND "row" < ? ORDER BY "row"'
        return [row - low for (row,) in self._run(named, low, high)]

    def _at(self, thread: str, version: int) -> int:
        ((number,),) = self._run(f'SELECT "row" FROM {self._prefix}thread WHERE id = ?', thread)
        return number * _VERSIONS + version

    def _run(self, statement: str, *values: Any) -> list[Any]:
        if self._backend == "sqlite":
            with closing(sqlite3.connect(self._url.removeprefix("sqlite:///"))) as connection, connection:
                return connection.execute(statement, values).fetchall()
        statement = statement.replace("?", "%s")
        if self._backend == "postgres":
            with psycopg.connect(self._url, autocommit=True) as postgres:
                cursor = postgres.execute(statement, values)  # type: ignore[arg-type]
                return cursor.fetchall() if cursor.description else []
        with connected(self._url) as cursor:
            cursor.execute(statement.replace('"', "`"), values)
            return list(cursor.fetchall())


class MemoryHands:
    """The same hands in the dicts of the memory storage."""

    def __init__(self, storage: MemoryStorage) -> None:
        self._storage = storage

    def change(self, thread: str, table: str, version: int, column: str, change: Change) -> None:
        name = _FIELDS.get(column, column)
        place, item = self._find(thread, table, version)
        if table == "checkpoint" and name not in ("version", "parent", "micros"):
            mark = msgspec.structs.replace(item.mark, **{name: change(getattr(item.mark, name))})
            place(msgspec.structs.replace(item, mark=mark))
        else:
            place(msgspec.structs.replace(item, **{name: change(getattr(item, name))}))

    def remove(self, thread: str, table: str, version: int) -> None:
        self._find(thread, table, version)[0](None)

    def move(self, thread: str, table: str, version: int, to: int) -> None:
        place, item = self._find(thread, table, version)
        place(None)
        field = "version" if table in ("entry", "snapshot", "composed") else "entry"
        self._rows(thread, table).append(msgspec.structs.replace(item, **{field: to}))
        self._rows(thread, table).sort(key=_version)

    def copy(self, thread: str, table: str, version: int, to: int) -> None:
        _, item = self._find(thread, table, version)
        self._rows(thread, table).append(msgspec.structs.replace(item, version=to))

    def line(self, thread: str, column: str, value: Any) -> None:
        log = self._log(thread)
        log.row = msgspec.structs.replace(log.row, **{_LINE.get(column, column): value})

    def forget_uses(self) -> None:
        for log in self._storage._logs.values():
            log.blobs.clear()

    def move_uses(self, version: int) -> None:
        for log in self._storage._logs.values():
            log.blobs = dict.fromkeys(log.blobs, version)

    def spoil_blobs(self) -> None:
        for blob in self._storage._blobs.values():
            blob.payload = b"\x01\x00\x00\xa1x"

    def versions(self, thread: str, table: str) -> list[int]:
        return sorted(map(_version, self._rows(thread, table)))

    def _log(self, thread: str) -> Any:
        return next(log for log in self._storage._logs.values() if log.row.key.id == thread)

    def _rows(self, thread: str, table: str) -> Any:
        log = self._log(thread)
        if table == "snapshot":
            return _Values(log.snapshots)
        names = {"entry": "entries", "checkpoint": "checkpoints", "rewind": "rewinds", "composed": "records"}
        return getattr(log, names[table])

    def _find(self, thread: str, table: str, version: int) -> tuple[Callable[[Any], None], Any]:
        rows = self._rows(thread, table)
        at, item = next((at, item) for at, item in enumerate(rows) if _version(item) == version)

        def place(new: Any) -> None:
            rows[at : at + 1] = [] if new is None else [new]

        return place, item


class _Values(list[Any]):
    """The snapshots of a thread as a list; changes go back into the dict."""

    def __init__(self, snapshots: dict[int, Any]) -> None:
        super().__init__(snapshots.values())
        self._snapshots = snapshots

    def __setitem__(self, at: Any, new: Any) -> None:
        super().__setitem__(at, new)
        self._put()

    def append(self, item: Any) -> None:
        super().append(item)
        self._put()

    def _put(self) -> None:
        self._snapshots.clear()
        self._snapshots.update({each.version: each for each in self})


def _version(item: Any) -> int:
    return item.entry if hasattr(item, "entry") else item.version


@asynccontextmanager
async def telling(backend: str, folder: Path, **options: Any) -> AsyncIterator[tuple[Perdure, Hands | MemoryHands]]:
    """A store with a story in it, and hands in what it keeps. What a server has of it is emptied afterwards."""
    with _lent(backend, folder) as place:
        async with Perdure.open(place[0], **place[1], **options) as store:
            storage = store._parts.storage
            storage = getattr(storage, "inner", storage)  # behind the limits of decoding
            await story(store)
            yield store, MemoryHands(storage) if isinstance(storage, MemoryStorage) else Hands(backend, place)


_EMPTIED: dict[str, tuple[Callable[[], Emptied], Callable[[str], Place], str]] = {
    "postgres": (schemas, lambda name: (postgres_url(), {"schema": name}), "."),
    "mysql": (databases, lambda name: (f"{shared_mariadb().url.rpartition('/')[0]}/{name}", {}), ".perdure_"),
}


@contextmanager
def _lent(backend: str, folder: Path) -> Iterator[Place]:
    if backend not in _EMPTIED:
        yield PLACES[backend](folder)
        return
    server, place, tables = _EMPTIED[backend]
    name = require(server).take()
    try:
        yield place(name)
    finally:
        server().give_back(name, name + tables)


def told(report: Report) -> list[tuple[str, str]]:
    """The damages as pairs of thread and place."""
    return [(each.thread_id, each.place) for each in report.damaged]


async def story(store: Perdure) -> None:
    """A thread with snapshots, a large value, a rewind and a mark, and a fork of it."""
    thread = store.thread("t", user="alice", agent="scribe")
    for number in range(1, 9):
        await thread.save(
            {"n": number, "text": str(number) * 9000, "messages": [{"role": "user", "content": str(number)}]},
            note=f"note {number}", kind="routine",
        )  # fmt: skip
    await thread.update(set={"large": "x" * 100_000}, checkpoint=True)
    await thread.rewind("@8")
    await thread.checkpoint("@3", kind="manual", status="done")
    await thread.append("messages", {"role": "user", "content": "last"}, checkpoint=True)
    branch = await thread.fork("@5", to="branch")
    await branch.append("messages", {"role": "user", "content": "of the branch"}, checkpoint=True)
