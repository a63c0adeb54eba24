"""A process killed in the middle of forgetting a user leaves whole threads, and the next call completes it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from perdure import sync
from perdure.testing.servers import require, shared_postgres

ROOT = Path(__file__).parents[2]
# Works in a run until it is told to go on, and then tries to write.
RUNNER = """
import sys
from perdure import sync
from perdure.errors import PerdureError
with sync.Perdure.open(sys.argv[1]) as store:
    try:
        with store.thread("busy", user="gone").run() as run:
            run.append("messages", "before")
            print("running", flush=True)
            sys.stdin.readline()
            run.append("messages", "after")
    except PerdureError as exc:
        print(type(exc).__name__, flush=True)
"""


@pytest.mark.parametrize("backend", ["sqlite", "file", "postgres"])
def test_a_forget_that_is_killed_is_completed_by_the_next(backend: str) -> None:
    # A process of its own: children are forked, and this one has threads of the test runner.
    command = [sys.executable, "-m", "tests.crash.forget_kills", "--kills", "4", "--backend", backend, "--seed", "11"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout


@pytest.mark.parametrize("backend", ["sqlite", "postgres"])
def test_a_run_of_another_process_writes_nothing_after_the_user_was_forgotten(backend: str, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db" if backend == "sqlite" else require(shared_postgres).database("forget_running")
    words = [sys.executable, "-c", RUNNER, url]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdin is not None
        assert child.stdout.readline() == "running\n"
        with sync.Perdure.open(url) as store:
            done = store.forget("gone", dry_run=False, force=True)
            assert (done.is_complete, [each.is_running for each in done.threads]) == (True, [True])
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() in ("LeaseLostError\n", "NotFoundError\n")
            assert store.threads(user="gone") == []
            assert store.verify().ok
