"""An agent whose process is killed again and again loses nothing, does nothing twice, and asks nothing needless."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure.testing.servers import require, shared_postgres

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(("backend", "kills"), [("sqlite", 12), ("postgres", 6)])
def test_an_agent_that_is_killed_finishes_with_every_effect_once(backend: str, kills: int) -> None:
    """S0.3, S4.1, S4.8: what comes next is told by the log, exactly where it was left."""
    if backend == "postgres":
        require(shared_postgres)  # skipped where there is none; the campaign starts its own
    # A process of its own: children are forked, and this one has threads of the test runner.
    command = [sys.executable, "-m", "tests.crash.run_kills", "--kills", str(kills), "--backend", backend]
    run = subprocess.run([*command, "--seed", "5"], cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout
