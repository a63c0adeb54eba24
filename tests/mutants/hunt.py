"""Running the tests that have to notice a fault, in a process of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.mutants.faults import FAULTS

ROOT = Path(__file__).parents[2]
PASSED, FAILED = 0, 1
LOSSES = "20"  # power losses are enough to notice that nothing is synced


def hunt(name: str) -> str:
    """Plant the fault: "caught" when a test fails, "survived" when all pass, else what went wrong."""
    code, output = _pytest(name, FAULTS[name].where, FAULTS[name].tests)
    if code == FAILED:
        return "caught"
    return "survived" if code == PASSED else f"broken ({code}): {output[-400:]}"


def failing(where: str) -> str:
    """What fails of the tests in `where` while nothing is planted: then a failure would mean nothing."""
    words = sorted({fault.tests for fault in FAULTS.values() if fault.where == where and fault.tests})
    code, output = _pytest("", where, " or ".join(f"({each})" for each in words))
    return "" if code == PASSED else output[-2000:]


def _pytest(mutant: str, where: str, words: str) -> tuple[int, str]:
    """Exit code and output of pytest. Both modes share the code that faults are planted in: one is enough."""
    mode = "" if "async" in words else " and not async"  # unless the other one is asked for
    chosen = ["-k", f"({words}){mode}"] if words else []
    options = ["-x", "-q", "--tb=line", "-p", "tests.mutants.plugin", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *chosen, where],
        cwd=ROOT,
        env=os.environ | {"PERDURE_MUTANT": mutant, "PERDURE_POWER_LOSSES": LOSSES},
        capture_output=True,
        text=True,
    )
    return done.returncode, done.stdout + done.stderr
