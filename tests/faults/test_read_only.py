"""A place that may not be written: `StorageReadOnlyError`, and what can be read is read."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure import sync
from perdure.core.errors import StorageReadOnlyError
from tests.faults.places import DURABLE, small_disk, url_of

pytestmark = pytest.mark.parametrize("backend", DURABLE)
NOBODY = 65534
_SCRIPT = """
import os, sys
from perdure import sync
import perdure.storage.sqlite.store, perdure.storage.file.store
os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
try:
    with sync.Perdure.open(sys.argv[1]) as store:
        store.thread("t").append("items", 2)
        print("written")
except BaseException as exc:
    print(type(exc).__name__)
"""


@pytest.fixture
def frozen_disk(backend: str, tmp_path: Path) -> Iterator[Path]:
    """A place with one thread on a file system that was made read-only."""
    with small_disk(tmp_path, "8m") as disk:
        _prepare(backend, disk)
        subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
        yield disk


def _prepare(backend: str, folder: Path) -> None:
    with sync.Perdure.open(url_of(backend, folder)) as store:
        store.thread("t").append("items", 1)


def test_a_write_to_a_read_only_file_system_is_refused(backend: str, frozen_disk: Path) -> None:
    with pytest.raises(StorageReadOnlyError), sync.Perdure.open(url_of(backend, frozen_disk)) as store:
        store.thread("t").append("items", 2)


def test_a_new_place_on_a_read_only_file_system_is_refused(backend: str, frozen_disk: Path) -> None:
    url = {"sqlite": f"sqlite:///{frozen_disk}/new.db", "file": f"file:{frozen_disk}/new"}[backend]
    with pytest.raises(StorageReadOnlyError), sync.Perdure.open(url) as store:
        store.thread("t").append("items", 2)


@pytest.mark.parametrize("what", ["folder and files", "folder", "files"])
def test_another_user_without_permission_is_refused(backend: str, what: str, shared: Path) -> None:
    _prepare(backend, shared)
    for each in (shared, *shared.rglob("*")):
        bits = 0o755 if each.is_dir() else 0o644
        kept = ("folder" if each.is_dir() else "files") not in what
        each.chmod(bits | (0o022 if kept else 0))
    # A log of the file storage that may be written can grow without its folder; SQLite has to make a WAL beside it.
    allowed = backend == "file" and what == "folder"
    assert _as_nobody(url_of(backend, shared)) == ("written" if allowed else "StorageReadOnlyError")


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that others can reach."""
    if os.getuid():
        assert not os.environ.get("PERDURE_TEST_ALL"), "root is needed to become somebody else"
        pytest.skip("not shown: only root may become somebody else")
    with tempfile.TemporaryDirectory(prefix="perdure-shared-") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


def _as_nobody(url: str) -> str:
    """What a process gets that may not write there. It is root while it imports, which nobody else may here."""
    command = [sys.executable, "-c", _SCRIPT, url, str(NOBODY)]
    run = subprocess.run(command, capture_output=True, text=True, cwd="/", check=False)
    assert run.stderr == ""
    return run.stdout.strip()
