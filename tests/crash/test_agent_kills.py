"""An agent that is killed before and after every write of its run loses nothing and does nothing twice."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("words", [[], ["--stream", "--every", "4"]], ids=["whole", "streamed"])
def test_an_agent_that_is_killed_at_any_entry_asks_its_model_and_runs_its_tools_once(words: list[str]) -> None:
    """S4.1, S4.3, S4.8, S4.24: what is done stays done, what may have run is asked about."""
    # A process of its own: children are forked, and this one has threads of the test runner.
    command = [sys.executable, "-m", "tests.crash.agent_kills", *words]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
