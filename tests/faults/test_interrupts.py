"""A Ctrl-C or a cancelled task at any moment: the write is there whole or not at all, and no lock stays behind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from tests.checkpoints.places import PLACES

SECONDS = float(os.environ.get("PERDURE_INTERRUPT_SECONDS", "2"))  # `make crash` has ten minutes
BACKENDS = ("memory", "file", "sqlite", "postgres", "mysql")


def interrupted(url: str, seconds: float, how: str) -> dict[str, Any]:
    """What a program tells that was interrupted all the time; and how long another process then waits for its lock."""
    command = [sys.executable, "-m", "tests.faults.interrupted_child", url, str(seconds), how]
    root = Path(__file__).parents[2]
    with subprocess.Popen(command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        told: dict[str, Any] = json.loads(child.stdout.readline() or "{}")
        began = time.monotonic()
        with sync.Perdure.open(url) as store:  # while the child still lives
            store.thread("hit").append("items", "another process")
        told["waited"] = time.monotonic() - began
        child.stdin.close()
    print(told)
    return told


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("how", ["signals", "cancels"])
def test_thousands_of_interrupts_leave_no_lock_and_no_half_write(backend: str, how: str, tmp_path: Path) -> None:
    url, _ = PLACES[backend](tmp_path)
    outcome = interrupted(url, SECONDS, how)
    if (backend, how) != ("memory", "cancels"):  # in memory nothing is waited for, and tasks are cancelled in waits
        assert outcome["interrupts"] > 10 * SECONDS
    assert outcome["answered"] > 10
    assert outcome["calm"] > SECONDS
    assert outcome["waited"] < 5
    assert (outcome["errors"], outcome["damage"]) == ([], "")
    assert (outcome["lost"], outcome["twice"], outcome["calm_lost"]) == ([], [], [])
    assert outcome["descriptors"] < 64


def test_a_transaction_that_an_interrupt_left_open_is_undone(tmp_path: Path) -> None:
    """A second Ctrl-C may come while the first one is handled."""
    url, _ = PLACES["sqlite"](tmp_path)
    with sync.Perdure.open(url) as store:
        store.thread("t").save({"n": 1})
        raw = store._store._parts.storage._port._connection.raw()
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE perdure_thread SET name = 'half'")
        assert store.thread("t").append("items", "more") == 2
        assert store.thread("t").info().name is None
