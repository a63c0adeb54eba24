"""Writes that go on from the line that a process saw last, on SQLite: what they touch, and what they do not trust."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from statistics import median

import pytest

from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import VersionConflictError
from perdure.storage.drive import drive
from perdure.storage.sqlite.connection import PAGE
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import MESSAGE, SECOND, THREAD, Scribe

FRAME = PAGE + 24  # bytes of a page in the WAL


def opened(path: Path) -> SqliteStorage:
    storage = SqliteStorage(str(path), mode="sync")
    drive(storage.setup())
    return storage


def copy(source: Path, target: Path) -> None:
    """As somebody restores a backup: into the same file, which stays open elsewhere."""
    with sqlite3.connect(source) as old, sqlite3.connect(target) as new:
        old.backup(new)
    old.close()
    new.close()


@pytest.mark.parametrize("key", [None, "k"])
def test_a_log_that_was_restored_to_an_earlier_version_is_not_gone_on_from(tmp_path: Path, key: str | None) -> None:
    path, backup = tmp_path / "a.db", tmp_path / "backup.db"
    storage = opened(path)
    scribe = Scribe(storage, ManualClock())
    drive(scribe.grow(THREAD, 2))
    copy(path, backup)
    uid = drive(scribe.grow(THREAD, 3)).row.uid
    copy(backup, path)
    with pytest.raises(VersionConflictError):
        drive(scribe.append(uid=uid, expected=5, idem_key=key, request=key and b"r"))
    made = drive(scribe.append(uid=uid, expected=2, idem_key=key, request=key and b"r"))
    entries = drive(storage.entries(THREAD))
    assert [entry.version for entry in entries] == [1, 2, 3]
    assert verify_links(THREAD.id, 0, GENESIS, entries) == made.row.head_digest
    drive(storage.close())


def test_a_step_of_a_run_touches_its_entry_its_key_and_its_line_and_no_other_page(tmp_path: Path) -> None:
    wal = tmp_path / "a.db-wal"
    storage = opened(tmp_path / "a.db")
    scribe = Scribe(storage, ManualClock())
    uid = drive(scribe.append()).row.uid
    now = scribe.clock.now()
    drive(storage.claim(THREAD, "me", until=now + 3600 * SECOND, now=now))
    frames: list[float] = []
    for count in range(40):
        before = wal.stat().st_size
        drive(scribe.append(THREAD, MESSAGE, uid=uid, epoch=1, idem_key=f"k{count}", request=b"r"))
        frames.append((wal.stat().st_size - before) / FRAME)
    assert median(frames) == 3  # more where a page is full
    drive(storage.close())
