"""Threads that are made, written anew and deleted at the moment somebody else looks at them: never told as damage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perdure import sync
from perdure.core.errors import EntryDamagedError
from perdure.storage.file.disk import RealDisk


@contextmanager
def running(program: str, *arguments: object) -> Generator[subprocess.Popen[bytes]]:
    """A process that is over when the test is."""
    with subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)]) as child:
        try:
            yield child
        finally:
            child.kill()


MAKER = """
import sys
from perdure import sync
with sync.Perdure.open(sys.argv[1]) as store:
    for number in range(int(sys.argv[2])):
        store.thread("t").append("items", number)
        store.thread("t").delete()
"""


def test_a_thread_that_is_made_and_deleted_is_there_or_not(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'store'}"
    with sync.Perdure.open(url) as store:
        store.setup()
        lengths = set[int]()
        with running(MAKER, url, 1500) as child:
            while child.poll() is None:
                lengths.add(len(store.thread("t").entries()))
        assert child.returncode == 0
        assert lengths == {0, 1}


def test_threads_of_one_id_are_made_and_deleted_from_several_processes(tmp_path: Path) -> None:
    url = f"file:{tmp_path / 'store'}"
    with sync.Perdure.open(url) as store:
        store.setup()
        with running(MAKER, url, 400) as one, running(MAKER, url, 400) as other:
            while one.poll() is None or other.poll() is None:
                assert len(store.threads()) <= 1
        assert (one.returncode, other.returncode) == (0, 0)
        assert store.threads() == []


REWRITER = """
import sys
from perdure.storage.file.disk import RealDisk
disk = RealDisk()
for number in range(20_000):
    beside = disk.open(sys.argv[1] + ".new", write=True, create=True)
    beside.write(0, b"%d" % number)
    beside.close()
    disk.replace(sys.argv[1] + ".new", sys.argv[1])
"""


def test_a_file_that_is_replaced_while_it_is_opened_is_no_link(tmp_path: Path) -> None:
    path, disk = tmp_path / "log.jsonl", RealDisk()
    path.write_bytes(b"0")
    with running(REWRITER, path) as child:
        while child.poll() is None:
            file = disk.open(str(path))
            assert file is not None
            file.close()
    assert child.returncode == 0


@pytest.mark.parametrize("create", [False, True])
def test_a_log_that_is_gone_beside_its_index_stays_damage(tmp_path: Path, create: bool) -> None:
    with sync.Perdure.open(f"file:{tmp_path / 'store'}") as store:
        store.thread("t").append("items", 1)
        [log] = (tmp_path / "store" / "threads").glob("*/log.jsonl")
        log.unlink()
        with pytest.raises(EntryDamagedError, match=r"is gone with all of log\.jsonl"):
            store.thread("t").append("items", 2) if create else store.thread("t").entries()
