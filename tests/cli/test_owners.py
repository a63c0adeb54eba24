"""The command line is an operator: it reaches somebody's thread without naming them, and says `--user` when it must."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from perdure.sync import Perdure
from tests.cli.forked import errors
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
AGENTS = """
def register(store):
    @store.handler("ask")
    async def ask(run):
        return bool(await run.pause("deploy", ask="Deploy?"))
"""
COMMANDS = {
    "timeline": ["timeline", STORE, "ask"],
    "compare": ["compare", STORE, "ask", "ask@1"],
    "why": ["why", STORE, "ask"],
    "pauses": ["pauses", STORE, "ask"],
    "cancel": ["cancel", STORE, "ask"],
    "signal": ["signal", STORE, "ask", "go"],
    "resume": ["resume", STORE, "ask", "--handlers", "agents"],
    "export": ["export", STORE, "ask", "ask.perdure"],
    "sizes": ["sizes", STORE, "ask"],
    "verify": ["verify", STORE, "ask"],
    "repair": ["repair", STORE, "ask"],
}


def ask(run: Any) -> Any:
    return bool(run.pause("deploy", ask="Deploy?"))


def _code(command: str) -> int:
    """What a command ends with: the run that is resumed waits for its answer again."""
    return 6 if command == "resume" else 0


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A question in alice's thread."""
    (tmp_path / "agents.py").write_text(AGENTS)
    asking(tmp_path, "alice")
    return tmp_path


def asking(folder: Path, *users: str | None) -> None:
    """A thread of each of these users, all of one id, whose runs ask something."""
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        store.handler("ask")(ask)
        for user in users:
            store.thread("ask", user=user).save({"n": 1})
            store.start("ask", thread="ask", user=user)
            store.resume("ask", user=user)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_only_thread_of_an_id_is_meant_whoever_owns_it(folder: Path, command: str) -> None:
    done = perdure(*COMMANDS[command], folder=folder)
    assert (done.returncode, errors(done)) == (_code(command), [])


@pytest.mark.parametrize("command", COMMANDS)
def test_with_a_user_only_theirs_is_there(folder: Path, command: str) -> None:
    for user in ("bob", ""):
        done = perdure(*COMMANDS[command], "--user", user, folder=folder)
        assert done.stdout == ""
        assert (done.returncode, "does not exist" in done.stderr) == ((3, True))
    assert perdure(*COMMANDS[command], "--user", "alice", folder=folder).returncode == _code(command)


def test_a_question_of_somebody_is_decided_and_their_run_goes_on(folder: Path) -> None:
    (pause,) = json.loads(perdure("pauses", STORE, "ask", "-o", "json", folder=folder).stdout)
    done = perdure("decide", STORE, pause["id"], "--approve", "--by", "ann", folder=folder)
    assert (done.returncode, done.stderr) == (0, f"next: perdure resume {STORE} ask --handlers MODULE --user alice\n")
    done = perdure("resume", STORE, "ask", "--handlers", "agents", "-o", "json", folder=folder)
    assert json.loads(done.stdout)["result"] is True


@pytest.mark.parametrize("command", COMMANDS)
def test_several_threads_of_an_id_are_told_with_their_users_and_the_option(folder: Path, command: str) -> None:
    asking(folder, None, "bob")
    done = perdure(*COMMANDS[command], folder=folder)
    assert (done.returncode, done.stdout) == (5, "")
    said = done.stderr.removeprefix("error: 3 users have a thread 'ask': ")
    users, advice = said.split("; ", 1)
    assert sorted(users.split(", ")) == ["'alice'", "'bob'", "nobody"]
    assert advice == "say whose: --user NAME, or --user '' for the one that belongs to nobody\n"
    for user in ("alice", "bob", ""):
        done = perdure(*COMMANDS[command], "--user", user, folder=folder)
        assert (done.returncode, errors(done)) == (_code(command), []), user
