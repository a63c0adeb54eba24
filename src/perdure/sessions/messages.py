"""The messages of threads: listed, searched, counted, said and taken back."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.codec import decode, encode
from perdure.core.conversation import MESSAGE_PATH, appended
from perdure.core.damage_log import DamageLog
from perdure.core.digest import digest_of
from perdure.core.entries import SPOKEN_KINDS, STATE_KINDS, Entry, EntryKind
from perdure.core.envelope import EnvelopeError, unseal
from perdure.core.errors import EntryDamagedError
from perdure.core.fold import walk
from perdure.core.following import Following, spoken
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Tallies, message_id, said_of
from perdure.core.payload import StateChange
from perdure.core.pruning import is_blank
from perdure.core.search import Search, holds
from perdure.core.steps import Path
from perdure.sessions.bodies import Bodies
from perdure.sessions.projecting import Projector
from perdure.storage.contract import Storage

_KINDS = (*STATE_KINDS, *SPOKEN_KINDS)
WINDOW = 16  # entries that are looked at first, beside two for each message
_WIDER = 4  # times, when they did not hold enough
_PAGE = 200  # lines that are read at a time where more has to be asked of them than an index knows


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a list gives it: its line, and its body."""

    row: MessageRow
    body: bytes

    @property
    def message(self) -> Any:
        """The message itself."""
        return decode(self.body)


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of messages: by the index, and of each message itself."""

    query: MessageQuery
    search: Search = Search()
    metadata: Mapping[str, bytes] | None = None  # encoded values, so that 1, True and 1.0 differ

    @property
    def looks_inside(self) -> bool:
        """Whether an index alone cannot answer it."""
        return bool(self.search.literal) or bool(self.metadata)

    def is_met_by(self, body: bytes) -> bool:
        """Whether a message answers what the index does not know."""
        said = said_of(body)
        wanted = (self.metadata or {}).items()
        known = all(name in said.metadata and encode(said.metadata[name]) == value for name, value in wanted)
        return known and holds(said.text, Search((), self.search.literal))


class Messages:
    """Reads conversations."""

    def __init__(self, storage: Storage, path: Path = MESSAGE_PATH, *, damage_log: DamageLog | None = None) -> None:
        self._storage = storage
        self._path = path
        self._bodies = Bodies(storage)
        self.projector = Projector(storage, path, damage_log)

    async def list(self, key: ThreadKey, limit: int | None = None) -> list[Any]:
        """Everything that was said, oldest first; with `limit`, the newest that many. No index is needed."""
        said = await (self._all(key) if limit is None else self._newest(key, limit))
        return [decode(each) for each in said]

    async def find(self, key: ThreadKey, wanted: Wanted) -> list[Found]:
        """The messages of a thread that answer, newest first, or oldest first with `after`."""
        found = await self._found(key, wanted)
        if any(not each.row.payload for each in found):
            # A parent's message was deleted after the fork: the fork's lines do not know yet.
            await self.projector.again(key)
            found = [each for each in await self._found(key, wanted) if each.row.payload]
        return found

    async def find_all(self, owner: Owner, wanted: Wanted) -> list[Found]:
        """The messages of all threads of an owner that answer, newest first."""
        found = await self._found(owner, wanted)
        emptied = {(each.row.user, each.row.thread_id) for each in found if not each.row.payload}
        for user, thread_id in emptied:
            await self.projector.again(ThreadKey(owner.namespace, user, thread_id))
        found = await self._found(owner, wanted) if emptied else found
        return [each for each in found if each.row.payload]

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        """What messages add up to, counted by the storage."""
        await self._bring_up(of)
        return await self._storage.tally(of, query)

    async def versions(self, key: ThreadKey, wanted_id: str) -> list[int]:
        """The entries that hold a message of this id, as it is and as it was."""
        added = await self._storage.entries(key, kinds=(EntryKind.MESSAGE_ADDED,))
        return [
            each.version
            for each in added
            if not is_blank(each) and message_id(spoken(key.id, each) or b"") == wanted_id
        ]

    async def _found(self, of: ThreadKey | Owner, wanted: Wanted) -> list[Found]:
        if not wanted.looks_inside:
            return [_found(row) for row in await self._current(of, wanted.query)]
        limit, query = wanted.query.limit, msgspec.structs.replace(wanted.query, limit=_PAGE)
        found: list[Found] = []
        rows = await self._current(of, query)
        while rows:
            found += [each for each in map(_found, rows) if each.row.payload and wanted.is_met_by(each.body)]
            query = _after(of, query, rows[-1])
            is_enough = limit is not None and len(found) >= limit
            rows = [] if is_enough else await self._storage.messages(of, query)
        return found[:limit]

    async def _current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        """Lines as the logs are: mostly they are up with them, and asking for that first would be a trip of its own."""
        rows = await self._storage.current(of, query)
        if rows is not None:
            return rows
        await self._bring_up(of)
        return await self._storage.messages(of, query)

    async def _bring_up(self, of: ThreadKey | Owner) -> None:
        await (self.projector.bring_up_all(of) if isinstance(of, Owner) else self.projector.bring_up(of))

    async def each(self, of: ThreadKey | Owner, wanted: Wanted) -> AsyncIterator[Found]:
        """All messages that answer, a page at a time."""
        query = msgspec.structs.replace(wanted.query, limit=_PAGE)
        while rows := await self._storage.messages(of, query):
            for row in rows:
                yield _found(row)
            query = _after(of, query, rows[-1])

    async def _newest(self, key: ThreadKey, limit: int) -> Sequence[Raw | bytes]:
        """The newest messages, from the newest entries where those tell; else from all."""
        row = await self._storage.thread(key)
        window = 2 * limit + WINDOW
        while row is not None and window < row.head:
            said = await self._added(key, row.head - window)
            if said is None:
                break
            if len(said) >= limit:
                return said[len(said) - limit :]
            window *= _WIDER
        said = await self._all(key)
        return said[len(said) - min(limit, len(said)) :]

    async def _added(self, key: ThreadKey, after: int) -> list[Raw] | None:
        """The messages that entries after a version added; None when one of them did anything else to messages."""
        said: list[Raw] = []
        for entry in await self._storage.entries(key, after=after, kinds=_KINDS):
            items = await self._items(key, entry)
            if items is None:
                return None
            said += items
        return said

    async def _items(self, key: ThreadKey, entry: Entry) -> list[Raw] | None:
        if is_blank(entry) or entry.kind in (EntryKind.THREAD_REWOUND, EntryKind.MESSAGE_DELETED):
            return None
        if entry.kind is EntryKind.MESSAGE_ADDED:
            body = spoken(key.id, entry) or b""
            return [Raw(body)] if message_id(body) is None else None  # one with an id may be an older one again
        ops = await self._bodies.change(key, entry)
        return None if ops is None else appended(ops, self._path)

    async def _all(self, key: ThreadKey) -> list[bytes]:
        log = await self._storage.log(key, kinds=_KINDS)
        if log is None:
            return []
        targets = log.seams.targets()
        following = Following(self._path, targets)
        for entry, step in walk(key.id, log.entries, log.records):
            if isinstance(step, StateChange) and step.to is not None and step.to not in targets:
                raise EntryDamagedError(key.id, entry.version, "goes back, and its rewind is not in the index")
            whole = None if step is None else await self._bodies.whole(key, step)
            following.follow(key.id, entry, whole)
        return following.now.messages()


def _after(of: ThreadKey | Owner, query: MessageQuery, last: MessageRow) -> MessageQuery:
    """The question for the next page."""
    if isinstance(of, Owner):
        return msgspec.structs.replace(query, beyond=(last.micros, last.uid, last.number))
    if query.after is not None:
        return msgspec.structs.replace(query, after=last.number)
    return msgspec.structs.replace(query, before=last.number)


def _found(row: MessageRow) -> Found:
    return Found(row=row, body=_body(row))


def _body(row: MessageRow) -> bytes:
    """The checked body of a message; empty for one that was emptied."""
    if not row.payload:
        return b""
    try:
        body = unseal(row.payload)
    except EnvelopeError as exc:
        raise EntryDamagedError(row.thread_id, row.version or 0, f"is a message that cannot be read ({exc})") from exc
    if digest_of(body) != row.digest:
        raise EntryDamagedError(row.thread_id, row.version or 0, "is a message that fails its digest")
    return body
