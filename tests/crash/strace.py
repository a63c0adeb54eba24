"""One save at a time under strace: which system calls it makes, and what happens when one of them ends badly.

A child prepares everything, says so and waits. strace is attached, the child is told to go, and does one operation
between two harmless calls that mark its begin and its end in the trace.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
import traceback
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from perdure import sync
from tests.crash.child import call
from tests.crash.workload import Model, Op, applied

BEGIN, END = "/perdure-begin", "/perdure-end"
WRITING = (
    "write", "pwrite64", "writev", "pwritev", "fsync", "fdatasync", "sync_file_range", "ftruncate", "truncate",
    "fallocate", "rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "mkdir", "mkdirat",
    "openat", "open", "creat", "utimensat",
)  # fmt: skip
READING = ("read", "pread64", "readv", "preadv", "getdents64", "fstat", "newfstatat", "flock", "mmap")
_CALL = re.compile(r"^(?:\d+\s+)?([a-z_0-9]+)\(")


@cache
def available() -> bool:
    """Whether strace is here and may attach to a process."""
    if shutil.which("strace") is None:
        return False
    with subprocess.Popen(["sleep", "20"]) as sleeper:
        try:
            with _attach(sleeper.pid, ["-e", "trace=none"], os.devnull):
                sleeper.kill()
        except RuntimeError:
            sleeper.kill()
            return False
    return True


@dataclass(frozen=True, kw_only=True)
class Scene:
    """A place as it is before the operation, the operation, and what is known of the place."""

    name: str
    url: str  # with {folder}
    template: Path
    model: Model
    op: Op
    reads: bool = False  # the operation is a load; what it reads is looked at too
    opens: bool = False  # opening the storage is part of what is traced
    forgives_syncs: bool = False  # something derived is synced too, whose failure harms nothing acknowledged


@dataclass(frozen=True)
class Ending:
    """What became of the operation in the child."""

    acknowledged: bool
    error: str  # the class of the error, "" for none
    lineage: tuple[str, ...]  # the classes it derives from
    words: str
    retried: bool  # the child did it again after an error, and that was acknowledged
    trace: str


def play(scene: Scene, folder: Path, inject: Sequence[str] = (), retry: bool = False) -> Ending:
    """Copy the scene to `folder`, let a child do its operation under strace, and return how it ended."""
    shutil.copytree(scene.template, folder, dirs_exist_ok=True)
    reading, answering = os.pipe()
    waiting, going = os.pipe()
    pid = os.fork()
    if not pid:
        os.close(reading)
        os.close(going)
        _act(scene, scene.url.format(folder=folder), answering, waiting, retry)
    os.close(answering)
    os.close(waiting)
    return _direct(pid, reading, going, inject)


def _direct(pid: int, reading: int, going: int, inject: Sequence[str]) -> Ending:
    with os.fdopen(reading, "rb") as answers, tempfile.NamedTemporaryFile() as trace:
        assert answers.readline() == b"ready\n"
        with _attach(pid, [f"-e{option}" for option in inject], trace.name):
            os.write(going, b"g")
            os.close(going)
            said = answers.read().decode()
            os.waitpid(pid, 0)
        return _ending(said, Path(trace.name).read_text(errors="replace"))


def _attach(pid: int, options: Sequence[str], trace: str) -> subprocess.Popen[bytes]:
    tracer = subprocess.Popen(["strace", "-f", "-y", "-o", trace, *options, "-p", str(pid)], stderr=subprocess.PIPE)
    assert tracer.stderr is not None
    line = tracer.stderr.readline()
    if b"attached" not in line:
        tracer.communicate()
        raise RuntimeError(f"strace: {line.decode()}")
    return tracer


def _ending(said: str, trace: str) -> Ending:
    words = dict(line.split(" ", 1) for line in said.splitlines())
    classes = tuple(words.get("error", "").split())
    return Ending(
        "ack" in words, classes[0] if classes else "", classes, words.get("words", ""), "again" in words, trace
    )


def _act(scene: Scene, url: str, answering: int, waiting: int, retry: bool) -> NoReturn:
    """The child: never returns."""
    try:
        store = sync.Perdure.open(url)
        handle = store.thread(scene.op.thread)
        state = handle.load(default=None) if not scene.opens else None
        os.write(answering, b"ready\n")
        os.read(waiting, 1)
        wanted = scene.op.after if scene.reads else applied(state, scene.op)
        _perform(handle, scene.op, wanted, answering, retry)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)


def _perform(handle: sync.Thread, op: Op, state: Any, answering: int, retry: bool) -> None:
    os.access(BEGIN, os.F_OK)
    try:
        call(handle, op, state)
        os.access(END, os.F_OK)
        os.write(answering, b"ack 1\n")
        return
    except BaseException as exc:
        os.access(END, os.F_OK)
        names = " ".join(each.__name__ for each in type(exc).__mro__)
        os.write(answering, f"error {names}\nwords {str(exc)[:200]!r}\n".encode())
    if retry:
        call(handle, op, state)
        os.write(answering, b"again 1\n")


def calls_of(scene: Scene, folder: Path) -> list[tuple[str, int, str]]:
    """Every call of the operation: its name, which one of that name since strace came, and its line."""
    names = WRITING + READING if scene.reads else WRITING
    known = ",".join(f"?{name}" for name in names)  # a `?` forgives a name that this architecture does not have
    ending = play(scene, folder, [f"trace={known},access"])
    assert ending.acknowledged, ending
    counted: Counter[str] = Counter()
    found: list[tuple[str, int, str]] = []
    inside = False
    for line in ending.trace.splitlines():
        name = match[1] if (match := _CALL.match(line)) else ""
        inside = (inside or BEGIN in line) and END not in line
        if name in names:
            counted[name] += 1
            if inside:
                found.append((name, counted[name], line))
    return found
