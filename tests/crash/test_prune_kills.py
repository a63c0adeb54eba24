"""A process killed in the middle of prune and compact loses nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_a_prune_that_is_killed_loses_nothing_and_can_be_finished(backend: str) -> None:
    """B9."""
    # A process of its own: children are forked, and this one has threads of the test runner.
    command = [sys.executable, "-m", "tests.crash.prune_kills", "--kills", "6", "--backend", backend, "--seed", "5"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
