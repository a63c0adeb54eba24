"""`perdure pauses` and `perdure decide`: every kind of answer, in a pipe and on a terminal."""

from __future__ import annotations

import json
import os
import pty
import re
import shlex
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from perdure.cli.durations import ago, span, until
from perdure.core.ports import Clock
from perdure.sync import Perdure
from perdure.testing.clock import ManualClock
from tests.cli.forked import errors
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
FORM = {
    "type": "object",
    "properties": {
        "region": {"enum": ["eu", "us"]},
        "replicas": {"type": "integer", "minimum": 1, "default": 2},
        "note": {"type": "string", "description": "for the log"},
    },
    "required": ["region"],
}
ASKED: dict[str, dict[str, Any]] = {
    "plain": {"ask": "Deploy [bold]now[/]?", "args": {"env": "prod", "count": 2}},
    "choice": {"ask": "Where?", "expects": ["eu", "us"], "who": ["ann", "bob"]},
    "text": {"ask": "Say why", "expects": str},
    "form": {"ask": "How?", "expects": FORM, "deadline": timedelta(hours=3, minutes=5)},
    "external": {"ask": "What came of it?", "expects": Any},
}


class Seen(NamedTuple):
    """What a person saw, and how it ended."""

    code: int
    text: str


def opened(folder: Path, clock: Clock | None = None) -> Perdure:
    store = Perdure.open(f"sqlite:///{folder}/agents.db", clock=clock)

    def ask(run: Any) -> Any:
        decision = run.pause(run.input, **ASKED[run.input])
        return [decision.approved, decision.by, decision.args, decision.answer]

    store.handler("ask")(ask)
    return store


def paused(folder: Path, name: str, clock: Clock | None = None) -> str:
    """The id of a question that waits."""
    with opened(folder, clock) as store:
        store.start("ask", name, thread=name)
        store.resume(name)
        return store.pauses(name)[0].id


def outcome(folder: Path, name: str) -> Any:
    """What the code of the run got."""
    with opened(folder) as store:
        assert store.runs()[0].status == "decided"
        return store.resume(name).result


def typing(folder: Path, lines: list[str], *arguments: str) -> Seen:
    """A person on a terminal types these lines, and then Ctrl-D."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "perdure.cli.main", *arguments]
    env = {**os.environ, "TERM": "dumb", "COLUMNS": "200", "LOGNAME": "ann"}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=folder, env=env) as child:
        os.close(theirs)
        os.write(ours, b"".join(f"{line}\n".encode() for line in lines) + b"\x04")
        seen = b""
        try:
            while data := os.read(ours, 4096):
                seen += data
        except OSError:  # how Linux tells that the other side has closed
            pass
        code = child.wait(60)
    os.close(ours)
    return Seen(code, re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", seen.decode()).replace("\r\n", "\n"))


def test_a_question_is_listed_with_the_answer_that_it_expects(tmp_path: Path) -> None:
    """B17"""
    for name in ASKED:
        paused(tmp_path, name)
    shown = perdure("pauses", STORE, folder=tmp_path).stdout
    expects = [line for line in shown.splitlines() if line.startswith("  expects ")]
    form = "region (one of eu, us), replicas (whole number), note (text; for the log; may be left out)"
    assert re.fullmatch(rf"  expects a form with {re.escape(form)}, until \S+ \S+Z \(in 3 h\)", expects.pop(1))
    assert expects == [
        "  expects a result from elsewhere, as JSON",
        "  expects a text",
        "  expects one of eu, us, of ann or bob",
        "  expects a yes or no",
    ]
    assert "  Deploy [bold]now[/]?\n" in shown
    assert re.search(r"  choice in thread choice, version \d+, since \S+ \S+Z \(\d+ s ago\)\n", shown)


def test_programs_are_told_everything_about_a_question(tmp_path: Path) -> None:
    names = ("choice", "form")
    for name in names:
        paused(tmp_path, name)
    form, choice = json.loads(perdure("pauses", STORE, "-o", "json", folder=tmp_path).stdout)
    assert (choice["expects"], choice["choices"], choice["who"]) == ("choice", ["eu", "us"], ["ann", "bob"])
    assert (form["expects"], form["schema"], form["status"]) == ("form", FORM, "open")
    assert datetime.fromisoformat(form["deadline"]) - datetime.fromisoformat(form["at"]) > timedelta(hours=3)


@pytest.mark.parametrize(
    ("name", "given", "answer"),
    [
        ("choice", ["--choice", "eu"], "eu"),
        ("text", ["--text", "as [agreed]"], "as [agreed]"),
        ("form", ["--answer", '{"region": "us"}'], {"region": "us"}),
        ("external", ["--answer", "[1, 2]"], [1, 2]),
    ],
)
def test_each_kind_of_answer_is_given_by_options(tmp_path: Path, name: str, given: list[str], answer: Any) -> None:
    pause = paused(tmp_path, name)
    done = perdure("decide", STORE, pause, "--approve", "--by", "ann", *given, folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"next: perdure resume {STORE} {name} --handlers MODULE\n")
    assert outcome(tmp_path, name) == [True, "ann", {}, answer]


@pytest.mark.parametrize(
    ("code", "name", "given", "said"),
    [
        (
            5,
            "choice",
            ["--by", "ann", "--choice", "mars"],
            "was not decided: answer must be one of 'eu', 'us', not 'mars'",
        ),
        (1, "choice", ["--by", "eve", "--choice", "eu"], "error: eve may not decide about pause "),
        (5, "text", ["--by", "ann"], "was not decided: answer must be a text, not None"),
        (5, "form", ["--by", "ann", "--answer", '{"region": 1}'], "was not decided: answer.region: 1 is not one of"),
        (4, "text", ["--by", "ann", "--text", "x", "--version", "1"], "is version 3, you saw 1; look at it again"),
    ],
)
def test_a_wrong_answer_or_person_is_one_line_and_it_stays_open(
    tmp_path: Path, code: int, name: str, given: list[str], said: str
) -> None:
    pause = paused(tmp_path, name)
    done = perdure("decide", STORE, pause, "--approve", *given, folder=tmp_path)
    assert (done.returncode, done.stdout, len(errors(done))) == (code, "", 1)
    assert said in done.stderr
    with opened(tmp_path) as store:
        assert [each.id for each in store.pauses()] == [pause]


@pytest.mark.parametrize("way", ["by options", "on a terminal"])
def test_it_is_too_late_after_the_deadline_or_a_decision(tmp_path: Path, way: str) -> None:
    """B17"""
    long_ago = ManualClock(datetime(2020, 1, 1, tzinfo=UTC))
    late, decided = paused(tmp_path, "form", long_ago), paused(tmp_path, "plain")
    assert "Z (expired)\n" in perdure("pauses", STORE, "form", folder=tmp_path).stdout
    perdure("decide", STORE, decided, "--deny", "--by", "bob", folder=tmp_path)
    for pause, said in ((late, "was denied by its deadline at 2020-"), (decided, "was denied by bob at ")):
        if way == "by options":
            told = perdure("decide", STORE, pause, "--approve", "--by", "ann", folder=tmp_path).stderr
        else:
            told = typing(tmp_path, [], "decide", STORE, pause).text
        assert f"error: pause {pause} {said}" in told


def test_a_person_on_a_terminal_is_asked_for_everything(tmp_path: Path) -> None:
    pause = paused(tmp_path, "form")
    seen = typing(tmp_path, ["", "approve", "mars", "eu", "0", "5", "soon"], "decide", STORE, pause)
    assert seen.code == 0
    asked = [
        "region (one of eu, us): region: one of eu, us, not 'mars'",
        "region (one of eu, us): replicas (whole number) (2): replicas: 0 is less than the minimum of 1",
        "replicas (whole number) (2): note (text; for the log; may be left out): ",
    ]
    assert all(line in seen.text for line in asked)
    assert outcome(tmp_path, "form") == [True, "ann", {}, {"region": "eu", "note": "soon", "replicas": 5}]


@pytest.mark.parametrize(
    ("name", "lines", "result"),
    [
        ("plain", ["", "edit", "staging", ""], [True, "ann", {"env": "staging", "count": 2}, None]),
        (
            "plain",
            ["bob", "yes", "deny", "not on a Friday"],
            [False, "bob", {"env": "prod", "count": 2}, "not on a Friday"],
        ),
        ("choice", ["bob", "approve", "asia", "us"], [True, "bob", {}, "us"]),
        ("text", ["", "approve", "", "because"], [True, "ann", {}, "because"]),
        ("external", ["", "approve", "{", '{"n": 1}'], [True, "ann", {}, {"n": 1}]),
        ("form", ["", "approve", "us", "", ""], [True, "ann", {}, {"region": "us", "replicas": 2}]),
    ],
)
def test_what_is_typed_is_what_the_run_gets(tmp_path: Path, name: str, lines: list[str], result: list[Any]) -> None:
    pause = paused(tmp_path, name)
    assert typing(tmp_path, lines, "decide", STORE, pause).code == 0
    assert outcome(tmp_path, name) == result


def test_only_what_was_left_out_is_asked_for(tmp_path: Path) -> None:
    pause = paused(tmp_path, "choice")
    seen = typing(tmp_path, ["ann"], "decide", STORE, pause, "--approve")
    assert (seen.code, "Decision" in seen.text, "choice (one of eu, us)" in seen.text) == (130, False, True)
    assert typing(tmp_path, ["approve"], "decide", STORE, pause, "--by", "bob", "--choice", "eu").code == 0
    assert outcome(tmp_path, "choice") == [True, "bob", {}, "eu"]


def test_the_wrong_person_is_told_before_they_fill_anything_in(tmp_path: Path) -> None:
    pause = paused(tmp_path, "choice")
    seen = typing(tmp_path, ["eve"], "decide", STORE, pause)
    assert (seen.code, "Decision" in seen.text) == (1, False)
    assert "error: eve may not decide about pause" in seen.text


def test_nobody_approves_by_pressing_enter_and_ctrl_d_decides_nothing(tmp_path: Path) -> None:
    pause = paused(tmp_path, "plain")
    assert typing(tmp_path, ["", "", "", ""], "decide", STORE, pause).code == 130
    with opened(tmp_path) as store:
        assert [each.id for each in store.pauses()] == [pause]


def test_there_is_one_answer(tmp_path: Path) -> None:
    given = ["--approve", "--by", "ann", "--choice", "eu", "--text", "us"]
    done = perdure("decide", STORE, "pau_x.y", *given, folder=tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: there is one answer: give one of --choice, --text and --answer\n")


def test_runs_and_why_say_what_to_type_after_a_decision(tmp_path: Path) -> None:
    pause = paused(tmp_path, "plain")
    assert perdure("runs", STORE, folder=tmp_path).stderr == f"next: perdure why {STORE} plain\n"
    hints = perdure("why", STORE, "plain", folder=tmp_path).stderr.splitlines()
    assert hints == [f"next: perdure {word} {STORE} {pause[:12]}" for word in ("approve", "deny")]
    decided = perdure(*shlex.split(hints[0])[2:], "--by", "ann", folder=tmp_path)  # as it is pasted
    resume = f"perdure resume {STORE} plain --handlers MODULE"
    assert decided.stderr == f"next: {resume}\n"
    assert perdure("runs", STORE, folder=tmp_path).stdout.splitlines()[1].split()[0] == "decided"
    why = json.loads(perdure("why", STORE, "plain", "-o", "json", folder=tmp_path).stdout)
    assert why["next"][0] == resume


def test_a_block_goes_on_when_it_is_entered_again(tmp_path: Path) -> None:
    with opened(tmp_path) as store, store.thread("t").run() as run:
        run.pause("ok", ask="ok?")
    with opened(tmp_path) as store:
        (pause,) = store.pauses()
    done = perdure("decide", STORE, pause.id, "--approve", "--by", "ann", folder=tmp_path)
    assert done.stderr == "the run goes on when its block is entered again\n"
    why = perdure("why", STORE, "t", folder=tmp_path).stderr
    assert "resume" not in why


def test_spans_are_said_in_their_largest_unit() -> None:
    said = [span(seconds) for seconds in (0, 59.9, 60, 7199, 86_400, 2 * 86_400)]
    assert said == ["0 s", "59 s", "1 min", "1 h", "1 day", "2 days"]
    now = datetime(2026, 11, 16, tzinfo=UTC)
    hour = timedelta(hours=1)
    assert (ago(now - hour, now), until(now + hour, now), until(now, now)) == ("1 h ago", "in 1 h", "expired")
