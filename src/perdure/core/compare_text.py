"""Differences as text for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from perdure.core.align import common_prefix, gaps, longest
from perdure.core.diff import MISSING, Difference, Spliced
from perdure.core.printable import printable

_WIDTH = 160  # characters of a value; what is cut off says so
_LEAD = 24  # characters that are shown before a change far inside a long line
_AROUND = 1  # lines that are shown around a changed one
_COLORS = {"-": "31", "+": "32", "@": "36"}  # red, green, cyan

Lines = Iterable[str]


def unified(titles: tuple[str, str], found: Sequence[Difference], color: bool) -> str:
    """Both titles, then each path with its removed and its added lines."""
    lines = [f"--- {printable(titles[0])}", f"+++ {printable(titles[1])}"]
    lines += [line for each in found for line in _hunk(each)] if found else ["no difference"]
    return "\n".join(map(_colored, lines) if color else lines) + "\n"


def _colored(line: str) -> str:
    code = _COLORS.get(line[:1])
    return f"\x1b[{code}m{line}\x1b[0m" if code else line


def _hunk(found: Difference) -> Iterator[str]:
    yield f"@@ {printable(found.path)} @@"
    if isinstance(found.edit, Spliced):
        yield from (f"-{_short(repr(item))}" for item in found.old)
        yield from (f"+{_short(repr(item))}" for item in found.new)
    elif _has_lines(found.old) and _has_lines(found.new):
        yield from _line_by_line(found.old.splitlines(), found.new.splitlines())
    else:
        yield from _one_by_one(found.old, found.new)


def _has_lines(value: Any) -> bool:
    return type(value) is str and "\n" in value


def _one_by_one(old: Any, new: Any) -> Iterator[str]:
    one, other = repr(old), repr(new)
    skipped = max(common_prefix(one, other) - _LEAD, 0) if max(len(one), len(other)) > _WIDTH else 0
    if old is not MISSING:
        yield f"-{_short(one, skipped)}"
    if new is not MISSING:
        yield f"+{_short(other, skipped)}"


def _line_by_line(old: list[str], new: list[str]) -> Iterator[str]:
    """The changed lines of a text, and one around them on each side."""
    pairs = longest(old, new)
    for at, left, right in gaps(pairs, len(old), len(new)):
        before, after = pairs[max(at - _AROUND, 0) : at], pairs[at : at + _AROUND]
        yield from (f" {_short(old[i])}" for i, _ in before)
        yield from (f"-{_short(old[i])}" for i in left)
        yield from (f"+{_short(new[j])}" for j in right)
        yield from (f" {_short(old[i])}" for i, _ in after)


def _short(text: str, skipped: int = 0) -> str:
    kept = text[skipped : skipped + _WIDTH]
    cut = len(text) - skipped - len(kept)
    return ("…" if skipped else "") + printable(kept) + (f"… ({cut:,} more)" if cut else "")
