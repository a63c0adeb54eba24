"""What has to hold of the lines of a thread, whatever happened to it."""

from __future__ import annotations

from typing import Any

from perdure import MessageLine, Thread
from perdure.core.digest import digest_of
from perdure.core.messages import MessageRow, said_of
from perdure.core.search import holds, search_of
from perdure.core.times import to_datetime


def shown(line: MessageLine) -> tuple[Any, ...]:
    """A line as it is listed."""
    return line.number, line.id, line.role, line.at, digest_of(line.body)


def read(row: MessageRow) -> tuple[Any, ...]:
    """A line as the whole log leads to it."""
    return row.number, row.id, row.role, to_datetime(row.micros), row.digest


def named(line: MessageLine) -> tuple[Any, ...]:
    """A line among those of several threads."""
    return line.thread_id, line.number, line.body


def check_numbers(numbers: dict[str, int], lines: list[MessageLine]) -> None:
    """A message keeps its number for ever."""
    for line in lines:
        assert numbers.setdefault(said_of(line.body).text, line.number) == line.number


async def check_pages(thread: Thread, lines: list[MessageLine], size: int) -> None:
    """Pages, back or forth, are the list; and so is what needs no lines."""
    back: list[MessageLine] = []
    while page := await thread.message_lines(size, before=back[0].number if back else None):
        back = page + back
    forth: list[MessageLine] = []
    while page := await thread.message_lines(size, after=forth[-1].number if forth else 0):
        forth += page
    assert back == forth == lines
    assert await thread.messages(limit=size) == [line.message for line in lines[-size:]]


async def check_search(thread: Thread, lines: list[MessageLine], query: str) -> None:
    """A search finds what holds its words."""
    found = [line for line in lines if holds(said_of(line.body).text, search_of(query))]
    assert await thread.message_lines(search=query) == found
