"""The demo as its viewers see it: real processes, really killed."""

from __future__ import annotations

import contextlib
import os
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from perdure.cli import demo_versus
from perdure.cli.demo import fresh, heart
from perdure.cli.demo_agent import run_agent
from perdure.cli.demo_person import answer
from perdure.cli.demo_screen import Screen, commands
from perdure.cli.ticket_world import EFFECTS, PLAN, STEPS
from perdure.sync import Perdure

DEMO = [sys.executable, "-m", "perdure.cli.main", "demo", "--fast"]
WORKS = re.compile(r"process (\d+) works")


def run_demo(folder: Path) -> str:
    done = subprocess.run(DEMO, cwd=folder, capture_output=True, text=True, check=False, timeout=120)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Where one was run, and what it said: for everybody who only looks at it."""
    folder = tmp_path_factory.mktemp("demo")
    return folder, run_demo(folder)


@pytest.fixture
def after(demo: tuple[Path, str], tmp_path: Path) -> Path:
    """A copy of what it left, for those who go on with it."""
    shutil.copytree(demo[0], tmp_path, dirs_exist_ok=True)
    return tmp_path


def effects(folder: Path) -> list[str]:
    lines = (folder / "perdure-demo" / "effects.log").read_text(encoding="utf-8").splitlines()
    return [line.split("\t")[0] for line in lines]


def state(folder: Path) -> object:
    with Perdure.open(f"sqlite:///{folder}/perdure-demo/ticket.db") as store:
        return store.thread("ticket-4711").load()


def kinds(folder: Path) -> list[str]:
    with Perdure.open(f"sqlite:///{folder}/perdure-demo/ticket.db") as store:
        return [entry.kind.value for entry in store.thread("ticket-4711").entries()]


def test_the_agent_kills_itself_and_the_next_process_does_only_what_is_missing(demo: tuple[Path, str]) -> None:
    folder, said = demo
    before, after = said.split("is dead: SIGKILL, it killed itself after 8 steps")
    assert [name for name in STEPS if f"  {name:<9} {PLAN[name]}" in before] == STEPS[:8]
    again = [name for name in STEPS if f"/12  {name:<9} {PLAN[name]}" in after]
    assert again == [name for name in STEPS[8:] if name != "charge"]
    assert "    1-8  are in the log: not run again" in after
    assert effects(folder) == EFFECTS
    assert state(folder) == {"results": PLAN}
    assert "6 side effects by 3 processes, each of them once" in said


def test_a_kill_between_an_effect_and_its_record_is_asked_about_answered_and_finished(demo: tuple[Path, str]) -> None:
    folder, said = demo
    key = re.search(r"asked  unverified: charge may have run, key (\S+)\.", said)
    assert key is not None
    assert f"charge  {PLAN['charge']}" in said.split(f"$ grep -e {key[1]} perdure-demo/effects.log")[1]
    assert re.search(r"^denied +pau_\S+, by you$", said, re.MULTILINE)
    assert "   1-10  are in the log: not run again" in said
    assert "the run is finished; 12 of 12 results are in the log" in said
    counted = kinds(folder)
    told = ("pause.opened", "pause.decided", "run.finished", "step.finished", "tool.started", "tool.finished")
    assert [counted.count(kind) for kind in told] == [1, 1, 1, 6, 6, 6]


def test_without_a_terminal_it_prints_plain_text_and_the_code_that_ran(demo: tuple[Path, str]) -> None:
    folder, said = demo
    assert "\x1b" not in said
    script = (folder / "perdure-demo" / "ticket_agent.py").read_text(encoding="utf-8")
    assert heart(script) in said


def test_the_fork_decided_otherwise_and_the_thread_did_not(demo: tuple[Path, str]) -> None:
    folder, said = demo
    assert re.search(r"results.decide +send a replacement +refund 89.00 EUR", said)
    with Perdure.open(f"sqlite:///{folder}/perdure-demo/ticket.db") as store:
        branch = store.thread("if refund 89.00 EUR").load()
    assert branch["results"] == {**{name: PLAN[name] for name in STEPS[:5]}, "decide": "refund 89.00 EUR"}


def test_a_second_demo_starts_afresh_and_leaves_other_files_alone(after: Path) -> None:
    mine = after / "perdure-demo" / "mine.txt"
    mine.write_text("not the demo's")
    run_demo(after)
    assert effects(after) == EFFECTS
    assert mine.read_text() == "not the demo's"


@pytest.mark.parametrize("seed", range(3))
def test_a_viewer_may_kill_any_process_at_any_moment(tmp_path: Path, seed: int) -> None:
    said = "".join(watch_and_kill(tmp_path, random.Random(seed), kills=2))
    assert "somebody killed it" in said
    assert effects(tmp_path) == EFFECTS
    assert state(tmp_path) == {"results": PLAN}


def watch_and_kill(folder: Path, chance: random.Random, kills: int) -> Iterator[str]:
    """Run the demo, and kill its agent from outside after one of the first steps of each process."""
    pid, countdown = 0, chance.randint(0, 4)
    with subprocess.Popen([*DEMO], cwd=folder, stdout=subprocess.PIPE, text=True) as watched:
        for line in watched.stdout or ():
            yield line
            if found := WORKS.search(line):
                pid, countdown = int(found[1]), chance.randint(0, 4)
            if "the run is" in line or "kill -9" in line.split("works;")[0]:
                pid = 0  # it is about to end by itself
            if pid and kills and countdown <= 0:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
                    kills -= 1
                pid = 0
            countdown -= 1
    assert watched.returncode == 0


@pytest.mark.parametrize("happened", [True, False])
def test_the_person_lets_a_tool_run_that_did_not_run_and_no_other(
    tmp_path: Path, happened: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    script = fresh(tmp_path / "perdure-demo")
    run_agent(None, script, ["--pace", "0", "--die-in", "email"])
    if not happened:  # as if the process had died a moment earlier
        log = script.parent / "effects.log"
        log.write_text("".join(line for line in log.read_text().splitlines(True) if not line.startswith("email")))
    assert run_agent(None, script, ["--pace", "0"]).asked
    assert answer(Screen(), script.parent)
    assert f"{'denied' if happened else 'approved':<18} pau_" in capsys.readouterr().out
    assert run_agent(None, script, ["--pace", "0"]).code == 0
    assert effects(tmp_path) == EFFECTS


def test_the_picture_is_a_small_svg_that_fetches_nothing(tmp_path: Path) -> None:
    subprocess.run([*DEMO, "--svg", "demo.svg"], cwd=tmp_path, capture_output=True, check=True, timeout=120)
    for picture in (tmp_path / "demo.svg", Path(__file__).parents[2] / "docs" / "images" / "demo.svg"):
        text = picture.read_text(encoding="utf-8")
        assert ElementTree.fromstring(text).tag.endswith("svg")
        assert len(text) < 150_000
        assert set(re.findall(r"https?://[^\"']+", text)) == {"http://www.w3.org/2000/svg"}
        assert "each&#160;of&#160;them&#160;once" in text


def test_the_commands_it_suggests_work(after: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(after)
    for command in commands(Path("perdure-demo")):
        assert subprocess.run(["sh", "-c", command], check=False, timeout=60, capture_output=True).returncode == 0, (
            command
        )


def test_beside_langgraph_it_says_how_to_install_what_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(demo_versus, "peer_python", lambda: None)
    demo_versus.versus(Screen(), tmp_path, 8)
    assert "pip install langgraph langgraph-checkpoint-sqlite" in capsys.readouterr().out


def test_a_file_in_the_way_is_one_line_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "perdure-demo").write_text("mine")
    done = subprocess.run(DEMO, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 5  # invalid: the folder cannot be used
    assert done.stderr == "error: perdure-demo is not a folder; move it away or run the demo somewhere else\n"
    assert (tmp_path / "perdure-demo").read_text() == "mine"
