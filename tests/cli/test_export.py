"""`perdure export`, `perdure import` and `perdure sizes` as a person uses them: a real process for each call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.sync import Perdure
from tests.cli.forked import check_refused, errors
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
SEVERAL = "error: 2 users have a thread 'ticket': 'alice', 'bob'; say whose: --user NAME\n"


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


def test_a_thread_goes_from_one_storage_to_another_in_a_file(folder: Path) -> None:
    done = perdure("export", STORE, "ticket", "ticket.perdure", "--user", "alice", "--forks", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("exported           2 threads, 3 entries, ")
    done = perdure("import", "sqlite:///other.db", "ticket.perdure", "--user-from-file", folder=folder)
    assert (done.returncode, errors(done)) == (0, [])
    assert done.stdout.startswith("imported           2 threads, 4 entries, ")
    with Perdure.open(f"sqlite:///{folder}/other.db") as store:
        assert store.thread("what-if", user="alice").load()["city"] == "Rome"
    assert (
        "already there      2 threads"
        in perdure("import", "sqlite:///other.db", "ticket.perdure", "--user-from-file", folder=folder).stdout
    )


def test_it_can_get_another_id_owner_and_namespace(folder: Path) -> None:
    perdure("export", STORE, "what-if", "x.perdure", folder=folder)
    where = ("--to", "trial", "--user", "carol", "--namespace", "staging")
    assert perdure("import", STORE, "x.perdure", *where, folder=folder).returncode == 0
    with Perdure.open(f"sqlite:///{folder}/agents.db", namespace="staging") as store:
        assert store.thread("trial", user="carol").load()["city"] == "Rome"
    done = perdure("export", STORE, "trial", "x.perdure", "--namespace", "staging", folder=folder)
    assert "1 thread, 2 entries" in done.stdout


def test_what_is_not_imported_is_named_and_the_exit_code_is_1(folder: Path) -> None:
    perdure("export", STORE, "ticket", "x.perdure", "--user", "bob", folder=folder)
    with Perdure.open(f"sqlite:///{folder}/other.db") as store:
        store.thread("ticket", user="bob").save({"mine": True})
    done = perdure("import", "sqlite:///other.db", "x.perdure", "--user", "bob", folder=folder)
    assert done.returncode == 1
    assert "not imported       1 thread\n  ticket of bob: the target has a thread of this id" in done.stdout
    assert (
        perdure("import", "sqlite:///other.db", "x.perdure", "--user", "bob", "--overwrite", folder=folder).returncode
        == 0
    )


def test_programs_get_json(folder: Path) -> None:
    done = perdure("export", STORE, "what-if", "x.perdure", "-o", "json", folder=folder)
    told = json.loads(done.stdout)
    assert (told["threads"][0]["id"], told["threads"][0]["counts"]["entries"]) == ("what-if", 2)
    assert told["bytes"] == (folder / "x.perdure").stat().st_size
    (told,) = json.loads(
        perdure("import", "file:./place", "x.perdure", "--user", "alice", "-o", "json", folder=folder).stdout
    )
    assert (told["key"]["id"], told["outcome"], told["entries"]) == ("what-if", "copied", 2)
    told = json.loads(perdure("sizes", STORE, "-o", "json", folder=folder).stdout)
    assert (told["threads"], told["largest"][0]["id"]) == (3, "ticket")
    told = json.loads(perdure("sizes", STORE, "what-if", "-o", "json", folder=folder).stdout)
    assert {each["path"] for each in told["state"]["inside"]} == {"messages[*]", "city"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["export", STORE, "nope", "x"], "error: thread 'nope' does not exist\n"),
        (["export", STORE, "ticket", "x"], SEVERAL),
        (["export", STORE, "ticket", "agents.db", "--user", "bob"], "agents.db is there already and is no export"),
        (["export", "sqlite:///typo.db", "ticket", "x"], "there is no database yet"),
        (["import", STORE, "nope", "--user", "bob"], "error: file 'nope' does not exist\n"),
        (
            ["import", STORE, "agents.db", "--user", "bob"],
            "error: agents.db: the first line does not begin with 'perdure-export '",
        ),
        (["sizes", STORE, "nope"], "error: thread 'nope' does not exist\n"),
        (["sizes", STORE, "what-if", "--depth", "-1"], "error: depth must be an int from 0 on, not -1\n"),
        (["sizes", "sqlite:///typo.db"], "there is no database yet"),
        (["import", "sqlite:///typo.db", "nope", "--user", "bob"], "error: file 'nope' does not exist\n"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    done = perdure(*arguments, folder=folder)
    check_refused(done, said)
    assert not (folder / "typo.db").exists()


def test_sizes_of_a_store_and_of_a_thread(folder: Path) -> None:
    """B10: on the command line too."""
    done = perdure("sizes", STORE, "--threads", "1", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    lines = [line.split() for line in done.stdout.splitlines()]
    assert lines[0] == ["threads", "3"]
    assert lines[-2:][0] == ["largest", "threads"]
    done = perdure("sizes", STORE, "what-if", folder=folder)
    assert done.stdout.startswith("thread what-if, version 2\nentries")
    assert "  messages[*]" in done.stdout
    assert "messages[*].content" not in perdure("sizes", STORE, "what-if", "--depth", "1", folder=folder).stdout
