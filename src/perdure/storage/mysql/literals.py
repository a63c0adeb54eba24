"""Values as they stand in the text of a statement, the same for both drivers.

A save is one text of several statements, which no driver can send with its values apart. What is put into quotes here
cannot get out of them: a quote is doubled, which every `sql_mode` reads as a quote, and no byte of a longer UTF-8
character looks like a quote or a backslash.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from perdure.storage.sql.rows import Row


def spelled(text: str, values: Row = ()) -> bytes:
    """A statement with its values in the places of its question marks."""
    if not values:
        return text.encode()
    pieces = _pieces(text)
    if len(pieces) != len(values) + 1:
        raise TypeError(f"{len(values)} values for {len(pieces) - 1} places in {text!r}")
    parts = [pieces[0]]
    for value, piece in zip(values, pieces[1:], strict=True):
        parts += (literal(value), piece)
    return b"".join(parts)


@lru_cache(maxsize=1024)
def _pieces(text: str) -> tuple[bytes, ...]:
    return tuple(piece.encode() for piece in text.split("?"))


def literal(value: Any) -> bytes:
    """One value."""
    if value is None:
        return b"NULL"
    if isinstance(value, bytes):
        return b"_binary'%b'" % _quotable(value)
    if isinstance(value, int):
        return b"%d" % value
    if isinstance(value, str):
        return b"'%b'" % _quotable(value.encode())
    raise TypeError(f"a {type(value).__name__} cannot stand in a statement")


def _quotable(data: bytes) -> bytes:
    return data.replace(b"\\", b"\\\\").replace(b"'", b"''").replace(b"\0", b"\\0")
