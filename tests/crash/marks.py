"""A page of memory that a child shares with its parent: where it is, when it is killed.

The marks are set by wrappers put around the driver and the file system in the child only; production code has none.
"""

from __future__ import annotations

import mmap
import os
import signal
import sqlite3
import struct
from collections.abc import Callable
from typing import Any

from perdure.checkpoints.snapshotting import Snapshotter
from perdure.storage.file import disk
from perdure.storage.file.store import FileStorage
from perdure.storage.sqlite.store import SqliteStorage

PHASES = ("between", "migration", "save", "append", "update", "blob", "fork", "snapshot")
_PHASE, _INSIDE, _DONE = 0, 1, 2
_COUNT, _FATAL = 8, 16  # marks passed; the mark at which the child ends itself, 0 for none


class Page:
    """Phase, transaction depth and number of marks of one child."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 4096)

    def clear(self, fatal: int = 0) -> None:
        self._memory[:4096] = bytes(4096)
        struct.pack_into("<Q", self._memory, _FATAL, fatal)

    @property
    def phase(self) -> str:
        return PHASES[self._memory[_PHASE]]

    @phase.setter
    def phase(self, name: str) -> None:
        self._memory[_PHASE] = PHASES.index(name)

    @property
    def inside(self) -> bool:
        """Whether a writing transaction is open."""
        return self._memory[_INSIDE] == 1

    @property
    def done(self) -> bool:
        return self._memory[_DONE] == 1

    def finish(self) -> None:
        self._memory[_DONE] = 1

    @property
    def count(self) -> int:
        return struct.unpack_from("<Q", self._memory, _COUNT)[0]

    def mark(self) -> None:
        """Pass one more mark; it may be the last thing this process does."""
        count = self.count + 1
        struct.pack_into("<Q", self._memory, _COUNT, count)
        if count == struct.unpack_from("<Q", self._memory, _FATAL)[0]:
            os.kill(os.getpid(), signal.SIGKILL)

    def enter(self) -> None:
        self._memory[_INSIDE] = 1

    def leave(self) -> None:
        self._memory[_INSIDE] = 0


def watch(page: Page) -> None:
    """Put marks around everything this process does to SQLite and to files of the file storage."""
    _watch_sqlite(page)
    _watch_files(page)
    _watch_phases(page)


def _watch_sqlite(page: Page) -> None:
    class Marked(sqlite3.Connection):
        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            page.mark()
            answer = super().execute(sql, *values)
            if sql == "BEGIN IMMEDIATE":
                page.enter()
            elif sql == "COMMIT":
                page.leave()
            page.mark()
            return answer

    connect = sqlite3.connect
    sqlite3.connect = lambda *args, **options: connect(*args, factory=Marked, **options)  # type: ignore[assignment]


def _watch_files(page: Page) -> None:
    held: set[int] = set()

    def lock(self: Any, shared: bool, wait: bool = True, inner: Callable[..., None] = disk.RealFile.lock) -> None:
        inner(self, shared, wait)
        if not shared:
            held.add(id(self))
            page.enter()

    def close(self: Any, inner: Callable[..., None] = disk.RealFile.close) -> None:
        inner(self)
        held.discard(id(self))
        if not held:
            page.leave()

    disk.RealFile.lock, disk.RealFile.close = lock, close  # type: ignore[method-assign]
    for owner, names in ((disk.RealFile, ("write", "truncate", "sync")), (disk.RealDisk, _FOLDER_CALLS)):
        for name in names:
            setattr(owner, name, _marked(page, getattr(owner, name)))


_FOLDER_CALLS = ("open", "make_folder", "replace", "remove", "sync_folder")


def _marked(page: Page, inner: Callable[..., Any]) -> Callable[..., Any]:
    def call(*args: Any, **options: Any) -> Any:
        page.mark()
        answer = inner(*args, **options)
        page.mark()
        return answer

    return call


def _watch_phases(page: Page) -> None:
    for owner, name, phase in (
        (Snapshotter, "write", "snapshot"),
        (SqliteStorage, "setup", "migration"),
        (FileStorage, "setup", "migration"),
    ):
        setattr(owner, name, _phased(page, phase, getattr(owner, name)))


def _phased(page: Page, phase: str, inner: Callable[..., Any]) -> Callable[..., Any]:
    async def call(*args: Any, **options: Any) -> Any:
        before, page.phase = page.phase, phase
        answer = await inner(*args, **options)
        page.phase = before
        return answer

    return call
