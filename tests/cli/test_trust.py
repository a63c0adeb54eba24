"""`perdure trust` and `perdure key` as a person uses them: a real process for each call."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perdure.sync import Perdure
from tests.cli.test_cli import perdure

OURS = "sqlite:///ours.db"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A file of a stranger with an approved release, imported into our store."""
    with Perdure.open(f"sqlite:///{tmp_path}/theirs.db") as store:

        @store.handler("release")
        def release(run: Any) -> Any:
            return run.options(approval_prompt="Deploy?").tool("deploy", lambda env: env, **run.input)

        store.start("release", {"env": "prod\x1b[2J"}, thread="job")
        store.recover()
        store.decide(store.pauses()[0], approved=True, by="ann")
        store.export("job", tmp_path / "job")
    done = perdure("import", OURS, "job", "--user", "alice", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, f"next: perdure trust {OURS} --file job --dry-run\n")
    assert "quarantined        1 thread: nothing runs until you trust it" in done.stdout
    return tmp_path


def test_it_says_what_goes_on_and_then_it_does(folder: Path) -> None:
    done = perdure("trust", OURS, "job", "--dry-run", folder=folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "would go on: run run_" in done.stdout
    assert "approved by ann: 'Deploy?' with {'env': 'prod" in done.stdout
    assert "\x1b" not in done.stdout
    done = perdure("trust", OURS, "job", folder=folder)
    assert (done.returncode, "--yes" in done.stderr) == (2, True)
    assert "trust" in perdure("why", OURS, "job", folder=folder).stderr
    done = perdure("trust", OURS, "job", "--yes", "--by", "olga", folder=folder)
    assert "trusted            1 thread, by olga" in done.stdout
    assert "thread.trusted" in perdure("timeline", OURS, "job", folder=folder).stdout
    with Perdure.open(f"sqlite:///{folder}/ours.db") as store:
        assert store.thread("job", user="alice").info().quarantined is None


def test_all_threads_of_a_file(folder: Path) -> None:
    perdure("import", OURS, "job", "--user", "bob", "--to", "his", folder=folder)
    found = json.loads(perdure("trust", OURS, "--file", "job", "--dry-run", "-o", "json", folder=folder).stdout)
    assert {(each["thread"], each["user"], each["runs"][0]["agent"]) for each in found} == {
        ("job", "alice", "release"),
        ("his", "bob", "release"),
    }
    assert "2 threads" in perdure("trust", OURS, "--file", "job", "--yes", folder=folder).stdout
    assert perdure("trust", OURS, "--file", "job", "--yes", folder=folder).stdout.startswith("no quarantined thread")


def test_a_key_is_shared_and_then_files_are_believed(folder: Path) -> None:
    refused = perdure("import", OURS, "job", "--user", "carol", "--trust", folder=folder)
    assert (refused.returncode, "perdure key add" in refused.stderr) == (1, True)
    secret = perdure("key", "show", "sqlite:///theirs.db", folder=folder).stdout
    assert secret.startswith("pdk_")
    command = [sys.executable, "-m", "perdure.cli.main", "key", "add", OURS]
    added = subprocess.run(command, input=secret, capture_output=True, text=True, cwd=folder, check=True)
    name = added.stdout.split()[-1]
    assert perdure("key", "list", OURS, folder=folder).stdout == f"{name}  another storage\n"
    assert f"signed with key {name}" in perdure("export", "sqlite:///theirs.db", "job", "again", folder=folder).stdout
    assert "quarantined" not in perdure("import", OURS, "again", "--user", "carol", "--trust", folder=folder).stdout
    perdure("key", "remove", OURS, name, folder=folder)
    assert perdure("import", OURS, "again", "--user", "dan", "--trust", folder=folder).returncode == 1
    wrong = subprocess.run(command, input="pdk_0123", capture_output=True, text=True, cwd=folder, check=False)
    assert (wrong.returncode, "0123" in wrong.stderr) == (5, False)


@pytest.mark.parametrize("words", [["import", OURS, "job"], ["trust", OURS], ["trust", OURS, "job", "--file", "job"]])
def test_what_has_to_be_said(folder: Path, words: list[str]) -> None:
    done = perdure(*words, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
