"""The programs in `examples/` run without a key, and go on after a kill."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
OFFLINE = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}


def run(program: str, *arguments: str, folder: Path, given: str = "", **environment: str) -> str:
    command = [sys.executable, str(EXAMPLES / program), *arguments]
    done = subprocess.run(
        command, cwd=folder, input=given, capture_output=True, text=True, timeout=120, env={**OFFLINE, **environment},
        check=True,
    )  # fmt: skip
    return done.stdout.strip()


def test_the_assistant_fills_in_a_form_through_a_kill(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "form_assistant" / "assistant.py"), "ann"]
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=OFFLINE
    ) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for line, answer in (("I want to travel", "Where to?"), ("Oslo", "On which day? (such as 2026-12-01)")):
            child.stdin.write(f"{line}\n")
            child.stdin.flush()
            assert child.stdout.readline().strip() == answer
        child.kill()
    said = run("form_assistant/assistant.py", "ann", folder=tmp_path, given="soon\n2026-12-01\n2\nyes\nI paid 3 EUR\n")
    assert said.splitlines() == [
        "'soon' is no date; write one such as 2026-11-01. On which day? (such as 2026-12-01)",
        "How many nights?", "Do you need a hotel?", "Filed: Oslo, 2026-12-01, 2 nights, hotel: True",
        "How much, in EUR?",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("decision", "environment", "end"),
    [
        ("approve", {}, "api:1.4 is live"),
        ("approve", {"DEPLOY_FAILS": "1"}, "api:1.4 was rolled back: the canary is too slow"),
        ("deny", {}, "step 'approve' was not approved: denied by ann"),
    ],
)
def test_a_release_waits_for_a_person_and_ends(
    decision: str, environment: dict[str, str], end: str, tmp_path: Path
) -> None:
    started = run("release/release.py", "start", "api", folder=tmp_path)
    assert started == "input_required: Deploy api to production?"
    assert "… approve: approval a person approves (waiting)" in run("release/release.py", "show", folder=tmp_path)
    assert run("release/release.py", decision, "ann", folder=tmp_path, **environment) == end
