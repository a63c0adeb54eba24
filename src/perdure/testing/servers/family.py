"""A process and all that it started: PostgreSQL puts each backend in a session of its own, out of a group's reach."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

_PROC = Path("/proc")
_STANDSTILL = 30.0  # seconds; a thread that does not stop by then is deep in the kernel, and stops when it comes out


def family(root: int) -> list[int]:
    """`root` and its living descendants, parents first."""
    children: defaultdict[int, list[int]] = defaultdict(list)
    for pid, parent in _parents():
        children[parent].append(pid)
    found = [root]
    for pid in found:
        found.extend(children[pid])
    return found


def freeze(root: int) -> list[int]:
    """Stop the whole family, `root` first, so that it starts no more; returns who was stopped.

    Each is waited for: a signal is sent before it is heeded, and on a busy machine a thread would answer once more.
    """
    stopped: list[int] = []
    while fresh := [pid for pid in family(root) if pid not in stopped]:
        for pid in fresh:
            send([pid], signal.SIGSTOP)
            _await_standstill(pid)
        stopped += fresh
    return stopped


def _await_standstill(pid: int) -> None:
    end = time.monotonic() + _STANDSTILL
    while not set(_states(pid)) <= set("TtZX") and time.monotonic() < end:
        time.sleep(0.001)


def thaw(root: int) -> None:
    """Let the whole family go on, `root` last: it should find its children alive."""
    send(reversed(family(root)), signal.SIGCONT)


def kill(root: int) -> list[int]:
    """Kill the whole family at once: nobody has the time to notice the death of another."""
    members = freeze(root)
    send(members, signal.SIGKILL)
    return members


def send(pids: Iterable[int], number: signal.Signals) -> None:
    """Send a signal to each that is still there."""
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def wait_gone(pids: Iterable[int], patience: float) -> bool:
    """Wait until all of `pids` have ended; a zombie has."""
    end = time.monotonic() + patience
    left = list(pids)
    while left := [pid for pid in left if _alive(pid)]:
        if time.monotonic() > end:
            return False
        time.sleep(0.005)
    return True


def _states(pid: int) -> Iterator[str]:
    """What each thread of a process does, in one letter; nothing when it is gone."""
    if _PROC.joinpath("self/task").exists():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            for thread in os.listdir(_PROC / str(pid) / "task"):
                if stat := _stat(pid, thread):
                    yield stat[0]
        return
    yield from subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout[:1]


def _alive(pid: int) -> bool:
    if _PROC.joinpath("self/stat").exists():
        return (stat := _stat(pid)) is not None and stat[0] not in "ZX"
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def _parents() -> Iterator[tuple[int, int]]:
    """Every living process with its parent."""
    if _PROC.joinpath("self/stat").exists():
        for pid in (int(entry) for entry in os.listdir(_PROC) if entry.isdigit()):
            if (stat := _stat(pid)) and stat[0] not in "ZX":
                yield pid, int(stat[1])
        return
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        pid, parent = line.split()
        yield int(pid), int(parent)


def _stat(pid: int, thread: str = "") -> list[str] | None:
    """State, parent and so on of a process or of a thread; its name, which may hold anything, is left out."""
    place = _PROC / str(pid) / "task" / thread if thread else _PROC / str(pid)
    try:
        return (place / "stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
