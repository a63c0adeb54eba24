"""Lines of messages in the memory of a process: for storages that look at each of them instead of asking an index."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol

import msgspec

from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies, asks, tallied
from perdure.core.threads import ThreadQuery, ThreadRow
from perdure.storage.listing import all_threads


class _Kept:
    """What was read off one log."""

    def __init__(self) -> None:
        self.version = self.count = 0
        self.rows: dict[int, MessageRow] = {}


class Shelving(Protocol):
    """What the lines are about."""

    async def thread(self, key: ThreadKey) -> ThreadRow | None: ...

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]: ...

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]: ...


class Shelf:
    """The lines of threads, by uid."""

    def __init__(self) -> None:
        self._kept: dict[str, _Kept] = {}
        self._lock = threading.Lock()

    def projection(self, row: ThreadRow) -> Projection:
        """How far a thread was read."""
        kept = self._kept.get(row.uid) or _Kept()
        return Projection(row=row, version=kept.version, count=kept.count)

    def put(self, row: ThreadRow, made: Projected) -> bool:
        """Put and take away lines; False when the thread was read on by somebody else."""
        with self._lock:
            now = self.projection(row)
            if (now.version, now.count) != (made.seen.version, made.seen.count):
                return False
            before = _Kept() if made.anew else self._kept.get(row.uid) or _Kept()
            gone, kept = set(made.gone), _Kept()
            rows = {number: line for number, line in before.rows.items() if number not in gone}
            kept.rows = rows | {line.number: line for line in made.rows}
            kept.version, kept.count = made.version, made.count
            self._kept[row.uid] = kept  # in one step: a Ctrl-C before it changes nothing
            return True

    def drop(self, row: ThreadRow | None) -> None:
        """Forget a thread."""
        if row is not None:
            self._kept.pop(row.uid, None)

    def lines(self, row: ThreadRow, query: MessageQuery) -> list[MessageRow]:
        """The lines of a thread that answer a query, in any order."""
        kept = self._kept.get(row.uid) or _Kept()
        named = {"thread_id": row.key.id, "user": row.key.user, "uid": row.uid}
        lines = (msgspec.structs.replace(line, **named) for line in list(kept.rows.values()))
        return [line for line in lines if asks(line, query)]


class Shelved:
    """The messages of the contract, for a storage that keeps their lines on a shelf."""

    def __init__(self, storage: Shelving) -> None:
        self._storage = storage
        self._shelf = Shelf()

    async def projection(self, key: ThreadKey) -> Projection | None:
        """The projection of the contract."""
        row = await self._storage.thread(key)
        return None if row is None else self._shelf.projection(row)

    async def project(self, made: Projected) -> bool:
        """The project of the contract."""
        row = await self._storage.thread(made.seen.row.key)
        return row is not None and row.uid == made.seen.row.uid and self._shelf.put(row, made)

    async def unprojected(self, owner: Owner, limit: int) -> list[ThreadRow]:
        """The unprojected of the contract."""
        rows = await all_threads(self._storage, owner.namespace, owner.user)
        return [row for row in rows if not self._shelf.projection(row).is_current][:limit]

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        """The messages of the contract."""
        lines = [(row.key, line) for row in await self._asked(of) for line in self._shelf.lines(row, query)]
        if isinstance(of, ThreadKey):
            lines.sort(key=lambda each: each[1].number, reverse=query.after is None)
        else:
            lines.sort(key=lambda each: (each[1].micros, each[1].uid, each[1].number), reverse=True)
        return await self._filled(lines[: query.limit])

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        """The current of the contract: what is put after this look is only newer."""
        rows = await self._asked(of)
        is_current = all(self._shelf.projection(row).is_current for row in rows)
        return await self.messages(of, query) if is_current else None

    async def tally(self, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
        """The tally of the contract."""
        found = [self._shelf.lines(row, query) for row in await self._asked(of)]
        return Tallies(threads=sum(map(bool, found)), roles=tallied(line for lines in found for line in lines))

    def drop(self, row: ThreadRow | None) -> None:
        """A thread was deleted."""
        self._shelf.drop(row)

    async def _asked(self, of: ThreadKey | Owner) -> list[ThreadRow]:
        if isinstance(of, Owner):
            return await all_threads(self._storage, of.namespace, of.user)
        row = await self._storage.thread(of)
        return [] if row is None else [row]

    async def _filled(self, lines: list[tuple[ThreadKey, MessageRow]]) -> list[MessageRow]:
        """The lines with the payloads of the entries that they are."""
        wanted: dict[ThreadKey, set[int]] = {}
        for key, line in lines:
            if line.version is not None:
                wanted.setdefault(key, set()).add(line.version)
        held = {(key, version): payload for key in wanted for version, payload in await self._held(key, wanted[key])}
        return [
            msgspec.structs.replace(line, words="", payload=held.get((key, line.version or 0), line.payload))
            for key, line in lines
        ]

    async def _held(self, key: ThreadKey, versions: set[int]) -> list[tuple[int, bytes | None]]:
        entries = await self._storage.entries(key, after=min(versions) - 1, kinds=(EntryKind.MESSAGE_ADDED,))
        return [(entry.version, entry.payload) for entry in entries if entry.version in versions]
