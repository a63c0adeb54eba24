"""`perdure config check` and `perdure worker --config`: real processes throughout."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

from perdure.cli.main import COMMANDS
from perdure.sync import Perdure
from tests.cli.forked import errors
from tests.cli.golden_store import call
from tests.cli.test_cli import perdure
from tests.cli.test_runs import AGENTS, until

GOOD = """\
storage:
  sessions: {url: sqlite:///agents.db, namespace: tenant}
  checkpoint: {strategy: interval, interval: 1, after_tools: true}
human_in_the_loop: {require_approval_for: [deploy]}
notifications: [{url: "https://me:pw@hooks.example.com/x?token=1", secret: s3cret}]
"""


def test_what_a_file_means_is_told_without_its_secrets(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(GOOD)
    done = perdure("config", "check", "config.yaml", folder=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        "storage            sqlite:///agents.db",
        "options            namespace tenant",
        "checkpoints        enabled yes, strategy interval, interval 1, after_tools yes, before_llm no, every none",
        "recovery           auto_resume yes, auto_resume_hitl no, timeout none",
        "approvals          require_approval_for deploy, trusted_operations none, timeout none, auto_reject yes",
        "notifications      https://hooks.example.com/…",
        "trust              needed where nobody names the file",
    ]
    assert list(tmp_path.iterdir()) == [tmp_path / "config.yaml"]  # nothing was opened
    told = json.loads(perdure("config", "check", "config.yaml", "-o", "json", folder=tmp_path).stdout)
    assert (told["checkpoints"]["interval"], told["notifications"][0]["signed"]) == (1, True)


def test_every_mistake_is_a_line_and_the_exit_code_says_so(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("storage:\n  checkpoint:\n    stratgy: event\n    interval: 0\n")
    lines = [
        "config.yaml:3:5: unknown key 'stratgy', did you mean 'strategy'?",
        "config.yaml:4:15: expected a whole number from 1 on, found 0",
    ]
    done = perdure("config", "check", "config.yaml", folder=tmp_path)
    assert (done.returncode, done.stdout, done.stderr.splitlines()) == (5, "", lines)
    told = perdure("config", "check", "config.yaml", "-o", "json", folder=tmp_path)
    assert (told.returncode, json.loads(told.stdout)) == (5, {"problems": lines})


def test_a_worker_serves_the_store_of_a_file(tmp_path: Path) -> None:
    """S4.11, S4.18."""
    (tmp_path / "config.yaml").write_text(GOOD)
    (tmp_path / "agents.py").write_text(AGENTS)
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", namespace="tenant") as store:
        store.thread("charge").save({})
        store.start("charge", thread="charge")
        command = [sys.executable, "-m", "perdure.cli.main", "worker", "--config", "config.yaml"]
        with subprocess.Popen([*command, "--handlers", "agents"], cwd=tmp_path, stdout=subprocess.DEVNULL) as child:
            until(lambda: store.runs(status="finished"))
            child.send_signal(signal.SIGTERM)
        assert child.returncode == 0
        assert [point.note for point in store.thread("charge").history()] == ["at the end", "after tool charge", None]


def test_every_command_on_a_store_finds_it_by_a_file(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(GOOD.partition("notifications")[0])
    (tmp_path / "agents.py").write_text(AGENTS)
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", namespace="tenant") as store:
        for name in ("release", "waits"):
            store.start(name, thread=name, user="alice")

    def told(*words: str) -> Any:
        done = perdure(*words, "--config", "config.yaml", folder=tmp_path)
        assert done.returncode in (0, 6)
        return json.loads(done.stdout) if "json" in words else done.stdout + done.stderr

    resume = ["resume", "release", "--handlers", "agents", "-o", "json"]
    assert {run["thread"] for run in told("runs", "-o", "json")} == {"release", "waits"}
    assert told(*resume)["status"] == "input_required"
    (pause,) = told("pauses", "release", "-o", "json")
    decided = told("decide", pause["id"], "--approve", "--by", "ann", "--text", "sqlite:///x is no address here")
    typed = "perdure resume release --handlers MODULE --config config.yaml"
    assert decided.endswith(f"next: {typed.replace(' --config', ' --user alice --config')}\n")
    assert f"next: {typed}\n" in told("why", "release")
    assert told(*resume)["status"] == "input_required"  # the file says that `deploy` needs approval
    told("signal", "waits", "go", "7")
    assert told("cancel", "waits", "--reason", "late").startswith("cancelled")
    assert "signal.received" in told("timeline", "waits", "--user", "alice")


def test_each_command_that_names_a_file_can_leave_the_url_out() -> None:
    helped = {name for name in COMMANDS if "--config" not in call(name, "--help").out}
    assert helped == {"completion", "demo", "init", "schema", "version"}


def test_the_storage_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text(GOOD)
    for named in ([], ["sqlite:///agents.db", "--config", "config.yaml"]):
        done = perdure("worker", *named, "--handlers", "agents", folder=tmp_path)
        said = (
            "name the store once: --store ADDRESS, or --config FILE" if named else "which store? give --store ADDRESS"
        )
        assert (done.returncode, said in done.stderr) == (2, True)
    for words in (["runs"], ["why", "t"], ["pauses", "t"]):
        done = perdure(words[0], "--config=config.yaml", "sqlite:///agents.db", *words[1:], folder=tmp_path)
        assert (done.returncode, errors(done)) == (2, ["error: name the store once: --store ADDRESS, or --config FILE"])
    assert perdure("why", folder=tmp_path).returncode == 2


def test_a_file_is_trusted_by_a_command_until_it_changes(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "home"))
    file = tmp_path / "config.yaml"
    file.write_text(GOOD)

    def trust(action: str) -> str:
        done = perdure("config", action, "config.yaml", folder=tmp_path)
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()[-1]

    assert trust("trust") == trust("check") == "trust              given, or not needed"
    file.write_text(GOOD + "# changed\n")
    assert trust("check") == "trust              needed where nobody names the file"
