"""Where the stores under test are, and what counts as the same value."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from perdure.core.errors import DamagedError, StorageError

DURABLE = ("sqlite", "file")
BACKENDS = (*DURABLE, "memory")
TYPED = (StorageError, DamagedError)


def url_of(backend: str, folder: Path) -> str:
    """The address of a store in this folder."""
    return {"sqlite": f"sqlite:///{folder}/agents.db", "file": f"file:{folder}/place", "memory": "memory://"}[backend]


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal in value and in every type, NaN and the sign of zero included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return repr(one) == repr(other)  # NaN is itself, and -0.0 is not 0.0
    return bool(one == other)


def is_typed(error: BaseException) -> bool:
    """Whether it is one of the named storage or damage errors, and not their root."""
    return isinstance(error, TYPED) and type(error) not in TYPED


def raised(work: Callable[[], object]) -> BaseException | None:
    """The error that work ends with, None when it does not."""
    try:
        work()
    except Exception as exc:
        return exc
    return None


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A file system of its own in memory, which root may mount; elsewhere the test is not shown."""
    disk = folder / "disk"
    disk.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "perdure", disk], check=False, capture_output=True
    )
    if made.returncode:
        assert not os.environ.get("PERDURE_TEST_ALL"), made.stderr
        pytest.skip("not shown: a small file system cannot be mounted here")
    try:
        yield disk
    finally:
        subprocess.run(["umount", "-l", disk], check=True)
