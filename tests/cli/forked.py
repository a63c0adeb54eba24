"""Commands without the half second of imports that each of them begins with.

One process imports the command line and forks for every call: the child has a folder, an environment, an exit code and
an end of its own, as one that was started has. It reads one JSON line per call from its standard input, and answers
with the pid of the child and then with its exit code.
"""

from __future__ import annotations

import atexit
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import threading
from importlib import import_module
from pathlib import Path
from typing import Any

PATIENCE = 60.0


def errors(done: subprocess.CompletedProcess[str]) -> list[str]:
    """The lines about what went wrong, without those about what to type next."""
    return [line for line in done.stderr.splitlines() if not line.startswith("next: ")]


def check_refused(done: subprocess.CompletedProcess[str], said: str) -> None:
    """Nothing on standard output, one line about what is wrong, and the exit code that goes with it."""
    code = (
        8
        if "the first line does not begin" in done.stderr
        else 3
        if "does not exist" in done.stderr
        else 7
        if "there is no database yet" in done.stderr
        else 5
    )
    assert (done.returncode, done.stdout, len(errors(done))) == (code, "", 1)
    assert said in done.stderr


class Forks:
    """The process that forks, as its caller sees it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, words: list[str], folder: Path | None) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; raise `TimeoutExpired`."""
        with self._lock, tempfile.TemporaryDirectory() as place:
            call = {"words": words, "folder": str(folder or Path.cwd()), "env": dict(os.environ), "place": place}
            code = self._called(call)
            out, err = (Path(place, name).read_text() for name in ("out", "err"))
        return subprocess.CompletedProcess(words, code, out, err)

    def _called(self, call: dict[str, Any]) -> int:
        process = self._started()
        assert process.stdin is not None
        _write(process.stdin.fileno(), json.dumps(call).encode() + b"\n")
        pid = int(self._answer(process))
        try:
            return int(self._answer(process))
        except subprocess.TimeoutExpired:
            os.kill(pid, signal.SIGKILL)
            self._answer(process)
            raise

    def _answer(self, process: subprocess.Popen[bytes]) -> bytes:
        assert process.stdout is not None
        if not select.select([process.stdout], [], [], PATIENCE)[0]:
            raise subprocess.TimeoutExpired(process.args, PATIENCE)
        return process.stdout.readline()

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            command = [sys.executable, "-m", "tests.cli.forked"]
            root = Path(__file__).parents[2]
            # Without a buffer: of two lines that came together, the second would lie where `select` does not look.
            self._process = subprocess.Popen(
                command, cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
            )
            atexit.register(self._process.communicate)
        return self._process


def _write(handle: int, data: bytes) -> None:
    while data:
        data = data[os.write(handle, data) :]


def serve() -> None:
    """Fork for every line; in the child, run the command."""
    from perdure.cli.main import COMMANDS, main

    for name in {command.target.partition(":")[0] for command in COMMANDS.values()} | {"perdure.cli.parser"}:
        import_module(name)
    answers = os.dup(1)
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    while line := sys.stdin.buffer.readline():
        if not (pid := os.fork()):
            os.close(answers)
            main(_become(json.loads(line)))
            return
        os.write(answers, f"{pid}\n".encode())
        os.write(answers, f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n".encode())


def _become(call: dict[str, Any]) -> list[str]:
    """Take the place of a process that was started for this call, and return its arguments."""
    for number, path, how in (
        (0, os.devnull, os.O_RDONLY),
        (1, f"{call['place']}/out", os.O_WRONLY | os.O_CREAT),
        (2, f"{call['place']}/err", os.O_WRONLY | os.O_CREAT),
    ):
        os.dup2(os.open(path, how), number)
    os.environ.clear()
    os.environ.update(call["env"])
    os.chdir(call["folder"])
    sys.path[0] = call["folder"]
    sys.argv[1:] = call["words"]
    return call["words"]


if __name__ == "__main__":
    serve()
