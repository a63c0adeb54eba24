"""`perdure forget` as a person uses it: a real process for each call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.sync import Perdure
from tests.cli.terminal import on_terminal
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        for user in ("alice", "bob"):
            store.thread("chat", user=user).append("messages", {"role": "user", "content": "hello"})
    return tmp_path


def users(folder: Path) -> set[object]:
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        return {each.user for each in store.threads()}


def test_it_erases_nothing_unless_told_to(folder: Path) -> None:
    seen = perdure("forget", STORE, "alice", "--dry-run", folder=folder)
    assert (seen.returncode, seen.stderr) == (0, "")
    first, thread, *rest = seen.stdout.splitlines()
    assert first.startswith("would forget alice: 1 thread, 1 entry, 1 message, ")
    assert thread == "  chat: thread, 1 entry, 1 message"
    assert rest[0] == "not reached from here:"
    assert any(line.startswith("  backups") for line in rest)
    # Nobody can be asked in a pipe.
    refused = perdure("forget", STORE, "alice", folder=folder)
    assert (refused.returncode, "--yes" in refused.stderr, refused.stdout) == (2, True, "")
    assert users(folder) == {"alice", "bob"}


def test_with_yes_the_user_is_gone_and_verify_tells(folder: Path) -> None:
    done = perdure("forget", STORE, "alice", "--yes", "-o", "json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    told = json.loads(done.stdout)
    assert (told["user"], told["dry_run"], told["is_complete"], told["left"]) == ("alice", False, True, [])
    assert (told["counts"]["threads"], told["threads"][0]["thread_id"]) == (1, "chat")
    assert told["tombstone"].startswith("fgt_")
    assert users(folder) == {"bob"}
    verified = perdure("verify", STORE, folder=folder)
    assert (verified.returncode, "1 user forgotten" in verified.stdout) == (0, True)
    assert json.loads(perdure("verify", STORE, "-o", "json", folder=folder).stdout)["forgotten"] == 1


def test_on_a_terminal_a_person_is_asked(folder: Path) -> None:
    (no,) = on_terminal([["forget", STORE, "alice"]], folder, typed="n\n")
    assert (no.code, "Erase 1 thread of alice for good? [y/N]" in no.out) == (1, True)
    assert users(folder) == {"alice", "bob"}
    (yes,) = on_terminal([["forget", STORE, "alice"]], folder, typed="y\n")
    assert (yes.code, users(folder)) == (0, {"bob"})
