"""Who runs a thread: a process, named so that another one on the same machine can tell whether it still lives."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_PROC = Path("/proc")


def owner(token: str) -> str:
    """The name of this process as the owner of a lease, with a token that tells its leases apart."""
    pid = os.getpid()
    return "/".join((machine(), str(pid), _started(pid), token))


def process_name(worker: str | None = None) -> str:
    """Who writes the entries of a run, for people: the machine and the process, and the worker where it has a name."""
    process = f"{_host()}/{os.getpid()}"
    return f"{worker}@{process}" if worker else process


def is_dead(name: str) -> bool:
    """Whether an owner is known to be gone: a process of this machine that ended. Of others nothing is known."""
    where, _, rest = name.partition("/")
    pid, _, rest = rest.partition("/")
    began = rest.partition("/")[0]
    if where != machine() or not pid.isdigit() or not began:
        return False
    return _started(int(pid)) != began


@cache
def _host() -> str:
    return socket.gethostname() or "localhost"


@cache
def machine() -> str:
    """This boot of this machine, as this container sees its processes; ids of others' mean nothing here."""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        return f"{socket.gethostname()}-{boot[:13]}-{_PROC.joinpath('self/ns/pid').readlink().name.strip('pid:[]')}"
    return socket.gethostname()


def _started(pid: int) -> str:
    """When a process began, in the kernel's ticks; empty when there is none, or nobody can say."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return ""
    fields = stat.rpartition(")")[2].split()
    return "" if fields[0] in "ZX" else fields[19]  # a zombie has ended
