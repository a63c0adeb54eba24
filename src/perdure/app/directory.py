"""What a store knows across threads: lists, search, numbers."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Unpack

from perdure.app.naming import ThreadInfo, info_of, listed
from perdure.app.parts import Parts
from perdure.app.users import UserArg
from perdure.core.checkpoint import check_limit, check_metadata
from perdure.core.errors import InvalidFilterError, short_repr
from perdure.core.identity import check_label
from perdure.core.messages import Owner
from perdure.core.threads import ThreadQuery
from perdure.core.times import moment_or_none

if TYPE_CHECKING:
    from perdure.app.analytics import Analytics, Topics
    from perdure.app.asking import Filters, MessageLine
    from perdure.app.usage import Progress as UsageProgress
    from perdure.core.usage import UsageBy, UsageReport


class Directory:
    """The part of a store that looks across threads."""

    def __init__(self, parts: Parts, namespace: str) -> None:
        self._parts = parts
        self._namespace = namespace

    @property
    def namespace(self) -> str:
        """The namespace of the threads of this store."""
        return self._namespace

    async def threads(
        self,
        limit: int = 50,
        *,
        user: UserArg = None,
        agent: str | None = None,
        status: str | None = None,
        tag: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        search: str | None = None,
        offset: int = 0,
    ) -> list[ThreadInfo]:
        """List threads, newest first, never their states; with `user`, only that user's.

        `metadata` are values that a thread's metadata must have, `search` a text that its name or id must hold.
        """
        await self._parts.ready()
        query = ThreadQuery(
            namespace=self._namespace, user=self._whose(user), agent=check_label(agent, "agent"),
            status=check_label(status, "status"), tag=check_label(tag, "tag"), limit=check_limit(limit),
        )  # fmt: skip
        check_metadata(metadata)
        offset = check_limit(offset, "offset")
        rows = await listed(self._parts.storage, query, metadata, check_label(search, "search"), offset)
        return [info_of(row, self._parts.users.shown(row.key.user)) for row in rows]

    async def search(
        self, text: str, *, user: UserArg = None, limit: int = 50, **filters: Unpack[Filters]
    ) -> list[MessageLine]:
        """Find messages of all threads, or of a user's, that hold all words of `text`; newest first."""
        from perdure.app.asking import line_of, wanted

        asked = wanted(_checked(text), limit, filters)
        await self._parts.ready()
        owner = Owner(self._namespace, self._whose(user))
        found = await self._parts.messages.find_all(owner, asked)
        return [line_of(each, self._parts.users.shown(each.row.user)) for each in found]

    async def analytics(
        self, *, user: UserArg = None, topics: Topics | None = None, **filters: Unpack[Filters]
    ) -> Analytics:
        """The messages of all threads, or of a user's, in numbers; counted by the storage.

        With `topics`, a function from a text to its topics, every message is read and they are counted too.
        """
        from perdure.app.analytics import analysed
        from perdure.app.asking import wanted

        await self._parts.ready()
        owner = Owner(self._namespace, self._whose(user))
        return await analysed(self._parts.messages, owner, wanted(None, None, filters), topics)

    async def usage(
        self,
        by: UsageBy = "model",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        user: UserArg = None,
        prices: Mapping[str, Any] | None = None,
        progress: UsageProgress | None = None,
    ) -> UsageReport:
        """Tokens, calls, retries and money of models, by run, thread, user, agent, model or day, out of the logs.

        `since` and `until` (not included) say when the calls were made. `prices` are of a million tokens, by model:
        `{"gpt-4o-mini": {"input": 0.15, "output": 0.60}}`, with `cached` for input that the provider had cached;
        without them those of the store count. Money is None where a price or a number of tokens is missing, and
        `unpriced` names the models. A fork counts from where it was forked. `progress` is told how many threads are
        read, of how many. Damaged threads are left out, and named in `skipped`.
        """
        from perdure.app.usage import usage_of
        from perdure.core.usage import USAGE_BY, prices_of
        from perdure.core.vocabulary import one_of

        one_of(by, USAGE_BY, "by")
        begin, end = moment_or_none(since, "since"), moment_or_none(until, "until")
        table = prices_of(self._parts.prices if prices is None else prices)
        await self._parts.ready()
        return await usage_of(self._parts, self._namespace, self._whose(user), by, table, begin, end, progress)

    def _whose(self, user: UserArg) -> str | None:
        return self._parts.users.owner(user)


def _checked(text: object) -> str:
    if type(text) is not str:
        raise InvalidFilterError(f"search takes a str, not {short_repr(text)}")
    return text
