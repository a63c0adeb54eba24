"""Commands on a real pseudo-terminal, or in pipes: many of them by one process that forks, which is quicker."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
import threading
from pathlib import Path
from typing import NamedTuple

_MARK = "\x1e=== next ==="  # no command may print a control character: nothing can look like it
_RUNNER = """
import gc, json, os, signal, sys
import perdure.cli.parser, perdure.cli.output, rich.console, rich.progress, rich.prompt, perdure.sync
from importlib import import_module
from perdure.cli.main import COMMANDS, OF_TWO_WORDS, main
for command in (COMMANDS | OF_TWO_WORDS).values():
    import_module(command.target.partition(":")[0])
gc.freeze()  # a collection in a child would copy every page
for words in json.load(open(sys.argv[1])):
    if not os.fork():
        signal.alarm(60)
        code = 0
        try:
            main(words)
        except SystemExit as exc:
            code = exc.code or 0
            if not isinstance(code, int):
                print(code, file=sys.stderr)  # as Python does
                code = 1
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)  # taking the whole interpreter apart takes longer than most commands
    code = os.waitstatus_to_exitcode(os.wait()[1])
    for stream in (sys.stdout, sys.stderr):
        print(f"|{code}\\x1e=== next ===", file=stream, flush=True)
"""


class Shown(NamedTuple):
    """What a command printed; on a terminal nobody can tell the two streams apart."""

    words: list[str]
    code: int
    out: str
    err: str


def on_terminal(
    commands: list[list[str]], folder: Path, env: dict[str, str] | None = None, typed: str = "\x04" * 32
) -> list[Shown]:
    """What a person sees of each, in colours, with standard error and input on the terminal too."""
    ours, theirs = pty.openpty()
    with _runner(commands, folder, {"TERM": "xterm-256color", **(env or {})}, theirs, theirs) as child:
        os.close(theirs)
        os.write(ours, typed.encode())  # Ctrl-D as a rule: whoever asks something gets no answer
        seen = bytearray()
        try:
            while data := os.read(ours, 65536):
                seen += data
        except OSError:  # how Linux tells that the other side has closed
            pass
        child.wait(120)
    os.close(ours)
    parts = [_cut(part) for part in seen.decode().replace("\r\n", "\n").split(_MARK)[:-1]]
    return [Shown(words, *parts[2 * at], parts[2 * at + 1][1]) for at, words in enumerate(commands)]


def in_pipes(commands: list[list[str]], folder: Path, env: dict[str, str] | None = None) -> list[Shown]:
    """What a program reads of each."""
    with _runner(commands, folder, env or {}, subprocess.PIPE, subprocess.PIPE) as child:
        err: list[bytes] = []
        assert child.stdout is not None
        assert child.stderr is not None
        reader = threading.Thread(target=lambda: err.append(child.stderr.read() if child.stderr else b""))
        reader.start()
        out = child.stdout.read()
        reader.join(120)
    outs, errs = ([_cut(part) for part in text.decode().split(_MARK)[:-1]] for text in (out, err[0]))
    return [Shown(words, *one, other) for words, one, (_, other) in zip(commands, outs, errs, strict=True)]


def _runner(
    commands: list[list[str]], folder: Path, env: dict[str, str], out: int, err: int
) -> subprocess.Popen[bytes]:
    list_file = folder / "commands.json"
    list_file.write_text(json.dumps(commands))
    stdin = out if out != subprocess.PIPE else subprocess.DEVNULL
    environment = {**os.environ, "COLUMNS": "100", "PYTHONUTF8": "1", **env}
    return subprocess.Popen(
        [sys.executable, "-c", _RUNNER, str(list_file)],
        stdin=stdin,
        stdout=out,
        stderr=err,
        cwd=folder,
        env=environment,
    )


def _cut(part: str) -> tuple[int, str]:
    """The exit code stands behind what was printed."""
    text, _, code = part.rpartition("|")
    return int(code), text.removeprefix("\n")
