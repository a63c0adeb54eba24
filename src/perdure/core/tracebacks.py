"""Tracebacks as a log keeps them: where an error came from, bounded, without values and without local paths.

A frame is its file's name, its line, and its function with the module; no source line and no variable is kept. Causes
come first, as Python prints them. Only the name of a file is kept, not its folder, and folders of this machine that a
message names are cut.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from types import TracebackType

from perdure.core.calls import printable, reason

TRACEBACK_BYTES = 8192
_FRAMES_FIRST, _FRAMES_LAST = 8, 22  # of one exception: an endless recursion has a thousand
_FRAMES_WALKED = 10_000
_EXCEPTIONS = 16  # causes and members of groups, together
_DEPTH = 6  # groups in groups
_MESSAGE = 500  # characters
_NAME = 120  # characters of a file, function or class
_OURS = "perdure."
_LEFT_OUT = 40  # bytes of the line that says how much
_HOMES = re.compile(r"(?:/home|/Users|[A-Za-z]:\\Users)[/\\][^/\\\s'\"]+")
_CAUSED = "\nThe exception above was the direct cause of the following one:\n"
_DURING = "\nThe following exception was raised while the one above was handled:\n"


def traceback_of(error: BaseException, local: Sequence[str] = ()) -> str:
    """The traceback of an error and of its causes; the folders in `local` are cut from messages.

    Empty when it cannot be made: an error that is hostile to being looked at must not hide that something failed.
    """
    try:
        return cut("\n".join(_Lines(local).chain(error, 0)), TRACEBACK_BYTES)
    except Exception:
        return ""


def cut(text: str, limit: int) -> str:
    """A text of so many bytes at most: lines are left out in the middle, since its end says most."""
    text = printable(text)
    if len(text.encode()) <= limit:
        return text
    lines = text.split("\n")
    last = _that_fit(lines[::-1], limit * 2 // 3)
    first = _that_fit(lines[: len(lines) - last], limit // 3 - _LEFT_OUT)
    left = len(lines) - first - last
    return "\n".join([*lines[:first], f"  … {left} lines are left out", *lines[len(lines) - last :]])


def _that_fit(lines: Sequence[str], room: int) -> int:
    for count, line in enumerate(lines):
        room -= len(line.encode()) + 1
        if room < 0:
            return count
    return len(lines)


class _Lines:
    """Writes the lines of one traceback."""

    def __init__(self, local: Sequence[str]) -> None:
        self._seen: set[int] = set()
        names = sorted({each for each in local if len(each) > 1}, key=len, reverse=True)
        either = "|".join(map(re.escape, names))
        self._local = re.compile(rf"(?:{either})(?=[/\\'\"\s:;,)]|$)") if names else None

    def chain(self, error: BaseException, depth: int) -> list[str]:
        """An error with its causes, the first of them first."""
        blocks: list[list[str]] = []
        joint = ""
        following: BaseException | None = error
        while following is not None:
            if id(following) in self._seen or len(self._seen) >= _EXCEPTIONS:
                blocks.append(["… earlier exceptions are left out", joint])
                break
            self._seen.add(id(following))
            blocks.append([*self._one(following, depth), *([joint] if joint else [])])
            following, joint = _before(following)
        return [line for block in reversed(blocks) for line in block]

    def _one(self, error: BaseException, depth: int) -> Iterator[str]:
        frames = list(_frames(error.__traceback__))
        if frames:
            yield "Traceback (most recent call last):"
        if len(frames) > _FRAMES_FIRST + _FRAMES_LAST:
            left = len(frames) - _FRAMES_FIRST - _FRAMES_LAST
            frames[_FRAMES_FIRST:-_FRAMES_LAST] = [f"  … {left} frames are left out"]
        yield from frames
        yield self._named(error)
        if isinstance(error, BaseExceptionGroup):
            yield from self._members(error, depth)

    def _members(self, group: BaseExceptionGroup[BaseException], depth: int) -> Iterator[str]:
        for number, member in enumerate(group.exceptions, 1):
            if depth >= _DEPTH or len(self._seen) >= _EXCEPTIONS:
                yield f"  + … {len(group.exceptions) - number + 1} more are left out"
                return
            yield f"  + {number} of {len(group.exceptions)}"
            yield from (f"  | {line}" for line in "\n".join(self.chain(member, depth + 1)).split("\n"))

    def _named(self, error: BaseException) -> str:
        kind = type(error)
        module = str(kind.__module__)
        name = kind.__qualname__ if module in ("builtins", "__main__") else f"{module}.{kind.__qualname__}"
        notes = [str(note) for note in getattr(error, "__notes__", ()) or ()]
        message = "\n".join([reason(error), *notes])
        if self._local is not None:
            message = self._local.sub("…", message)
        message = _HOMES.sub("…", message)
        message = message if len(message) <= _MESSAGE else f"{message[:_MESSAGE]}…"
        return f"{name[:_NAME]}: {message}" if message else name[:_NAME]


def _before(error: BaseException) -> tuple[BaseException | None, str]:
    """What came before an error, and the words between the two."""
    if error.__cause__ is not None:
        return error.__cause__, _CAUSED
    if error.__suppress_context__:
        return None, ""
    return error.__context__, _DURING


def _frames(trace: TracebackType | None) -> Iterator[str]:
    """The frames of an error's traceback, without those of Perdure between them: nobody looks for a mistake there."""
    walked = 0
    while trace is not None and walked < _FRAMES_WALKED:
        code, module = trace.tb_frame.f_code, str(trace.tb_frame.f_globals.get("__name__", "?"))
        if not module.startswith(_OURS) or trace.tb_next is None:
            file = re.split(r"[/\\]", code.co_filename)[-1]
            function = f"{module}.{code.co_qualname}"
            yield f'  File "{file[:_NAME]}", line {trace.tb_lineno}, in {function[: 2 * _NAME]}'
        trace, walked = trace.tb_next, walked + 1
