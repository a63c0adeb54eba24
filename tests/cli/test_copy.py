"""`perdure copy` as a person uses it: a real process for each call."""

from __future__ import annotations

import itertools
import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from perdure.core.addresses import display_url
from perdure.sync import Perdure
from perdure.testing.servers import require, shared_postgres
from tests.cli.test_cli import perdure

_NUMBERS = itertools.count()
SECRET = "s3cret'%/x"  # of a role that the test makes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A SQLite store of two users in the working folder."""
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        for user in ("alice", "bob"):
            thread = store.thread("ticket", user=user)
            thread.append("messages", {"role": "user", "content": "hi"}, key="first")
            thread.update(set={"city": "Paris"}, checkpoint=True)
        store.thread("ticket", user="alice").fork("@1", to="what-if").update(set={"city": "Rome"})
    return tmp_path


def copy(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return perdure("copy", *arguments, folder=folder)


def test_threads_are_copied_and_counted(folder: Path) -> None:
    done = copy(folder, "sqlite:///agents.db", "file:./place")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("sqlite:///agents.db → file:./place\ncopied             3 threads, 6 entries, 3")
    with Perdure.open(f"file:{folder}/place") as store:
        assert store.thread("what-if", user="alice").load()["city"] == "Rome"
        assert len(store.thread("ticket", user="bob").history()) == 1


def test_again_it_catches_up(folder: Path) -> None:
    copy(folder, "sqlite:///agents.db", "file:./place")
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        store.thread("ticket", user="bob").append("messages", "more")
        store.thread("new").save({})
    done = copy(folder, "sqlite:///agents.db", "file:./place")
    assert done.returncode == 0
    assert [line.split("  ")[0] for line in done.stdout.splitlines()[1:]] == [
        "copied",
        "brought up to date 1 thread, 1 entry, 26 bytes",
        "already there",
    ]


def test_what_is_not_copied_is_named_and_the_exit_code_is_1(folder: Path) -> None:
    with Perdure.open(f"file:{folder}/place") as store:
        store.thread("ticket", user="bob").save({"mine": True})
    done = copy(folder, "sqlite:///agents.db", "file:./place")
    assert done.returncode == 1
    assert done.stdout.splitlines()[2:] == [
        "not copied         1 thread",
        "  ticket of bob: the target has a thread of this id with another history; delete it there, or have it"
        " overwritten",
    ]
    assert copy(folder, "sqlite:///agents.db", "file:./place", "--overwrite", "yes").returncode == 0
    with Perdure.open(f"file:{folder}/place") as store:
        assert store.thread("ticket", user="bob").load()["city"] == "Paris"


def test_threads_can_be_chosen(folder: Path) -> None:
    done = copy(folder, "sqlite:///agents.db", "file:./one", "--user", "bob")
    assert "1 thread," in done.stdout
    done = copy(folder, "sqlite:///agents.db", "file:./two", "--thread", "ticket", "--thread", "what-if")
    assert "3 threads," in done.stdout
    done = copy(folder, "sqlite:///agents.db", "file:./three", "--namespace", "staging")
    assert (done.returncode, done.stdout.splitlines()[1:]) == (0, ["copied             0 threads"])


def test_a_chosen_thread_that_is_not_there_is_an_error(folder: Path) -> None:
    done = copy(folder, "sqlite:///agents.db", "file:./place", "--thread", "nope")
    assert (done.returncode, done.stderr) == (
        3,
        "error: thread 'nope' does not exist\nnext: perdure threads sqlite:///agents.db\n",
    )


def test_a_source_that_is_not_there_is_not_made(folder: Path) -> None:
    done = copy(folder, "sqlite:///typo.db", "file:./place")
    assert done.returncode == 7
    assert "there is no database yet" in done.stderr
    assert not (folder / "typo.db").exists()


def test_a_damaged_thread_does_not_keep_the_others_back(folder: Path) -> None:
    with sqlite3.connect(folder / "agents.db") as database:
        database.execute('UPDATE perdure_entry SET at = at + 1 WHERE "row" = (SELECT max("row") FROM perdure_entry)')
    database.close()
    done = copy(folder, "sqlite:///agents.db", "file:./place")
    assert done.returncode == 1
    assert "copied             2 threads" in done.stdout
    assert "what-if of alice: entry 2 of thread 'what-if' does not follow" in done.stdout


def test_to_a_schema_of_postgresql_and_back_without_showing_a_password(folder: Path) -> None:
    server, name = require(shared_postgres), f"copied_{os.getpid()}_{next(_NUMBERS)}"
    url = server.database(name)
    server.role(name, SECRET, database=name)
    server.sql(f'GRANT CREATE ON DATABASE "{name}" TO "{name}"')
    address = server.address(name, user=name, password=SECRET)
    done = copy(folder, "sqlite:///agents.db", address, "--target-schema", "agents")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"sqlite:///agents.db → postgresql://127.0.0.1:{server.port}/{name}\n")
    back = copy(folder, address, "sqlite:///back.db", "--source-schema", "agents")
    wrong = copy(folder, address.replace(name, "nobody", 1), "sqlite:///x.db")
    assert (back.returncode, wrong.returncode) == (0, 7)
    for shown in (done, back, wrong):
        assert "s3cret" not in shown.stdout + shown.stderr
    with Perdure.open(f"sqlite:///{folder}/back.db") as store, Perdure.open(url, schema="agents") as there:
        for each in (store, there):
            assert each.thread("what-if", user="alice").load()["city"] == "Rome"
            assert each.thread("ticket", user="bob").append("messages", {"role": "user", "content": "hi"}, key="first")
            assert each.thread("ticket", user="bob").info().version == 2
    server.drop(name)
    server.sql(f'DROP ROLE "{name}"')


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("postgresql://u:pw@host:5432/db?password=pw", "postgresql://host:5432/db"),
        ("postgresql://host/db", "postgresql://host/db"),
        ("mysql://u:p/w@host/db", "mysql://…"),
        ("postgresql://u:p?w@host/db", "postgresql://…"),
        ("postgresql://u:p#w@host/db", "postgresql://…"),
        ("postgresql:///db?host=/run/x&password=p@w", "postgresql://…"),
    ],
)
def test_addresses_are_shown_without_what_may_be_a_password(url: str, shown: str) -> None:
    assert display_url(url) == shown
