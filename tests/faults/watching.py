"""Looking over SQLite's and the file system's shoulder: what is really read."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import pytest


@dataclass
class Watch:
    """What was done since the last `clear`."""

    columns: set[tuple[str, str]] = field(default_factory=set)  # read by SQLite: (table, column)
    statements: list[str] = field(default_factory=list)
    steps: int = 0  # of SQLite's virtual machine
    read: int = 0  # bytes read from files
    opened: list[str] = field(default_factory=list)

    def clear(self) -> None:
        self.__init__()  # type: ignore[misc]


@contextmanager
def watched(patch: pytest.MonkeyPatch) -> Iterator[Watch]:
    """Every connection and every file that is opened from now on is watched."""
    watch = Watch()
    with patch.context() as context:
        _watch_sqlite(watch, context)
        _watch_files(watch, context)
        yield watch


def _watch_sqlite(watch: Watch, context: pytest.MonkeyPatch) -> None:
    connect = sqlite3.connect

    def allow(action: int, one: str | None, two: str | None, *_: Any) -> int:
        if action == sqlite3.SQLITE_READ:
            watch.columns.add((one or "", two or ""))
        return sqlite3.SQLITE_OK

    def step() -> int:
        watch.steps += 1
        return 0

    def connected(*args: Any, **options: Any) -> sqlite3.Connection:
        # Statements are not kept: one that was compiled before would not ask the authorizer again.
        raw = connect(*args, **{**options, "cached_statements": 0})
        raw.set_authorizer(allow)
        raw.set_progress_handler(step, 1)
        raw.set_trace_callback(lambda sql: watch.statements.append(sql))
        return raw

    context.setattr(sqlite3, "connect", connected)


def _watch_files(watch: Watch, context: pytest.MonkeyPatch) -> None:
    pread, opening = os.pread, os.open

    def reading(handle: int, size: int, offset: int) -> bytes:
        data = pread(handle, size, offset)
        watch.read += len(data)
        return data

    def opened(path: Any, *args: Any, **options: Any) -> int:
        watch.opened.append(str(path))
        return opening(path, *args, **options)

    context.setattr(os, "pread", reading)
    context.setattr(os, "open", opened)
