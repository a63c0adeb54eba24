"""`perdure compare` as a person uses it: a real process for each call."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.sync import Perdure
from tests.cli.forked import check_refused
from tests.cli.test_cli import perdure

STORE = "sqlite:///agents.db"
SAID = """\
--- trip@1
+++ trip@2 (ready)
@@ city @@
-'Paris'
+'Rome'
@@ days @@
+3
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A store with a trip in two versions, and a branch of it."""
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db") as store:
        thread = store.thread("trip", user="alice")
        thread.update(set={"city": "Paris"})
        thread.save({"city": "Rome", "days": 3}, status="ready")
        thread.fork("@1", to="by-train").update(set={"city": "Milan"})
    return tmp_path


def on_a_terminal(*arguments: str, folder: Path, **environment: str) -> str:
    """What a person sees."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "perdure.cli.main", *arguments]
    env = {**os.environ, "TERM": "xterm-256color", **environment}
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=folder, env=env) as child:
        os.close(theirs)
        seen = b""
        try:
            while data := os.read(ours, 4096):
                seen += data
        except OSError:  # how Linux tells that the other side has closed
            pass
        assert child.wait(60) == 0
    os.close(ours)
    return seen.decode().replace("\r\n", "\n")


def test_two_points_are_compared_without_colour_in_a_pipe(folder: Path) -> None:
    done = perdure("compare", STORE, "trip@1", "trip", folder=folder)
    assert (done.returncode, done.stdout, done.stderr) == (0, SAID, "")
    done = perdure("compare", STORE, "trip@1", "trip@1", folder=folder)
    assert (done.returncode, done.stdout) == (0, "--- trip@1\n+++ trip@1\nno difference\n")


def test_a_terminal_gets_colour_unless_it_asks_for_none(folder: Path) -> None:
    seen = on_a_terminal("compare", STORE, "trip@1", "trip@2", folder=folder)
    assert "\x1b[31m-'Paris'\x1b[0m\n\x1b[32m+'Rome'\x1b[0m\n" in seen
    assert on_a_terminal("compare", STORE, "trip@1", "trip@2", folder=folder, NO_COLOR="1") == SAID


def test_three_points_are_each_compared_with_the_first(folder: Path) -> None:
    done = perdure("compare", STORE, "trip@1", "trip", "by-train", folder=folder)
    assert done.stdout == SAID + "\n--- trip@1\n+++ by-train@2\n@@ city @@\n-'Paris'\n+'Milan'\n"


def test_a_patch_leads_from_one_to_the_other(folder: Path) -> None:
    done = perdure("compare", STORE, "trip@1", "trip@2", "--patch", folder=folder)
    assert json.loads(done.stdout) == [
        {"op": "replace", "path": "/city", "value": "Rome"},
        {"op": "add", "path": "/days", "value": 3},
    ]


def test_programs_get_json(folder: Path) -> None:
    told = json.loads(perdure("compare", STORE, "trip", "by-train", "-o", "json", folder=folder).stdout)
    assert (told["equal"], told["changed_fields"]) == (False, ["city", "days"])
    assert told["first_divergence"]["common"] == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["trip", "nope"], "error: thread 'nope' does not exist"),
        (["trip@zzz", "trip"], "error: thread 'trip@zzz' does not exist; '@zzz' is not a ref; use @12 (a version)"),
        (["trip@7", "trip"], "error: version 7 of thread 'trip' does not exist"),
        (["trip", "by-train", "--user", "bob"], "error: thread 'trip' does not exist"),
        (["trip", "by-train", "trip@1", "--patch"], "error: a patch leads from one point to another: give 2 points"),
    ],
)
def test_an_error_is_one_line(folder: Path, arguments: list[str], said: str) -> None:
    done = perdure("compare", STORE, *arguments, folder=folder)
    check_refused(done, said)


def test_one_point_alone_is_wrong_usage(folder: Path) -> None:
    assert perdure("compare", STORE, "trip", folder=folder).returncode == 2
