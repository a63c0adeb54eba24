"""Lines of messages are compared with the log they were read off, and made again from it."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from perdure.sync import Perdure

TAMPERED = {
    "role": "UPDATE perdure_message SET role = 'system' WHERE \"row\" & 4294967295 = 2",
    "at": 'UPDATE perdure_message SET at = at + 1 WHERE "row" & 4294967295 = 1',
    "gone": 'DELETE FROM perdure_message WHERE "row" & 4294967295 = 3',
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "a.db"
    with Perdure.open(f"sqlite:///{path}") as store:
        thread = store.thread("t", user="alice")
        thread.append("messages", {"role": "user", "content": "one"}, {"role": "assistant", "content": "two"})
        thread.add_messages({"role": "user", "content": "three", "id": "m3"})
        assert [line.role for line in thread.message_lines()] == ["user", "assistant", "user"]
    return path


@pytest.mark.parametrize("fault", TAMPERED)
def test_a_line_that_was_changed_is_found_and_made_again(path: Path, fault: str) -> None:
    raw = sqlite3.connect(path)
    raw.execute(TAMPERED[fault])
    raw.commit()
    raw.close()
    with Perdure.open(f"sqlite:///{path}") as store:
        (damage,) = store.verify().damaged
        assert (damage.place, damage.derived) == ("lines of messages", True)
        assert store.repair().ok
        assert store.verify().ok
        assert [line.role for line in store.thread("t", user="alice").message_lines()] == ["user", "assistant", "user"]


def test_lines_that_are_behind_are_no_damage(path: Path) -> None:
    with Perdure.open(f"sqlite:///{path}") as store:
        store.thread("t", user="alice").add_messages({"role": "user", "content": "four"})
        assert store.verify().ok
