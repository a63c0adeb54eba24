"""A process killed at any system call of a save leaves that save wholly there or not at all."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.crash.strace import available

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_a_kill_at_any_system_call_of_a_save_leaves_it_whole_or_absent(backend: str) -> None:
    if not available():
        assert not os.environ.get("PERDURE_TEST_ALL"), "strace is needed"
        pytest.skip("not shown: strace is not here, or may not attach to a process")
    command = [sys.executable, "-m", "tests.crash.syscalls", "--backend", backend, "--sample", "3"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    print(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")
