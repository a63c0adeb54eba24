"""A small process that ends our servers when we die without a word, as under `kill -9`.

This file is also its program. It reads lines of JSON, each naming all pids and folders that are to go, and acts on
the last one when its input ends, which is when no process holds the other end any more.

PR_SET_PDEATHSIG would be shorter and wrong: it fires when the *thread* that started the server ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path


class Guardian:
    """Told of every server of this process."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owner = 0
        self._pipe = -1
        self._watched: dict[object, tuple[tuple[int, ...], str]] = {}

    def watch(self, key: object, *, pids: Iterable[int] = (), folder: Path | None = None) -> None:
        """These are the processes of `key`, and the folder to remove with them."""
        with self._lock:
            self._be_ours()
            self._watched[key] = (tuple(pids), str(folder or ""))
            self._tell()

    def forget(self, key: object) -> None:
        """`key` is gone and has left nothing."""
        with self._lock:
            self._be_ours()
            self._watched.pop(key, None)
            self._tell()

    def _be_ours(self) -> None:
        """Start the process at first use; in a child that forked off, anew: what its parent started stays there."""
        if self._owner == os.getpid():
            return
        self._watched.clear()
        self._owner = os.getpid()
        reading, self._pipe = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-I", "-S", __file__],
            stdin=reading,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        os.close(reading)
        process.returncode = 0  # it outlives us: nobody waits for it, and nobody should be warned of that

    def _tell(self) -> None:
        pids = sorted({pid for pids, _ in self._watched.values() for pid in pids})
        folders = [folder for _, folder in self._watched.values() if folder]
        with contextlib.suppress(BrokenPipeError):
            os.write(self._pipe, json.dumps([pids, folders]).encode() + b"\n")


GUARDIAN = Guardian()


def main() -> None:
    """Read until the end; then end what the last line names."""
    last = "[[], []]"
    for line in sys.stdin:
        last = line
    pids, folders = json.loads(last)
    for pid in pids:
        for end in (os.killpg, os.kill):
            with contextlib.suppress(OSError):
                end(pid, signal.SIGKILL)
    for _ in range(50):  # children of the killed notice it in their own time, and may write until then
        for folder in folders:
            shutil.rmtree(folder, ignore_errors=True)
        if not any(map(os.path.exists, folders)):
            break
        time.sleep(0.1)


if __name__ == "__main__":
    main()
