"""`perdure runs`, `why`, `pauses`, `decide`, `cancel`, `signal`, `resume` and `worker`: real processes throughout."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure.sync import Perdure
from tests.cli.forked import errors
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
AGENTS = """
import os, pathlib, signal

def register(store):
    @store.handler("release")
    async def release(run):
        decision = await run.pause("deploy", ask="Deploy to production?", args={"env": "prod"})
        return await run.tool("deploy", done, **decision.args) if decision else "left alone"

    @store.handler("charge")
    async def charge(run):
        return await run.tool("charge", pay, amount=89)

    @store.handler("wrong", retry=1)
    async def wrong(run):
        await run.step("divide", lambda: 1 / 0)

    @store.handler("waits")
    async def waits(run):
        return await run.signal("go")

async def later(store):
    store.handler("waits")(lambda run: run.signal("go"))

def nothing(store):
    pass

def done(env):
    return f"deployed to {env}"

def pay(amount):
    if os.environ.pop("DIE", ""):
        os.kill(os.getpid(), signal.SIGKILL)
    with pathlib.Path("effects.log").open("a") as file:
        print(amount, file=file)
    return "receipt"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A module with handlers, and a queued run of each; the one of `wrong` is another user's."""
    (tmp_path / "agents.py").write_text(AGENTS)
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        for name in ("release", "charge", "waits"):
            store.start(name, {"service": "api"}, thread=name, user="alice")
        store.start("wrong", (1, 2), thread="wrong", user="bob")
    return tmp_path


def told(folder: Path, *arguments: str) -> Any:
    """What programs are told."""
    done = perdure(*arguments, "-o", "json", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def killed_while_it_paid(folder: Path) -> None:
    command = [sys.executable, "-m", "perdure.cli.main", "resume", STORE, "charge", "--handlers", "agents"]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "DIE": "1"}, check=False, timeout=60)
    assert done.returncode == -signal.SIGKILL


def test_runs_are_listed_and_can_be_chosen(folder: Path) -> None:
    done = perdure("runs", STORE, "--user", "alice", folder=folder)
    head, *lines = done.stdout.splitlines()
    assert head.split() == ["status", "thread", "user", "agent", "run", "changed", "tries"]
    assert [line.split()[:4] for line in lines] == [
        ["queued", name, "alice", name] for name in ("waits", "charge", "release")
    ]
    assert [each["thread"] for each in told(folder, "runs", STORE, "--agent", "charge")] == ["charge"]
    assert len(told(folder, "runs", STORE, "--limit", "2")) == 2
    assert told(folder, "runs", STORE, "--status", "dead") == []


def test_programs_get_inputs_and_results_that_json_cannot_carry(folder: Path) -> None:
    (info,) = told(folder, "runs", STORE, "--user", "bob")
    assert (info["input"], info["result"], info["status"]) == ({"$tuple": [1, 2]}, None, "queued")


def test_a_question_is_listed_decided_once_and_the_run_goes_on_with_the_edited_arguments(folder: Path) -> None:
    paused = perdure("resume", STORE, "release", "--handlers", "agents", folder=folder)
    assert paused.stdout.startswith("input_required     run_")
    (pause,) = told(folder, "pauses", STORE)
    assert (pause["ask"], pause["args"], pause["thread"]) == ("Deploy to production?", {"env": "prod"}, "release")
    shown = perdure("pauses", STORE, "release", folder=folder).stdout
    assert shown.startswith(
        f'{pause["id"][:12]}\n  Deploy to production?\n  with\n    env: "prod"\n  deploy in thread release'
    )

    version = str(pause["version"])
    edited = ["--approve", "--by", "ann", "--args", '{"env": "staging"}', "--version", version]
    done = perdure("decide", STORE, pause["id"], *edited, folder=folder)
    assert done.stdout.startswith(f"approved           {pause['id']}, by ann\n")
    second = perdure("decide", STORE, pause["id"], "--deny", "--by", "bob", folder=folder)
    assert (second.returncode, second.stdout) == (4, "")
    assert second.stderr.startswith(f"error: pause {pause['id']} was approved by ann at ")

    assert perdure("pauses", STORE, folder=folder).stdout == "nothing waits for a person\n"
    assert told(folder, "resume", STORE, "release", "--handlers", "agents.py")["result"] == "deployed to staging"


def test_a_tool_that_may_have_run_is_told_by_why_asked_about_and_its_result_is_taken(folder: Path) -> None:
    killed_while_it_paid(folder)
    done = perdure("why", STORE, "charge", "--user", "alice", folder=folder)
    lines = done.stdout.splitlines()
    assert lines[0].endswith("of charge is interrupted")
    assert lines[2].startswith("  unverified: charge(amount=89), key ")
    assert done.stderr.splitlines()[0] == f"next: perdure resume {STORE} charge --handlers MODULE --user alice"

    assert perdure("resume", STORE, "charge", "--handlers", "agents", folder=folder).returncode == 6
    story = told(folder, "why", STORE, "charge")
    (pause,) = told(folder, "pauses", STORE)
    assert pause["ask"].startswith(f"unverified: charge may have run, key {story['effects'][0]['key']}.")
    assert story["next"][1] == f"perdure deny {STORE} {pause['id'][:12]}"
    told(folder, "decide", STORE, pause["id"], "--deny", "--by", "ann", "--answer", '"receipt 7"')
    assert told(folder, "resume", STORE, "charge", "--handlers", "agents")["result"] == "receipt 7"
    assert not (folder / "effects.log").exists()


def test_what_a_handler_raises_is_one_line_and_the_reason_of_a_dead_run(folder: Path) -> None:
    done = perdure("resume", STORE, "wrong", "--handlers", "agents", folder=folder)
    (info,) = told(folder, "runs", STORE, "--status", "dead")
    assert (done.returncode, done.stdout) == (1, "")
    assert errors(done) == [f"error: run {info['id']} failed: ZeroDivisionError: division by zero"]
    assert info["error"] == "ZeroDivisionError: division by zero"
    assert (
        "  failed: divide: ZeroDivisionError: division by zero (version 3)"
        in perdure("why", STORE, "wrong", folder=folder).stdout
    )


def test_a_cancelled_run_is_over_with_its_reason(folder: Path) -> None:
    done = told(folder, "cancel", STORE, "charge", "--reason", "too late")
    assert (done["status"], done["error"]) == ("cancelled", "too late")
    assert "next:" not in perdure("why", STORE, "charge", folder=folder).stderr


def test_a_signal_reaches_the_run_and_its_key_sends_it_once(folder: Path) -> None:
    for _ in range(2):
        sent = perdure("signal", STORE, "waits", "go", '{"n": [1, 2]}', "--key", "first", folder=folder)
        assert (sent.stdout, sent.stderr) == ("sent               go to thread waits\n", "")
    assert told(folder, "resume", STORE, "waits", "--handlers", "agents:later")["result"] == {"n": [1, 2]}
    assert "signal.received" in perdure("timeline", STORE, "waits", folder=folder).stdout


def test_a_worker_takes_up_what_is_due_and_ends_on_sigterm(folder: Path) -> None:
    command = [sys.executable, "-m", "perdure.cli.main", "worker", STORE, "agents"]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
            until(lambda: [each.status for each in store.runs(status="finished")] == ["finished"])
            until(lambda: store.runs(status="dead") != [] and store.runs(status="waiting") != [])
            (pause,) = until(store.pauses)
            store.decide(pause, approved=True, by="ann")
            until(lambda: len(store.runs(status="finished")) == 2)
        child.send_signal(signal.SIGTERM)
        out, warned = child.communicate(timeout=60)
    assert child.returncode == 0
    assert out.splitlines() == [
        "serves             release, charge, wrong, waits; SIGTERM or Ctrl-C ends it",
        "ended              nothing more is taken up",
    ]
    lines = [line.split(maxsplit=2)[1:] for line in warned.splitlines()]
    said = Counter((level, text.partition("run_")[0].strip()) for level, text in lines)
    assert said == {
        ("info", "took up"): 5, ("info", "finished"): 2, ("info", "paused"): 2, ("warning", "failed for good"): 1,
    }  # fmt: skip
    assert "handler wrong: ZeroDivisionError: division by zero; perdure why says more" in warned
    assert (folder / "effects.log").read_text() == "89\n"


def until(found: Callable[[], Any]) -> Any:
    end = time.monotonic() + 60
    while not (answer := found()):
        assert time.monotonic() < end
        time.sleep(0.02)
    return answer


@pytest.mark.parametrize(
    ("code", "arguments", "said"),
    [
        (3, ["why", STORE, "nope"], "error: thread 'nope' does not exist"),
        (3, ["cancel", STORE, "nope"], "error: "),
        (3, ["signal", STORE, "nope", "go"], "error: thread 'nope' does not exist"),
        (5, ["signal", STORE, "waits", "go", "now"], "error: the value must be JSON, not 'now'"),
        (
            3,
            ["decide", STORE, "chk_1", "--deny", "--by", "a"],
            "error: pause 'chk_1' does not exist; `perdure pauses` lis",
        ),
        (3, ["decide", STORE, "pau_x.y", "--deny", "--by", "a"], "error: pause pau_x.y does not exist"),
        (
            5,
            ["decide", STORE, "pau_x.y", "--deny", "--by", "a", "--answer", "{"],
            "error: --answer must be JSON, not '{'",
        ),
        (5, ["runs", STORE, "--limit", "-1"], "error: limit must be an int from 0 to "),
        (
            5,
            ["resume", STORE, "waits", "--handlers", "agent"],
            "error: --handlers agent: there is no module 'agent' in ",
        ),
        (5, ["resume", STORE, "waits", "--handlers", "no.py"], "error: --handlers no.py: there is no such file in "),
        (5, ["worker", STORE, "agents:no"], "error: --handlers agents:no: agents has no function 'no'; it"),
        (5, ["worker", STORE, "agents:nothing"], "error: --handlers agents:nothing: it registered none; "),
        (2, ["worker", STORE, ""], "error: which handlers? name their module or file.py, or set worker.handlers"),
        (7, ["worker", "sqlite:///typo.db", "agents"], "there is no database yet"),
        (1, ["resume", STORE, "release", "--handlers", "agents:later"], "no handler 'release' is registered here; add"),
    ],
)
def test_an_error_is_one_line(folder: Path, code: int, arguments: list[str], said: str) -> None:
    done = perdure(*arguments, folder=folder)
    assert (done.returncode, done.stdout, len(errors(done))) == (code, "", 1)
    assert said in done.stderr
    assert not (folder / "typo.db").exists()


@pytest.mark.parametrize("given", [[], ["--approve"], ["--by", "ann"]])
def test_a_decision_says_which_and_by_whom(folder: Path, given: list[str]) -> None:
    done = perdure("decide", STORE, "pau_x.y", *given, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")


def test_a_stored_name_is_never_imported(folder: Path) -> None:
    (folder / "evil.py").write_text("open('imported', 'w')")
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        store.start("evil:register", thread="evil")
    done = perdure("resume", STORE, "evil", "--handlers", "agents", folder=folder)
    assert "no handler 'evil:register' is registered here" in done.stderr
    assert not (folder / "imported").exists()


def test_runs_that_do_not_get_on_are_listed(tmp_path: Path) -> None:
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store, store.thread("hangs").run(key="k"):
        asked = [("runs", STORE, "--stalled", each, "--output", "json") for each in ("0s", "10m")]
        found = [perdure(*each, folder=tmp_path) for each in asked]
        assert [[run["thread"] for run in json.loads(each.stdout)] for each in found] == [["hangs"], []]
