"""How stored text is shown: without anything that a terminal obeys, that reorders a line or that nobody can see.

`printable` is for people, `printable_json` for programs. Escapes are Python's, so that a text in quotes stays a
literal: `\\x1b`, `\\u202e`, `\\U000e0041`. Escaped are

- control characters (C0, DEL, C1), line and paragraph separators, and lone surrogates;
- format characters: bidi overrides, embeddings and isolates, zero-width characters, tags (U+E00xx);
- characters that are blank and are not a space, fillers, and variation selectors;
- private and unassigned characters;
- combining marks at the beginning of a text, and from the sixth on one letter on.

Letters of every script stay, Arabic and Hebrew too, and so do emoji. An emoji that is joined of several is shown as its
parts with `\\u200d` between them: the same character hides text elsewhere.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_UNUSUAL = re.compile(r"[^\x20-\x7e]+")
_UNUSUAL_IN_JSON = re.compile(r"[^\x20-\x7e\n]+")
# Visible for `str.isprintable`, and still nothing is to be seen of them: joiners, fillers, variation selectors, blanks.
_INVISIBLE = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\ufffc\U0001d159\U000e0100-\U000e01ef]"
)
MOST_MARKS = 5  # combining marks on one letter; more of them cover the lines above and below
MOST_BLANKS = 16  # equal blanks or escapes in a row; more are counted, since they would push the rest out of sight
_RUN = re.compile(rf"( |\\x[0-9a-f]{{2}}|\\u[0-9a-f]{{4}}|\\U[0-9a-f]{{8}}|\\[nrt])\1{{{MOST_BLANKS},}}")


def printable(text: str) -> str:
    """Stored text on one line, for people.

    A long run of the same blank or escape is counted, `⟨space × 5,000⟩`; nothing else is cut. Doing it again changes
    nothing.
    """
    return _RUN.sub(_counted, escaped(text))


def escaped(text: str) -> str:
    """The same without counting: for a line whose blanks are ours."""
    if text.isascii() and text.isprintable():
        return text
    return _UNUSUAL.sub(_escaped_part, text)


def printable_json(text: str) -> str:
    """A JSON text that means the same, with escapes of JSON for the same characters; its line breaks stay."""
    return _UNUSUAL_IN_JSON.sub(lambda part: "".join(map(_in_json, part[0])), text)


def _counted(run: re.Match[str]) -> str:
    return f"⟨{'space' if run[1] == ' ' else run[1]} × {len(run[0]) // len(run[1]):,}⟩"


def _escaped_part(part: re.Match[str]) -> str:
    shown: list[str] = []
    marks = 0 if part.start() else MOST_MARKS
    for char in part[0]:
        if not _is_mark(char):
            marks = 0
        elif marks >= MOST_MARKS:
            shown.append(_escape(char))
            continue
        else:
            marks += 1
        shown.append(char if _is_visible(char) else _escape(char))
    return "".join(shown)


@lru_cache(4096)
def _is_visible(char: str) -> bool:
    return char.isprintable() and _INVISIBLE.match(char) is None


@lru_cache(4096)
def _is_mark(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me")


def _escape(char: str) -> str:
    code = ord(char)
    short = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(char)
    return short or (f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}")


def _in_json(char: str) -> str:
    if _is_visible(char):
        return char
    if ord(char) < 0x10000:
        return f"\\u{ord(char):04x}"
    high, low = divmod(ord(char) - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
