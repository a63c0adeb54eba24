"""A Ctrl-C at any moment: the write is there as a whole or not at all, and no lock stays behind."""

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
from tests.faults.places import url_of

SECONDS = float(os.environ.get("PERDURE_INTERRUPT_SECONDS", "6"))


@pytest.fixture(scope="module")
def outcome(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    url = url_of("file", tmp_path_factory.mktemp("interrupted"))
    return interrupted(url, SECONDS)


def interrupted(url: str, seconds: float) -> dict[str, Any]:
    """What a program tells that was interrupted all the time; and how long another process then waits for its lock."""
    command = [sys.executable, "-m", "tests.faults.interrupted_child", url, str(seconds)]
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
    return told


def test_thousands_of_interrupts_leave_no_lock_behind(outcome: dict[str, Any]) -> None:
    assert outcome["interrupts"] > 200 * SECONDS / 6
    assert outcome["waited"] < 5
    assert outcome["errors"] == []


def test_a_write_that_was_answered_stands_once(outcome: dict[str, Any]) -> None:
    assert outcome["answered"] > 10
    assert (outcome["lost"], outcome["twice"], outcome["damage"]) == ([], [], "")


def test_interrupts_leave_hardly_any_open_files(outcome: dict[str, Any]) -> None:
    assert outcome["descriptors"] < 64
