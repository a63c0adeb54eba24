"""What SQLite is asked for: every acknowledged write is on the medium."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.contract import Mode
from perdure.testing.scribe import Scribe
from tests.contract.backends import MODES

FULL = 2


@pytest.mark.parametrize("mode", MODES)
async def test_every_connection_syncs_each_commit(mode: Mode, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[sqlite3.Connection] = []
    connect = sqlite3.connect

    def remembered(*arguments: Any, **options: Any) -> sqlite3.Connection:
        made.append(connect(*arguments, **options))
        return made[-1]

    monkeypatch.setattr(sqlite3, "connect", remembered)
    storage = SqliteStorage(str(tmp_path / "agents.db"), mode=mode)
    await storage.setup()
    await Scribe(storage, ManualClock()).append()
    settings = [(_ask(each, "synchronous"), _ask(each, "journal_mode")) for each in made]
    await storage.close()
    assert settings == [(FULL, "wal")] * len(made) != []


def _ask(connection: sqlite3.Connection, pragma: str) -> Any:
    return connection.execute(f"PRAGMA {pragma}").fetchone()[0]
