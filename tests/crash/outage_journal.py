"""What writers keep outside the database: what each of them began, and what came of it, before it goes on.

A page of memory, shared with the campaign, tells when somebody was last answered and when it is time to stop.
"""

from __future__ import annotations

import mmap
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

DONE, REFUSED, UNKNOWN, WRONG = "done", "refused", "unknown", "wrong"


class Line(msgspec.Struct, omit_defaults=True):
    """One operation: written when it begins, and once more when it ends."""

    number: int
    kind: str
    thread: str
    token: str = ""
    target: str = ""  # the thread a fork makes
    size: int = 0  # how many tokens the thread has to have afterwards, where one writer knows
    keyed: bool = False
    began: float = 0.0
    ended: float = 0.0  # 0: it had no end
    outcome: str = ""
    version: int = 0  # or the epoch of a lease
    point: str = ""  # the id of a checkpoint
    words: str = ""


class Journal:
    """The operations of one writer, and how many commits of its process were in doubt."""

    def __init__(self, folder: Path, name: str) -> None:
        self._file = os.open(folder / f"{name}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        self._number = 0

    def begin(self, line: Line) -> Line:
        self._number += 1
        line.number, line.began = self._number, time.monotonic()
        self._write(line)
        return line

    def end(self, line: Line, outcome: str, words: str = "") -> None:
        line.outcome, line.words, line.ended = outcome, words, time.monotonic()
        self._write(line)

    def _write(self, line: Line) -> None:
        os.write(self._file, msgspec.json.encode(line) + b"\n")


def read(folder: Path) -> dict[str, list[Line]]:
    """The operations of each writer in their order."""
    return {path.stem: list(_lines(path)) for path in sorted(folder.glob("*.jsonl"))}


def _lines(path: Path) -> Iterator[Line]:
    newest: dict[int, Line] = {}
    for text in path.read_bytes().splitlines():
        line = msgspec.json.decode(text, type=Line)
        newest[line.number] = line
    return iter(newest.values())


class Board:
    """A page that the campaign and the writers share."""

    _STOP, _CRASHES, _SLOTS, _ENDS = 0, 8, 64, 2048

    def __init__(self, folder: Path) -> None:
        path = folder / "board"
        if not path.exists():
            path.write_bytes(bytes(4096))
        with path.open("r+b") as file:
            self._memory = mmap.mmap(file.fileno(), 4096)

    @property
    def stopped(self) -> bool:
        return self._memory[self._STOP] == 1

    def stop(self) -> None:
        self._memory[self._STOP] = 1

    @property
    def crashes(self) -> int:
        return struct.unpack_from("<I", self._memory, self._CRASHES)[0]

    @crashes.setter
    def crashes(self, count: int) -> None:
        struct.pack_into("<I", self._memory, self._CRASHES, count)

    def answered(self, writer: int) -> None:
        """This writer got an answer now."""
        struct.pack_into("<d", self._memory, self._SLOTS + 8 * writer, time.monotonic())

    def last_answer(self, writer: int) -> float:
        return struct.unpack_from("<d", self._memory, self._SLOTS + 8 * writer)[0]

    def finished(self, writer: int) -> None:
        """This writer ended an operation now."""
        struct.pack_into("<d", self._memory, self._ENDS + 8 * writer, time.monotonic())

    def last_end(self, writer: int) -> float:
        return struct.unpack_from("<d", self._memory, self._ENDS + 8 * writer)[0]
