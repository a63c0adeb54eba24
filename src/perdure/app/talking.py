"""The conversation of a thread: its messages, beside whatever its state holds of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

import msgspec

from perdure.app.handle import Fresh
from perdure.app.travelling import TimeTravel
from perdure.core.checkpoint import check_limit
from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.envelope import seal
from perdure.core.errors import InvalidFilterError, InvalidInputError, NotFoundError, PlanOutdatedError
from perdure.core.identity import ThreadKey, check_id
from perdure.core.messages import MessageQuery
from perdure.core.pruning import Pruning

if TYPE_CHECKING:
    from perdure.app.analytics import Analytics, Topics
    from perdure.app.asking import Filters, MessageLine
    from perdure.checkpoints.requests import Request
    from perdure.core.history import Orphan
    from perdure.sessions.messages import Found

_TRIES = 5
Place = int | str | None


class Talking(TimeTravel):
    """The part of a thread that is about what was said."""

    async def messages(
        self,
        limit: int | None = None,
        search: str | None = None,
        *,
        before: Place = None,
        after: Place = None,
        fresh: Fresh = "storage",
        max_age: float | None = None,
        **filters: Unpack[Filters],
    ) -> list[Any]:
        """Return what was said in this thread, oldest first; with `limit`, the newest that many.

        `search` finds messages that hold all its words. `before` and `after` are an id (or the number of a line) of a
        message that is known already: with `after`, `limit` counts from there on. Filters are `role`, `node`, `run`,
        `since`, `until` and `metadata`.

        With `fresh="cache"` Redis alone is asked for the newest ones, as by `load`; it knows no search and no filters.
        """
        oldest = None
        if fresh != "storage" or max_age is not None:
            from perdure.app.freshness import is_cached

            oldest = is_cached(fresh, max_age)
        if search is None and before is None and after is None and not filters:
            return await self._list(None if limit is None else check_limit(limit), oldest)
        if oldest is not None:
            raise InvalidInputError('fresh="cache" lists the newest messages only; leave searches and filters out')
        found = await self._lines(limit, search, before, after, filters)
        return [each.message for each in found]

    async def _list(self, limit: int | None, oldest: float | None) -> list[Any]:
        key = await self._found()
        if oldest is not None:
            from perdure.app.freshness import cached_messages

            cached = await cached_messages(self._parts, key, limit, oldest)
            if cached is not None:
                said, self._last_read = cached
                return said
        return await self._parts.messages.list(key, limit)

    async def message_lines(
        self,
        limit: int | None = None,
        search: str | None = None,
        *,
        before: Place = None,
        after: Place = None,
        **filters: Unpack[Filters],
    ) -> list[MessageLine]:
        """Like `messages`, each with its number, id, role and time; the first or last one is where to page on from."""
        from perdure.app.asking import line_of

        found, user = await self._lines(limit, search, before, after, filters), self.user
        return [line_of(each, user) for each in found]

    async def _lines(
        self, limit: int | None, search: str | None, before: Place, after: Place, filters: Filters
    ) -> list[Found]:
        from perdure.app.asking import wanted

        asked = wanted(search, limit, filters)
        key = await self._found()
        place = {"before": await self._number(key, before), "after": await self._number(key, after)}
        asked = msgspec.structs.replace(asked, query=msgspec.structs.replace(asked.query, **place))
        found = await self._parts.messages.find(key, asked)
        return found if place["after"] is not None else found[::-1]

    async def message(self, message_id: str) -> Any:
        """Return the message of an id; raise `NotFoundError` when there is none."""
        found = await self._by_id(await self._found(), check_id(message_id, "the message id"))
        return found[0].message

    async def add_messages(self, *messages: object, key: str | None = None) -> int:
        """Add messages to the conversation, all in one write, and return the version of the last one.

        They are not part of the state. A message with an id that was said already takes the place of that one, and
        is not written again when it is the same.
        """
        thread = await self._found()
        request = self._request(None, key)
        return await self._parts.speaker.add(thread, self._encoded(messages), request)

    async def _with_messages(self, thread: ThreadKey, request: Request, messages: Sequence[object]) -> Request:
        """The same request with messages that are added in its write."""
        bodies = self._encoded(messages)
        return request.with_entries(*await self._parts.speaker.entries(thread, bodies, request)) if bodies else request

    def _encoded(self, messages: Sequence[object]) -> list[bytes]:
        kept = self._parts.engine.subclasses
        return [encode(each, root=f"messages[{at}]", subclasses=kept) for at, each in enumerate(messages)]

    async def delete_message(self, message_id: str) -> bool:
        """Take a message back: it is listed and found no more, and its content is removed from the log.

        The log keeps that there was one, and who took it back. False when there is none of this id. Raises
        `InvalidInputError` for a message that is part of the state.
        """
        key = await self._found()
        for _ in range(_TRIES):
            try:
                return await self._delete(key, check_id(message_id, "the message id"))
            except PlanOutdatedError:
                continue
        return await self._delete(key, message_id)

    async def analytics(self, *, topics: Topics | None = None, **filters: Unpack[Filters]) -> Analytics:
        """The messages in numbers: by role, tool calls, errors, tokens, durations; counted by the storage.

        With `topics`, a function from a text to its topics, every message is read and they are counted too.
        """
        from perdure.app.analytics import analysed
        from perdure.app.asking import wanted

        return await analysed(self._parts.messages, await self._found(), wanted(None, None, filters), topics)

    async def repair_history(self) -> list[Orphan]:
        """Close tool calls that have no result, so that a model accepts the history again; return what was open.

        It is for a thread whose messages are in its state. Each result says that nobody knows whether the tool ran,
        and an entry `history.repaired` tells of it.
        """
        from perdure.core import history

        key = await self._found()
        head = await self._parts.engine.head(key)
        state = None if head.document.root is None else await self.load()  # type: ignore[attr-defined]
        if not isinstance(state, dict) or not isinstance(state.get("messages"), list):
            return []
        mended = history.mended(state["messages"])
        if mended.open_calls:
            await self._repaired(key, {**state, "messages": mended.messages}, mended.open_calls)
        return mended.open_calls

    async def _repaired(self, key: ThreadKey, state: object, open_calls: Sequence[Orphan]) -> None:
        request = self._request(None, None).with_entries(repair_entry(open_calls, self._actor))
        saved = await self._parts.engine.save(key, state, self._expected(None), request)
        self._saw(saved, self._expected(None))

    async def _number(self, key: ThreadKey, place: Place) -> int | None:
        if place is None:
            return None
        if type(place) is int:
            return check_limit(place, "the number of a message")
        if type(place) is not str:
            raise InvalidFilterError(f"before and after take the id or the number of a message, not {place!r}")
        return (await self._by_id(key, check_id(place, "the message id")))[0].row.number

    async def _by_id(self, key: ThreadKey, message_id: str) -> list[Found]:
        found = await self._of_id(key, message_id, limit=1)
        if not found:
            raise NotFoundError(f"message {message_id!r} of thread {self.id!r}")
        return found

    async def _of_id(self, key: ThreadKey, message_id: str, limit: int | None) -> list[Found]:
        from perdure.sessions.messages import Wanted

        return await self._parts.messages.find(key, Wanted(query=MessageQuery(ids=(message_id,), limit=limit)))

    async def _delete(self, key: ThreadKey, message_id: str) -> bool:
        row = await self._parts.storage.thread(key)
        known = await self._of_id(key, message_id, limit=None)
        if row is None or not known:
            return False
        if any(each.row.version is None for each in known):
            raise InvalidInputError(f"message {message_id!r} is part of the state: change the state instead")
        versions = await self._parts.messages.versions(key, message_id)
        body = encode({"id": message_id, "versions": versions})
        own = tuple(version for version in versions if version > row.parent_version)
        pruning = Pruning(seen=row.head, records=(), blank=own)
        await self._parts.engine.take_back(row, body, pruning, self._request(None, None))
        await self._parts.messages.projector.again_in_forks(row, own)
        return True


def repair_entry(open_calls: Sequence[Orphan], actor: str | None) -> NewEntry:
    """The entry that tells which calls were closed."""
    body = encode({"closed": [{"call_id": each.call_id, "name": each.name} for each in open_calls]})
    return NewEntry(kind=EntryKind.HISTORY_REPAIRED, payload=seal(body), digest=digest_of(body), actor=actor)
