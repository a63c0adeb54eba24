"""Texts that begin with another one, as a range of an index.

All databases keep keys in the order of their code points: SQLite by its own, PostgreSQL by the collation "C", MySQL and
MariaDB by one of `COLLATIONS`.
"""

from __future__ import annotations

_LAST = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = 0xD7FF, "\ue000"


def after_all(prefix: str) -> str | None:
    """The first text after all that begin with `prefix`; None when they are the last there can be."""
    rest = prefix.rstrip(_LAST)
    return rest[:-1] + _next(ord(rest[-1])) if rest else None


def _next(point: int) -> str:
    return _AFTER_SURROGATES if point == _BEFORE_SURROGATES else chr(point + 1)  # no database keeps a half of a pair
