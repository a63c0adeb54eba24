"""A write whose answer was lost is answered as it was made, unless others have written since."""

from __future__ import annotations

from pathlib import Path

from perdure.core.writes import Write
from perdure.storage.drive import drive
from perdure.storage.sql.doubts import landed
from perdure.storage.sqlite.store import SqliteStorage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import THREAD, Scribe


def test_a_write_that_stands_last_is_answered_as_it_was_made(tmp_path: Path) -> None:
    storage, scribe = opened(tmp_path)
    drive(scribe.append())
    write = scribe.write(THREAD, expected=1)
    made = drive(storage.append(write))
    answer = asked(storage, write)
    assert answer == (made, 1)


def test_who_has_not_seen_what_others_wrote_since_is_told_again(tmp_path: Path) -> None:
    storage, scribe = opened(tmp_path)
    write = scribe.write(THREAD)
    drive(storage.append(write))
    later = drive(scribe.append())
    answer = asked(storage, write)
    assert answer is not None
    assert (answer[0].again, answer[0].version, answer[0].row) == (True, 1, later.row)


def test_a_write_that_does_not_stand_is_nothing(tmp_path: Path) -> None:
    storage, scribe = opened(tmp_path)
    drive(scribe.append())
    assert asked(storage, scribe.write(THREAD, expected=1)) is None


def opened(folder: Path) -> tuple[SqliteStorage, Scribe]:
    storage = SqliteStorage(str(folder / "agents.db"), mode="sync")
    drive(storage.setup())
    return storage, Scribe(storage, ManualClock())


def asked(storage: SqliteStorage, write: Write):
    return drive(storage._port.read(lambda tx: landed(tx, write, 0, None)))
