"""A store that is open when the process forks: the child is told, the parent goes on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults.places import DURABLE, url_of

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.parametrize("backend", DURABLE)


def _played(play: str, backend: str, folder: Path) -> dict[str, str]:
    command = [sys.executable, "-W", "ignore", "-m", "tests.faults.forking", play, url_of(backend, folder)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=200, check=False)
    assert run.stderr == "", run.stderr
    return dict(line.split(" ", 1) for line in run.stdout.splitlines())


def test_a_child_is_told_and_may_close_what_it_inherited(backend: str, tmp_path: Path) -> None:
    found = _played("use_and_close", backend, tmp_path)
    assert found == {"append": "forked", "load": "forked", "close": "fine", "works": "True"}


def test_a_child_that_exits_harms_nothing(backend: str, tmp_path: Path) -> None:
    assert _played("exit_normally", backend, tmp_path) == {"leave": "fine", "works": "True"}


def test_a_child_may_open_a_store_of_its_own(backend: str, tmp_path: Path) -> None:
    assert _played("own_store_in_child", backend, tmp_path) == {"own": "fine", "works": "True"}


def test_a_child_is_told_on_the_asynchronous_face_too(backend: str, tmp_path: Path) -> None:
    found = _played("asynchronous", backend, tmp_path)
    assert found == {"append": "forked", "close": "fine", "works": "True"}


def test_a_child_never_hangs_when_another_thread_was_writing(backend: str, tmp_path: Path) -> None:
    found = _played("while_another_thread_writes", backend, tmp_path)
    assert found == {"append": "forked", "close": "fine", "works": "True"}
