"""What conversations add up to."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from datetime import datetime, timedelta

import msgspec

from perdure.core.errors import InvalidFilterError
from perdure.core.identity import ThreadKey
from perdure.core.messages import Owner, Tallies, said_of
from perdure.core.times import to_datetime
from perdure.sessions.messages import Found, Messages, Wanted

Topics = Callable[[str], Iterable[str]]  # from a text to what it is about


class Analytics(msgspec.Struct, frozen=True, kw_only=True):
    """The messages of a thread, or of all threads of a user, in numbers."""

    conversations: int  # threads with at least one of these messages
    messages: int
    by_role: Mapping[str, int]
    tool_calls: int
    errors: int
    tokens: int  # where messages tell
    duration: timedelta  # of what messages tell
    first: datetime | None
    last: datetime | None
    topics: Mapping[str, int] = {}  # by the extractor that was given


async def analysed(messages: Messages, of: ThreadKey | Owner, asked: Wanted, topics: Topics | None) -> Analytics:
    """Count messages; what they are about only where somebody can tell."""
    if asked.metadata is not None:
        raise InvalidFilterError("analytics are counted by the storage, which does not look into metadata")
    found = await messages.tally(of, asked.query)
    counted: Counter[str] = Counter()
    async for each in messages.each(of, asked) if topics else _nothing():
        counted.update((topics or _no_topics)(said_of(each.body).text))
    return analytics_of(found, dict(counted.most_common()))


async def _nothing() -> AsyncIterator[Found]:
    for each in ():
        yield each


def _no_topics(text: str) -> Iterable[str]:
    return ()


def analytics_of(found: Tallies, topics: Mapping[str, int] | None = None) -> Analytics:
    """Add the roles up."""
    roles = found.roles
    return Analytics(
        conversations=found.threads,
        messages=sum(each.messages for each in roles),
        by_role={each.role: each.messages for each in roles},
        tool_calls=sum(each.tool_calls for each in roles),
        errors=sum(each.errors for each in roles),
        tokens=sum(each.tokens for each in roles),
        duration=timedelta(microseconds=sum(each.duration for each in roles)),
        first=to_datetime(min(each.first for each in roles)) if roles else None,
        last=to_datetime(max(each.last for each in roles)) if roles else None,
        topics=dict(topics or {}),
    )
