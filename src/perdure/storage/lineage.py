"""A fork's history in pieces: which versions are whose."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

T = TypeVar("T")


class Span(msgspec.Struct, frozen=True):
    """Versions after `low` up to `high` that are stored with one thread."""

    low: int
    high: int


def spans(heads: Sequence[tuple[int, int]], at: int) -> list[Span]:
    """Cut a history at version `at`. `heads` are (parent_version, head) from the thread itself up to its root.

    Returns one span per thread in the same order; a thread that has nothing up to `at` gets an empty one.
    """
    pieces: list[Span] = []
    top = at
    for low, high in heads:
        top = min(top, high)
        pieces.append(Span(min(low, top), top))
        top = min(top, low)
    return pieces
