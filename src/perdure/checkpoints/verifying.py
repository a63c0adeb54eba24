"""Verifying threads on a storage: the log, what is derived from it, whole states against a replay, and every point."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from contextlib import suppress
from typing import cast

import msgspec

from perdure.checkpoints.looking import Looking
from perdure.checkpoints.replaying import Replay
from perdure.checkpoints.restoring import Restorer
from perdure.core import indexing, said
from perdure.core.checkpoint import MAX_LIMIT, CheckpointQuery, CheckpointRow
from perdure.core.derived import Derived, same_line
from perdure.core.entries import Entry
from perdure.core.erasure import is_log, log_key, tombstones
from perdure.core.errors import (
    MISSING,
    DamagedError,
    EntryDamagedError,
    NotFoundError,
    PerdureError,
    ValueTooLargeError,
)
from perdure.core.forks import parents_first
from perdure.core.identity import ThreadKey
from perdure.core.indexing import Standing
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ports import Silence
from perdure.core.threads import ThreadQuery, ThreadRow
from perdure.core.uses import compare_uses
from perdure.core.verification import (
    Damage,
    Finder,
    Report,
    check_bodies,
    check_end,
    check_line,
    check_links,
    check_records,
)
from perdure.core.writes import Snapshot
from perdure.storage.contract import Storage

_PAGE = 2000  # each page of a minute sorts all that changed in it
_TRIES = 5  # a thread that was written to while it was read is read again

Lines = Callable[[ThreadKey], Awaitable[list[str]]]  # what is wrong with the lines of a thread's messages
Progress = Callable[[int, int, Report], None]  # how many threads are done, of how many, and what the newest was like


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """A thread that was read, and what was found."""

    report: Report
    thread: Standing | None = None  # None: it could not be read
    made: Derived | None = None  # what is derived from its log, as it should be
    bad: frozenset[int] = frozenset()  # versions of derived snapshots that are damaged
    uid: str | None = None  # of the thread it was found in; None: no line could be read

    def also_in(self, earlier: Verified) -> Verified:
        """With those damages only that an earlier look had found too."""
        return self.without(each for each in self.report.damaged if each not in earlier.report.damaged)

    def without(self, doubtful: Iterable[Damage]) -> Verified:
        """With all damages but these."""
        gone = list(doubtful)
        damaged = [each for each in self.report.damaged if each not in gone]
        return msgspec.structs.replace(self, report=msgspec.structs.replace(self.report, damaged=damaged))


_UNREADABLE = (DamagedError, ValueTooLargeError)


class Listed(msgspec.Struct, frozen=True):
    """The threads to look at, and what kept others from being listed."""

    keys: list[ThreadKey]
    damaged: list[Damage] = []


class Verifier:
    """Verifies threads of a storage. Nothing is changed."""

    def __init__(self, storage: Storage, lines: Lines | None = None, limits: DecodeLimits = DEFAULT_LIMITS) -> None:
        self._storage = storage
        self._lines = lines
        self._limits = limits

    async def look(self, key: ThreadKey, *, restore: bool = False) -> Verified:
        """Everything of one thread, and what it was compared with.

        One whose line changed meanwhile is looked at again: a damage is believed once the same thread has it twice.
        """
        found, is_same = await self._once(key, restore), False
        for _ in range(_TRIES):
            if found.report.ok or await self._is_settled(found, is_same):
                return found
            earlier, found = found, await self._once(key, restore)
            # Of one that was deleted and made again, each look may see an end of the old and a beginning of the new.
            is_same = found.uid == earlier.uid
            found = found.also_in(earlier) if is_same else found
        return found if is_same else found.without(found.report.damaged)

    async def _is_settled(self, found: Verified, is_same: bool) -> bool:
        """Whether what was found is of one moment, or was found in the same thread twice."""
        if found.thread is None:
            return is_same and found.uid is not None
        try:
            row = await self._storage.thread(found.thread.row.key)
        except _UNREADABLE:
            return True
        is_fork = row is not None and row.parent_uid is not None  # its parents may be pruned meanwhile
        return row is not None and same_line(row, found.thread.row) and not is_fork

    async def _once(self, key: ThreadKey, restore: bool) -> Verified:
        finder = Finder(key)
        try:
            derived = await self._storage.derived(key)
            if derived is not None:
                return await self._verified(finder, derived, restore)
            row = await self._listed_line(key)
            if row is None:
                return Verified(report=Report())  # deleted meanwhile
            finder.add("directory line", "is listed, and not found by its name")
        except _UNREADABLE as exc:
            finder.add(*told(exc))
            row = await self._any_line(key)
        report = Report(threads=1, damaged=finder.found)
        return Verified(report=report, uid=row.uid if row else None)

    async def _listed_line(self, key: ThreadKey) -> ThreadRow | None:
        found = await self._storage.find(key.namespace, key.id)
        return next((row for row in found if row.key == key), None)

    async def _any_line(self, key: ThreadKey) -> ThreadRow | None:
        """The line of a thread of which something cannot be read, if that is not the line itself."""
        try:
            return await self._storage.thread(key) or await self._listed_line(key)
        except _UNREADABLE:
            return None

    async def _verified(self, finder: Finder, derived: Derived, restore: bool) -> Verified:
        thread = await self._read(finder, derived)
        made = indexing.make(thread)
        check_end(finder, thread.row, thread.named)
        check_line(finder, thread.row, made.row)
        indexing.compare(finder, thread, made)
        compare_uses(finder, thread, made)
        points = [*thread.inherited, *made.checkpoints]
        replay = Replay(self._storage, finder, thread, self._limits)
        snapshots = await self._snapshots(finder, thread)
        # A reader drops what is damaged and derived; whoever only looks leaves it where it is.
        restorer = (
            Restorer(cast(Storage, Looking(self._storage, made.row)), Silence(), self._limits) if restore else None
        )
        restored = await replay.compare(snapshots, points, restorer)
        if restore and not finder.found:
            await self._check_ids(finder, derived)
        for fault in await self._lines(thread.row.key) if self._lines and thread.intact else ():
            finder.add("lines of messages", fault, derived=True)
        report = Report(
            threads=1, entries=len(thread.entries), points=len(points), snapshots=len(snapshots), restored=restored,
            damaged=finder.found,
        )  # fmt: skip
        return Verified(report=report, thread=thread, made=made, bad=frozenset(replay.bad), uid=thread.row.uid)

    async def _read(self, finder: Finder, derived: Derived) -> Standing:
        """The log with everything beside it; what is damaged in it is told."""
        row, lost = derived.row, dict[int, str]()
        entries = [*await self._entries(row.key, 0, row.head, lost), *derived.beyond]
        seen = [each for each in await self._storage.records(row.key) if each.version <= row.head]
        records = [*seen, *derived.records]
        finder.add_entries(lost.items())
        # Of a line that names a version before the fork, the parents' part is not missing, only out of sight.
        hidden = range(row.head + 1, min(row.parent_version, entries[-1].version if entries else 0) + 1)
        broken = check_links(finder, entries, {*lost, *hidden})
        content = said.read(row.key.id, (entry for entry in entries if entry.version not in broken), records)
        check_bodies(finder, row, content, entries)
        check_records(finder, row, content, {entry.version: entry.chain for entry in entries})
        content.unread.update(dict.fromkeys(broken, "does not follow"))
        return Standing(
            derived=derived,
            entries=entries,
            said=content,
            inherited=await self._inherited(row),
            broken=frozenset(broken),
            intact=not finder.found,
        )

    async def _entries(self, key: ThreadKey, low: int, high: int, lost: dict[int, str]) -> list[Entry]:
        """The entries after `low` up to `high`; those that the storage cannot read are `lost`, and why."""
        if low >= high:
            return []
        try:
            found = await self._storage.entries(key, after=low, limit=high - low)
            return [entry for entry in found if entry.version <= high]
        except _UNREADABLE as exc:
            if high - low == 1:
                # A row may name a head that its log never had: where entries are missing, `check_links` says.
                if not (isinstance(exc, EntryDamagedError) and exc.reason == MISSING):
                    lost[high] = told(exc)[1]
                return []
        middle = (low + high) // 2
        return [*await self._entries(key, low, middle, lost), *await self._entries(key, middle, high, lost)]

    async def _inherited(self, row: ThreadRow) -> list[CheckpointRow]:
        if not row.parent_version:
            return []
        marks = await self._storage.checkpoints(row.key, CheckpointQuery(limit=MAX_LIMIT))
        return [mark for mark in reversed(marks) if mark.entry <= row.parent_version]

    async def _snapshots(self, finder: Finder, thread: Standing) -> list[Snapshot]:
        """Every derived whole state of the history, newest first."""
        key, at, found = thread.row.key, thread.row.head, list[Snapshot]()
        try:
            while at > 0:
                restored = await self._storage.restore(key, at=at)
                snapshot = restored.snapshot if restored else None
                if snapshot is None:
                    break
                found += [] if snapshot.base else [snapshot]
                at = snapshot.version - 1
        except _UNREADABLE as exc:
            finder.add(*told(exc))
            return found
        await self._check_unseen(finder, thread.derived, {each.version for each in found})
        return found

    async def _check_unseen(self, finder: Finder, derived: Derived, seen: set[int]) -> None:
        """Snapshots that are there and were not given to a reader; a newer one may have taken their place meanwhile."""
        unseen = [version for version in derived.snapshots if version <= derived.row.head and version not in seen]
        now = await self._storage.derived(derived.row.key) if unseen else None
        if now is not None and {*now.snapshots} <= {*derived.snapshots}:
            for version in unseen:
                finder.add(f"snapshot at version {version}", "cannot be read", version, derived=True)

    async def _check_ids(self, finder: Finder, derived: Derived) -> None:
        """Checkpoints are found by their ids too, through an index that may be damaged while the lines are not."""
        for row in derived.checkpoints:
            try:
                found = await self._storage.checkpoints(derived.row.key, CheckpointQuery(id=row.mark.id, limit=1))
            except DamagedError as exc:
                return finder.add(*told(exc))
            if not found:
                finder.add(f"checkpoint {row.mark.id}", "is listed, and not found by its id", derived=True)

    async def store(
        self, namespace: str, *, user: str | None = None, restore: bool = False, progress: Progress | None = None
    ) -> Report:
        """All threads of a namespace, or of one user in it."""
        listed = await self.listed(namespace, user)
        total = Report(damaged=[*listed.damaged, *await self.unlisted(namespace, user)])
        for done, key in enumerate(listed.keys, 1):
            newest = (await self.look(key, restore=restore)).report
            total = total.plus(newest)
            if progress is not None:
                progress(done, len(listed.keys), newest)
        return total.plus(await self._tombstones(listed.keys))

    async def _tombstones(self, keys: Iterable[ThreadKey]) -> Report:
        """How many users were forgotten, if these threads tell of it; what is damaged in them was told already."""
        forgotten = interrupted = 0
        for key in keys:
            with suppress(*_UNREADABLE, NotFoundError):
                row = await self._storage.thread(key) if is_log(key) else None
                if row is not None:
                    restorer = Restorer(cast(Storage, Looking(self._storage, row)), Silence(), self._limits)
                    found = tombstones((await restorer.restore(key)).document.value() or {})
                    forgotten += sum(each.finished is not None for each in found)
                    interrupted += sum(each.finished is None for each in found)
        return Report(forgotten=forgotten, interrupted=interrupted)

    async def everything(
        self, namespace: str, *, user: str | None = None, restore: bool = False, progress: Progress | None = None
    ) -> Report:
        """All threads of a namespace, or of one user in it; unless one is named, what no thread leads to as well."""
        whole = Report()
        if user is None:
            whole = (await self.integrity()).plus(await self.strays())
            whole = whole.plus(await self.store(log_key(namespace).namespace, restore=restore))
        return whole.plus(await self.store(namespace, user=user, restore=restore, progress=progress))

    async def integrity(self) -> Report:
        """What the database's own check finds: a thread that no index leads to is not among those that are listed."""
        finder = Finder(ThreadKey("", "", "(storage)"))
        try:
            for fault in await self._storage.integrity():
                finder.add("database", f"fails its own check: {fault}")
        except PerdureError as exc:
            finder.add("database", f"cannot be checked: {exc}")
        return Report(damaged=finder.found)

    async def unlisted(self, namespace: str, user: str | None = None) -> list[Damage]:
        """Threads that lists leave out because they cannot be read; also those that may be of anybody."""
        found = await self._storage.damaged()
        mine = [each for each in found if each.namespace == namespace and user in (None, each.user)]
        return mine + [each for each in found if not each.thread_id and user is None and each not in mine]

    async def strays(self) -> Report:
        """Entries that no thread leads to, in whichever namespace."""
        finder = Finder(ThreadKey("", "", "(no thread)"))
        try:
            for where, count in (await self._storage.strays()).items():
                finder.add("directory", f"has no line for {where} there: {count:,}")
        except _UNREADABLE as exc:
            finder.add(*told(exc))
        return Report(damaged=finder.found)

    async def listed(self, namespace: str, user: str | None = None) -> Listed:
        """The keys of all threads of a namespace, or of one user in it."""
        try:
            return Listed(await self._listed(namespace, user))
        except _UNREADABLE as exc:
            finder = Finder(ThreadKey(namespace, user or "", "(all threads)"))
            finder.add("directory", f"cannot be listed: {exc}")
            return Listed(await self._marked(namespace, user), finder.found)

    async def _listed(self, namespace: str, user: str | None) -> list[ThreadKey]:
        found: dict[str, ThreadRow] = {}
        query = ThreadQuery(namespace=namespace, user=user, limit=_PAGE)
        # Only those that are new: in a damaged order a page may lead back to itself.
        while page := [row for row in await self._storage.threads(query) if row.uid not in found]:
            found |= {row.uid: row for row in page}
            query = msgspec.structs.replace(query, before=(page[-1].updated, page[-1].uid))
        # Parents first: what a fork has from one that is repaired is right by then.
        return [row.key for row in parents_first(list(found.values()))]

    async def _marked(self, namespace: str, user: str | None) -> list[ThreadKey]:
        """The threads that checkpoints name: where the directory cannot be listed, most of them are found by that."""
        try:
            rows = await self._storage.user_checkpoints(namespace, user, CheckpointQuery(limit=MAX_LIMIT))
        except _UNREADABLE:
            return []
        return list(dict.fromkeys(ThreadKey(namespace, row.user, row.thread_id) for row in rows))


def told(exc: PerdureError) -> tuple[str, str, int | None]:
    """The place and the reason of an error."""
    if isinstance(exc, EntryDamagedError):
        return f"entry {exc.version}", exc.reason, exc.version
    return "storage", str(exc), None
