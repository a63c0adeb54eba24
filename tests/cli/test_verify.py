"""`perdure verify` and `perdure repair` as a person uses them: a real process for each call."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from perdure.sync import Perdure
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A SQLite store with a thread in each of two namespaces, and a fork."""
    for namespace in ("", "staging"):
        with Perdure.open(f"sqlite:///{tmp_path}/agents.db", namespace=namespace) as store:
            thread = store.thread("ticket", user="alice")
            for step in range(1, 5):
                thread.save({"step": step})
            thread.fork("@2", to="what if").append("notes", "x", checkpoint=True)
    return tmp_path


def _spoil(folder: Path, *statements: str) -> None:
    with closing(sqlite3.connect(folder / "agents.db")) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount


def test_an_intact_store_is_said_to_be_so(folder: Path) -> None:
    """S1.45: a command that tests restoring before it is needed."""
    done = perdure("verify", STORE, "--restore", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "intact: 4 threads, 14 entries, 14 checkpoints, 0 snapshots, 14 restored and compared\n"
    done = perdure("verify", STORE, "what if", "--namespace", "staging", folder=folder)
    assert done.stdout == "intact: 1 thread, 3 entries, 3 checkpoints, 0 snapshots\n"


def test_each_damage_is_a_line_with_its_place_and_what_to_type_next(folder: Path) -> None:
    """B11: and what can be made again is made again by that."""
    _spoil(
        folder,
        "UPDATE perdure_entry SET payload = x'010000c0' WHERE row = 4294967296 + 4",
        "UPDATE perdure_thread SET head = 2 WHERE namespace = 'staging' AND id = 'what if'",
    )
    done = perdure("verify", STORE, folder=folder)
    assert done.returncode == 8
    assert "  ticket of alice: entry 4 fails its digest\n    → store.thread('ticket', user='alice').l" in done.stdout
    again = "perdure repair sqlite:///agents.db 'what if' --user alice --namespace staging"
    assert f"    → {again}\n" in done.stdout
    done = perdure("repair", STORE, "what if", "--user", "alice", "--namespace", "staging", folder=folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (0, "rebuilt 1, left 0 in 1 threads")
    done = perdure("repair", STORE, folder=folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (8, "rebuilt 0, left 1 in 4 threads")


def test_entries_without_a_directory_line_are_told_once_even_when_no_thread_is_left(folder: Path) -> None:
    """B11: and what to do about it."""
    _spoil(folder, "DELETE FROM perdure_thread")
    done = perdure("verify", STORE, folder=folder)
    assert done.returncode == 8
    assert done.stdout.startswith("4 damages: 0 threads, 0 entries, 0 checkpoints, 0 snapshots")
    assert "  ticket of alice: directory line is gone, and the catalog still names the thread\n" in done.stdout
    _spoil(folder, "DELETE FROM perdure_catalog")
    _spoil(folder, "DELETE FROM perdure_checkpoint")
    done = perdure("verify", STORE, folder=folder)
    assert (done.returncode, done.stdout.splitlines()[:3]) == (8, [
        "4 damages: 0 threads, 0 entries, 0 checkpoints, 0 snapshots",
        "  (no thread): directory has no line for row 1; entries there: 4",
        "    → restore the storage from a backup, or copy out what can still be read: perdure copy",
    ])  # fmt: skip
    done = perdure("repair", STORE, folder=folder)
    assert (done.returncode, done.stdout.splitlines()[0]) == (8, "rebuilt 0, left 4 in 0 threads")


def test_programs_get_json(folder: Path) -> None:
    _spoil(folder, "DELETE FROM perdure_checkpoint WHERE row = 4294967296 + 3")
    done = perdure("verify", STORE, "-o", "json", folder=folder)
    found = json.loads(done.stdout)
    assert (done.returncode, found["ok"], found["threads"]) == (8, False, 4)
    assert [(each["thread_id"], each["version"], each["derived"]) for each in found["damaged"]] == [("ticket", 3, True)]
    done = perdure("repair", STORE, "-o", "json", folder=folder)
    assert (done.returncode, json.loads(done.stdout)["left"]) == (0, [])


def test_an_unknown_thread_is_an_error(folder: Path) -> None:
    done = perdure("verify", STORE, "nobody", folder=folder)
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("error: thread 'nobody' does not exist")
