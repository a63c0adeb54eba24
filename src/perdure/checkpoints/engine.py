"""The engine: every write and read of a thread's state, once, for all storages and for both kinds of callers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Coroutine, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.checkpoints import snapshotting
from perdure.checkpoints.adding import WRITE_ID, Adding
from perdure.checkpoints.requests import Request, Saved
from perdure.checkpoints.restoring import Head, Restorer, walk
from perdure.checkpoints.snapshotting import Buffer, Snapshotter
from perdure.core import blobs
from perdure.core.changes import Change
from perdure.core.codec import encode, encode_parts
from perdure.core.delta import changes, delta
from perdure.core.digest import digest_of
from perdure.core.document import Document
from perdure.core.entries import EntryKind
from perdure.core.errors import NotFoundError, StorageBusyError, VersionConflictError
from perdure.core.fold import change_of
from perdure.core.frozen import Known
from perdure.core.identity import ThreadKey
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.ops import Op, weight
from perdure.core.payload import StateChange, encode_body
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.pruning import is_blank
from perdure.core.threads import ThreadRow
from perdure.core.unchanged import Unchanged
from perdure.core.writes import Appended, Restored, Write, made_again
from perdure.storage.contract import Storage

if TYPE_CHECKING:
    from perdure.core.damage_log import DamageLog
    from perdure.core.subclasses import Subclasses

_NEVER = -1  # a version no thread is at: the write can only be found again, never be made
_UNSEEN = 10_000  # threads that were appended to without a look at their state
_LOOKED_AT = 16  # versions after which a first append looks at the state all the same
_NOTHING = Unchanged()  # is recognised at the next save
_REBASES = 1000  # a writer that loses this often is told so instead of trying for ever


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """What a caller wants the state to be: a whole state, a change of it, or an encoded one to go back to."""

    kind: EntryKind
    asked: tuple[Any, ...]  # what its key stands for
    state: object = None
    subclasses: Subclasses = "refuse"
    change: Change | None = None
    goal: bytes | None = None
    back_to: int | None = None

    def place(self, head: Head) -> tuple[list[Op], Known, Unchanged]:
        """The operations that lead there from a head, and what is recognised at the next save."""
        if self.change is not None:
            return self.change.place(head.document), head.frozen, _NOTHING
        if self.goal is not None:
            return delta(head.document, self.goal)[0], head.frozen, _NOTHING
        kept, unchanged = head.unchanged.look(self.state)
        known = {key: head.document.items(key, count) for key, count in kept.items()}
        encoded, frozen = encode_parts(self.state, head.frozen, known, subclasses=self.subclasses)
        return changes(head.document, encoded), frozen, unchanged


class Planned(msgspec.Struct, frozen=True):
    """A write on top of a head, and what is remembered once it is stored."""

    write: Write
    ops: list[Op]
    frozen: Known
    unchanged: Unchanged
    size: int  # bytes to fold
    nodes: int  # of the state afterwards, at most


class Engine(Adding):
    """Saves and restores states on a storage."""

    def __init__(
        self,
        storage: Storage,
        *,
        clock: Clock,
        randomness: Randomness,
        telemetry: Telemetry,
        cache_bytes: int,
        limits: DecodeLimits = DEFAULT_LIMITS,
        subclasses: Subclasses = "refuse",
    ) -> None:
        super().__init__(storage, clock=clock, randomness=randomness, telemetry=telemetry, cache_bytes=cache_bytes)
        self.limits = limits
        self.subclasses: Subclasses = subclasses
        self._restorer = Restorer(storage, telemetry, limits)
        self._buffer = Buffer()
        self._snapshotter = Snapshotter(storage, telemetry, self._buffer)

    @cached_property
    def damage_log(self) -> DamageLog:
        """Which threads were skipped; it is imported when something goes through all threads."""
        from perdure.core.damage_log import DamageLog

        return DamageLog(self.telemetry)

    async def head(self, key: ThreadKey) -> Head:
        """The newest state, checked against the storage; only what is new is read."""
        known = self._heads.get(key)
        try:
            head = await (self._restorer.catch_up(key, known) if known else self._restorer.restore(key))
        except BaseException:
            self._heads.drop(key)  # a change may have been applied in part
            raise
        self._heads.put(key, head)
        self.ids.follow(head.checkpoint)
        return head

    def known(self, key: ThreadKey) -> Head | None:
        """The newest state that this process remembers, whatever was written since."""
        return self._heads.get(key)

    async def fold(self, key: ThreadKey, restored: Restored, *, is_linked: bool) -> Head | None:
        """The state of what was restored, remembered unless a newer one is; None where that is damaged."""
        head = await self._restorer.fold(key, restored, is_linked=is_linked)
        known = self._heads.get(key)
        if head is not None and (known is None or known.uid != head.uid or known.last <= head.last):
            self._heads.put(key, head)
            self.ids.follow(head.checkpoint)
        return head

    async def at(self, key: ThreadKey, version: int, uid: str | None = None) -> Document:
        """The state at a version; raise `NotFoundError` when that is of another thread than `uid`."""
        return (await self._restorer.restore(key, version, uid=uid)).document

    def walk(self, key: ThreadKey, versions: Sequence[int]) -> AsyncIterator[tuple[int, Document]]:
        """The states at several versions, which rise, each folded from the one before it (`walking`)."""
        return walk(self.storage, self._restorer, key, versions)

    def save(
        self,
        key: ThreadKey,
        state: object,
        expected: int | None,
        request: Request,
        *,
        after: int | None = None,
        subclasses: Subclasses | None = None,
    ) -> Coroutine[Any, Any, Saved]:
        """Make `state` the new state. `expected` None adopts whatever is there, and goes on after a lost race.

        With `after`, it builds on that version: what came since is left behind, as by a rewind.
        """
        kept = subclasses or self.subclasses
        content = b"" if request.key is None else request.content or digest_of(encode(state, subclasses=kept))
        asked = ("save", content) if after is None else ("save", content, after)
        kind = EntryKind.STATE_SAVED if after is None else EntryKind.THREAD_REWOUND
        wanted = Wanted(kind=kind, asked=asked, state=state, subclasses=kept, back_to=after)
        return self._make(key, wanted, request, expected, expected)

    async def rewind(self, row: ThreadRow, to: int, expected: int | None, request: Request) -> Saved:
        """Go back to the state of a version, by an entry that leads there."""
        goal = (await self.at(row.key, to, row.uid)).encoded()
        wanted = Wanted(kind=EntryKind.THREAD_REWOUND, asked=("rewind", to), goal=goal, back_to=to)
        request = msgspec.structs.replace(request, uid=request.uid or row.uid)
        return await self._make(row.key, wanted, request, expected, expected)

    async def change(self, key: ThreadKey, change: Change, expected: int | None, request: Request) -> Saved:
        """Apply a change. One that commutes goes on after a lost race; the answer tells what was there before it."""
        content = request.content
        if content is None:
            content = digest_of(encode_body(change.request())) if request.key is not None else b""
        asked = ("update", content)
        made = await self._append_unseen(key, change, request, asked) if change.commutes else None
        if made is not None:
            return made
        wanted = Wanted(kind=EntryKind.STATE_UPDATED, asked=asked, change=change)
        return await self._make(key, wanted, request, None if change.commutes else expected, expected)

    async def _append_unseen(
        self, key: ThreadKey, change: Change, request: Request, asked: tuple[Any, ...]
    ) -> Saved | None:
        """The first append to a thread that this process does not know: its newest entry may be all that it takes.

        None when it is not enough, or when somebody else was first. The state is read by the second one, and now and
        then by a first one: somebody has to see that a snapshot is due.
        """
        if key in self._unseen or self._heads.get(key) is not None:
            return None
        if len(self._unseen) >= _UNSEEN:
            self._unseen.clear()
        self._unseen.add(key)
        row = await self.storage.thread(key)
        if row is None or request.uid not in (None, row.uid) or row.state_version % _LOOKED_AT < 1:
            return None
        entries = await self.storage.entries(key, after=row.state_version - 1, limit=1)
        if not entries or not entries[0].changes_state or is_blank(entries[0]):
            return None
        ops = change.placed_after(change_of(key.id, entries[0]).ops)
        if ops is None:
            return None
        head = Head(uid=row.uid, version=row.state_version)
        wanted = Wanted(kind=EntryKind.STATE_UPDATED, asked=asked, change=change)
        write, _ = self._write(key, head, wanted, ops, request)
        try:
            done = await self.storage.append(write)
        except (NotFoundError, VersionConflictError):
            return None
        self._tell(key, done, write)
        return Saved(done)

    async def _make(
        self, key: ThreadKey, wanted: Wanted, request: Request, expected: int | None, seen: int | None
    ) -> Saved:
        """Plan a write against the newest state and append it; after a lost race, plan it again.

        A caller that expects a version is told of the race instead, and one that has seen a state that it was deleted.
        """
        for _ in range(_REBASES):
            head = self._heads.get(key)
            if head is None or expected not in (None, head.version):  # what is known cannot be what the caller expects
                head = await self.head(key)
            if seen is not None and request.uid not in (None, head.uid):
                _check_same(key, expected, head)
            planned = self._plan(key, head, wanted, request)
            write = planned.write
            try:
                if expected is not None and expected != head.version:
                    write = _unmade(write, expected, head)
                done = await self.storage.append(write)
            except NotFoundError:
                self.forget(key)
                if seen is not None:
                    raise
            except VersionConflictError:
                if expected is not None:
                    raise
                await self.head(key)
            else:
                if self._settle(key, head, done, planned, write):
                    await self._snapshotter.write(key, head)
                return Saved(done)
        raise StorageBusyError(f"thread {key.id!r}", f"other writers were first {_REBASES} times")

    def _plan(self, key: ThreadKey, head: Head, wanted: Wanted, request: Request) -> Planned:
        ops, frozen, unchanged = wanted.place(head)
        nodes = self._nodes_after(head, ops)
        write, size = self._write(key, head, wanted, ops, request)
        return Planned(write, ops, frozen, unchanged, size, nodes)

    def _nodes_after(self, head: Head, ops: list[Op]) -> int:
        """How many nodes the state has after a change, at most; raise for one that could not be loaded again.

        A change adds no more than it takes itself. Only where that might be too much, the state is made and counted.
        """
        added, now = sum(map(weight, ops)), head.document.size
        size, nodes = now + added, (head.nodes or now) + added
        if size <= self.limits.bytes and nodes <= self.limits.nodes:
            return nodes
        after = Document() if head.document.root is None else Document.of(head.document.encoded())
        after.fold(ops)
        return self.limits.check_document(after, "the state")

    def _write(
        self,
        key: ThreadKey,
        head: Head,
        wanted: Wanted,
        ops: list[Op],
        request: Request,
    ) -> tuple[Write, int]:
        """A write that changes the state, and how many bytes of it there will be to fold."""
        mark, back_to = self._marked(request) if request.mark else None, wanted.back_to
        body, large = encode_body(StateChange(ops, mark, back_to)), list[blobs.Blob]()
        if len(body) > blobs.LIMIT:
            left, _, large = blobs.extract_change(ops)
            body = encode_body(StateChange(left, mark, back_to, [blob.digest for blob in large])) if large else body
        entry = self.entry(wanted.kind, body, request.actor)
        write = Write(
            key=key,
            entries=(*request.also, entry),
            write_id=self._randomness.bytes(WRITE_ID),
            micros=self.clock.now(),
            new_uid=self.ids.sortable() if head.uid is None else "",
            uid=head.uid,
            expected=head.version,
            commutes=wanted.change is not None and wanted.change.commutes,
            idem_key=request.key,
            request=digest_of(encode_body([*wanted.asked, request.asked()])) if request.key is not None else None,
            checkpoint=mark,
            patch=request.patch,
            epoch=request.epoch,
            renew_until=request.renew_until,
            blobs=tuple(large),
            back_to=back_to,
        )
        return write, len(body)

    def _settle(self, key: ThreadKey, head: Head, done: Appended, new: Planned, write: Write) -> bool:
        """After the acknowledgement: tell, remember the new head, and return whether a snapshot is due."""
        if self._is_heard:
            self._tell(key, done, write)
        if done.again:
            return False
        if head.version != write.expected or head.uid != write.uid:
            return False  # somebody read our entry back already and advanced the head
        row = done.row
        try:
            head.document.apply(new.ops)
            head.frozen, head.nodes = new.frozen, new.nodes
            head.unchanged = _NOTHING if new.unchanged is _NOTHING else new.unchanged.settled()
            head.uid, head.version = row.uid, done.state_version
            head.since += new.size
            head.count += 1
            head.room = head.document.size + new.size
            head.last, head.chain = row.head, row.head_digest
        except BaseException:  # a Ctrl-C halfway: the change may stand in the document, and would be applied again
            self.forget(key)
            raise
        self._heads.put(key, head)
        return head.since > snapshotting.SMALLEST and self._snapshotter.is_due(head)

    async def snapshot(self, key: ThreadKey) -> None:
        """Write a whole state of the newest version beside the log, where one is due."""
        head = await self.head(key)
        if head.uid is not None and self._snapshotter.is_due(head):
            await self._snapshotter.write(key, head)


def _unmade(write: Write, expected: int, head: Head) -> Write:
    """A write that may only be found again: what was found against another state than the caller's is never made.

    Only the storage knows whether the same key stands already.
    """
    if write.idem_key is None:
        raise VersionConflictError(write.key.id, expected, head.version)
    return msgspec.structs.replace(write, expected=_NEVER)


def _check_same(key: ThreadKey, expected: int | None, head: Head) -> None:
    """Refuse a caller that has seen another thread under this name; what commutes is right after any."""
    if head.uid is None:
        raise NotFoundError(f"thread {key.id!r}", "it was deleted")
    if expected is not None:
        raise made_again(key, expected, head.version)
