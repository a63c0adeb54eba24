"""Reading messages off logs: what is new since the last time, or all of it where the past was changed."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.conversation import MESSAGE_PATH, Said
from perdure.core.damage_log import DamageLog
from perdure.core.digest import GENESIS, digest_of, verify_links
from perdure.core.entries import Entry
from perdure.core.errors import StorageBusyError
from perdure.core.fold import walk
from perdure.core.following import Following
from perdure.core.identity import ThreadKey
from perdure.core.messages import (
    SHAPE,
    MessageQuery,
    MessageRow,
    Owner,
    Projected,
    Projection,
    row_of,
)
from perdure.core.ports import Silence
from perdure.core.pruning import WholeLog
from perdure.core.reading_on import Heard, Place, Places, read_on
from perdure.core.steps import Path
from perdure.core.threads import ThreadRow
from perdure.sessions.bodies import Bodies
from perdure.storage.contract import Storage
from perdure.storage.listing import all_threads

_PAGE = 1000  # entries that are read off in one write
_TRIES = 20  # others who read off the same log at the same time come to the same end


class Projector:
    """Keeps the lines of messages up with the logs, whenever somebody asks for them."""

    def __init__(self, storage: Storage, path: Path = MESSAGE_PATH, damage_log: DamageLog | None = None) -> None:
        self._storage = storage
        self._path = path
        self._bodies = Bodies(storage)
        self._damage_log = damage_log or DamageLog(Silence())

    async def bring_up(self, key: ThreadKey) -> Projection | None:
        """Read a log to its end; None when there is no thread."""
        tries = 0
        goal = -1
        while tries < _TRIES:
            found = await self._storage.projection(key)
            if found is None or found.is_current:
                return found
            goal = found.row.head if goal < 0 else goal
            if found.shape == SHAPE and found.version >= goal:
                return found  # up to what was there when it was asked for: others may write faster than we read
            tries += not await self._storage.project(await self._next(key, found))
        raise StorageBusyError(f"thread {key.id!r}", "its messages are being read off by others all the time")

    async def bring_up_all(self, owner: Owner) -> None:
        """Read all logs of an owner to their ends."""
        done: set[str] = set()
        # Others may write faster than we read: each thread is read to its end once.
        while behind := [row for row in await self._storage.unprojected(owner) if row.uid not in done]:
            for row in behind:
                with self._damage_log.skip(row):
                    await self.bring_up(row.key)
            done.update(row.uid for row in behind)

    async def again(self, key: ThreadKey) -> Projection | None:
        """Read a log anew from its beginning."""
        found = await self._storage.projection(key)
        if found is not None:
            await self._storage.project(await self._anew(key, found))
        return await self.bring_up(key)

    async def again_in_forks(self, row: ThreadRow, emptied: Sequence[int]) -> None:
        """Read the logs of forks anew that have entries of this thread which are empty now, where they were read."""
        if not emptied or max(await self._storage.forks(row.key), default=0) < min(emptied):
            return
        rows = await all_threads(self._storage, row.key.namespace, row.key.user)  # a fork has the owner of its parent
        family = {row.uid}
        for each in sorted(rows, key=lambda each: (each.created, each.uid)):
            if each.parent_uid in family:
                family.add(each.uid)
                await self._again_if_read(each.key)

    async def _again_if_read(self, key: ThreadKey) -> None:
        found = await self._storage.projection(key)
        if found is not None and found.version:
            await self.again(key)

    async def lines(self, key: ThreadKey) -> list[MessageRow]:
        """The lines that a log leads to, as they should stand."""
        found = await self._storage.projection(key)
        return [] if found is None else list((await self._anew(key, found)).rows)

    async def _next(self, key: ThreadKey, found: Projection) -> Projected:
        """The next page of a log; all of it where its past was changed."""
        if found.shape != SHAPE:
            return await self._anew(key, found)
        page = await self._linked(key, found.version)
        heard = await self._read_on(key, page, is_first=found.version == 0)
        if heard is None:
            return await self._anew(key, found)
        version = page[-1].version if page else found.row.head
        return await self._placed(key, found, version, heard)

    async def _linked(self, key: ThreadKey, after: int) -> list[Entry]:
        """The next entries, each of which follows from the one before: another kind would be passed over."""
        start = max(after - 1, 0)
        page = await self._storage.entries(key, after=start, limit=_PAGE + after - start)
        if page and after:
            verify_links(key.id, page[0].version, page[0].chain, page[1:])
            return page[1:]
        verify_links(key.id, 0, GENESIS, page)
        return page

    async def _read_on(self, key: ThreadKey, page: Sequence[Entry], *, is_first: bool) -> list[Heard] | None:
        changes = {entry.version: await self._bodies.change(key, entry) for entry in page if entry.changes_state}
        return read_on(key.id, page, changes, self._path, is_first=is_first)

    async def _placed(self, key: ThreadKey, found: Projection, version: int, heard: list[Heard]) -> Projected:
        """Give what was added numbers: a message said again under its id keeps the one it has."""
        known = await self._known(key, [each.id for each in heard if each.id is not None])
        places = Places(known, found.count)
        for each in heard:
            places.take(each)
        rows, gone = list(places.rows.values()), sorted(places.gone)
        return Projected(seen=found, version=version, count=places.count, rows=rows, gone=gone)

    async def _known(self, key: ThreadKey, ids: list[str]) -> dict[str, Place]:
        """Where messages stand that entries added under these ids."""
        if not ids:
            return {}
        lines = await self._storage.messages(key, MessageQuery(ids=tuple(dict.fromkeys(ids)), limit=None))
        return {
            line.id: Place(line.number, line.micros, line.version)
            for line in lines
            if line.id is not None and line.version is not None
        }

    async def _anew(self, key: ThreadKey, found: Projection) -> Projected:
        log = await self._storage.log(key) or WholeLog(row=found.row)
        following = Following(self._path, log.seams.targets())
        version = 0
        for entry, step in walk(key.id, log.entries, log.records):
            whole = None if step is None else await self._bodies.whole(key, step)
            following.follow(key.id, entry, whole)
            version = entry.version
        said = following.now.said()
        rows = [_line(number, each) for number, each in said]
        count, _ = following.now.numbers()
        return Projected(seen=found, version=version, count=count, rows=rows, anew=True)


def _line(number: int, said: Said) -> MessageRow:
    body = said.document.encoded()
    return row_of(number, said.at.micros, body, digest_of(body), said.version)
