"""A short chaos: workers killed and frozen, the database crashed, everything done once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from perdure.testing.servers import require, shared_postgres

ROOT = Path(__file__).parents[2]


def test_runs_survive_dead_and_frozen_workers_and_a_crash_of_the_database() -> None:
    """S4.31: whoever comes goes on, by what the database has."""
    require(shared_postgres)  # skipped where there is none; the campaign starts its own
    command = [sys.executable, "-m", "tests.chaos.campaign", "--short", "--seed", "3"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
