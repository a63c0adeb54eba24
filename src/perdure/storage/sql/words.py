"""What messages are found by: how a database keeps their words, and how it is asked for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import msgspec

_WORD = re.compile(r"[a-z0-9_]+")


def plain(words: Iterable[str]) -> list[str]:
    """Those that are words as `core.search` makes them. In whatever language a query is, they are no operators."""
    return [word for word in words if _WORD.fullmatch(word)]


class Spoken(NamedTuple):
    """The words of one line."""

    row: int
    at: int
    words: list[str]


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """Where lines are looked for: in which tables, and how a line's place and time are known there."""

    source: str = "{t}message m"
    where: str = ""
    row: str = 'm."row"'
    without_index: str = "{}"  # a column whose own index is not to be used
    order: str = ""  # what lines are found by, newest first and without a sort, if there is such an order
    latest: str = ""  # no line that comes later in that order is later than this
    since: str = "m.at >= ?"  # all lines since a time, and perhaps some before
    until: str = "m.at <= ?"  # all lines up to a time, and perhaps some after


LISTED = Found(order="m.at", latest="m.at")
SEARCHED = Found()


class Walk(msgspec.Struct, frozen=True, kw_only=True):
    """Looking at the newest lines one by one, for words that are common among them.

    An index that knows no order would find far too many lines with such a word, and sort them.
    """

    has: str  # the condition that a line has a word
    word: Callable[[str], str]  # the word as a value
    lines: int = 50  # that tell whether words are common, and are looked at first
    common: int = 3  # so many of them
    whole: int = 200  # a thread with no more lines than this is looked at as a whole


class WordIndex(msgspec.Struct, frozen=True, kw_only=True):
    """An index over words."""

    layout: tuple[str, ...]  # what is made for it
    holds: str  # the condition that a line has all words that are asked for
    asked: Callable[[list[str]], Any]  # the words of a query as a value
    most: int = 1 << 30  # words in one condition
    in_thread: Found = SEARCHED
    of_owner: Found = SEARCHED


class Words(msgspec.Struct, frozen=True, kw_only=True):
    """The words of one database: in a column of `message`, unless they are kept apart.

    There is an index over them, or a way to look at them, or both.
    """

    column: str = ""  # declares it, after a comma
    kept: Callable[[list[str]], Any]  # the words of a line as a value
    index: WordIndex | None = None
    walk: Walk | None = None

    async def put(self, tx: Any, lines: Sequence[Spoken]) -> None:
        """Keep the words of new lines, in order of row; where they are in a column, they are kept already."""

    async def drop(self, tx: Any, low: int, high: int) -> None:
        """Forget the words of these rows, which are dropped next."""
