"""`perdure timeline` as a person uses it: a real process for each call."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from perdure.sync import Perdure
from perdure.testing import ManualClock
from tests.cli.forked import check_refused
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
WHAT = (
    "name", "person", "given", "args_digest", "duration", "run", "attempt", "error", "model", "input_tokens",
    "output_tokens",
)  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a thread that was rewound and pruned, and another user's thread of the same id."""
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", clock=ManualClock()) as store:
        store.thread("ticket", user="bob").append("messages", "hello")
        thread = store.thread("ticket", user="alice", actor="worker-1")
        for turn in range(4):
            thread.save({"turn": turn, "text": "word " * 100 * turn}, kind="routine", note=f"turn {turn}")
        thread.rewind("@3", note="the last turn was wrong")
        thread.save({"turn": 5}, status="ready\x1b[31m")
        thread.prune(3)
    return tmp_path


def test_everything_that_happened_is_there_with_who_and_when(folder: Path) -> None:
    done = perdure("timeline", STORE, "ticket", "--user", "alice", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    at = "2026-01-01 00:00:00Z  worker-1"
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["version", "at", "actor", "kind", "bytes", "what"]
    assert [" ".join(line.split()) for line in lines] == [
        " ".join(line.split())
        for line in (
            f"@1 {at} state.saved 0 pruned",
            f"@2 {at} state.saved 0 pruned",
            f"@3 {at} state.saved 0 pruned",
            f"~ @4 {at} state.saved 0 routine 'turn 3' pruned",
            f"@5 {at} thread.rewound 0 rewind 'the last turn was wrong' to @3 pruned",
            f"@6 {at} state.saved {lines[5].split()[5]} manual 'ready\\x1b[31m'",
            f"@7 {at} range.pruned {lines[6].split()[5]}",
        )
    ]


def test_a_part_can_be_asked_for(folder: Path) -> None:
    done = perdure("timeline", STORE, "ticket", "--user", "alice", "--after", "4", "--limit", "2", folder=folder)
    assert [line.split()[0] for line in done.stdout.splitlines()[1:]] == ["@5", "@6"]


def test_programs_get_json(folder: Path) -> None:
    done = perdure("timeline", STORE, "ticket", "--user", "alice", "-o", "json", folder=folder)
    told = json.loads(done.stdout)
    assert [each["version"] for each in told] == [1, 2, 3, 4, 5, 6, 7]
    assert told[4] == {
        "version": 5, "kind": "thread.rewound", "at": "2026-01-01T00:00:00Z", "actor": "worker-1", "bytes": 0,
        "pruned": True, "left": False, "checkpoint": told[4]["checkpoint"], "checkpoint_kind": "rewind",
        "status": None, "note": "the last turn was wrong", "rewound_to": 3, **dict.fromkeys(WHAT),
    }  # fmt: skip


def test_users_may_be_numbers(tmp_path: Path) -> None:
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", user_id_type="int") as store:
        for user in (7, 8):
            store.thread("ticket", user=user).append("messages", user)
    done = perdure("timeline", STORE, "ticket", "--user", "7", "--user-id-type", "int", folder=tmp_path)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nope"], "error: thread 'nope' does not exist"),
        (
            ["ticket"],
            "error: 2 users have a thread 'ticket': 'alice', 'bob'; say whose: --user NAME\n",
        ),
        (["ticket", "--user", "bob", "--after", "-1"], "error: after must be a version (an int from 0 on), not -1\n"),
        (["ticket", "--user", "bob", "--limit", "-1"], "error: limit must be an int from 0 to "),
        (["ticket", "--namespace", "staging"], "error: thread 'ticket' does not exist"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    done = perdure("timeline", STORE, *arguments, folder=folder)
    check_refused(done, said)
