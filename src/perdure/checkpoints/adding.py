"""Writes that leave the state as it is: messages, marks, what runs and prunes tell."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.checkpoints.requests import Request
from perdure.checkpoints.restoring import Heads
from perdure.core.checkpoint import CheckpointMark
from perdure.core.digest import digest_of
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.envelope import seal, seal_packed, seal_record
from perdure.core.errors import NotFoundError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.ids import IdMaker
from perdure.core.payload import encode_body
from perdure.core.ports import Clock, Randomness, Silence, Telemetry
from perdure.core.pruning import Pruning
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Blob, Write
from perdure.storage.contract import Storage

WRITE_ID = 8  # bytes: looked for among the newest entries of one thread


class Adding:
    """Adds entries to threads, and knows what every write needs."""

    def __init__(
        self, storage: Storage, *, clock: Clock, randomness: Randomness, telemetry: Telemetry, cache_bytes: int
    ) -> None:
        self.storage = storage
        self.clock = clock
        self.telemetry = telemetry
        self.ids = IdMaker(clock, randomness)
        self._is_heard = _hears(telemetry.count, Silence.count) or _hears(telemetry.event, Silence.event)
        self._randomness = randomness
        self._heads = Heads(cache_bytes)
        self._unseen: set[ThreadKey] = set()
        self._packs_from = storage.packs_from

    async def add(
        self, row: ThreadRow, kind: EntryKind, body: bytes, request: Request, names: int | None = None
    ) -> Appended:
        """Add an entry that does not change the state; a version that it `names` has to be there."""
        return await self._added(row, kind, body, request, None, names=names)

    def entry(self, kind: EntryKind, body: bytes, actor: str | None) -> NewEntry:
        """An entry with this body, packed where that saves the storage room."""
        payload = seal_packed(body) if len(body) >= self._packs_from else seal(body)
        return NewEntry(kind=kind, payload=payload, digest=digest_of(body), actor=actor)

    def record(self, kind: EntryKind, body: bytes, actor: str | None) -> NewEntry:
        """The same for what a run tells, which is read again entry by entry when it is resumed."""
        payload = seal_record(body) if len(body) >= self.storage.packs_records_from else seal(body)
        return NewEntry(kind=kind, payload=payload, digest=digest_of(body), actor=actor)

    async def speak(self, key: ThreadKey, entries: Sequence[NewEntry], request: Request) -> Appended:
        """Add entries that do not change the state, all in one write. The thread is made when there is none."""
        head = self._heads.get(key)
        uid = request.uid or (head.uid if head else None)
        write = Write(
            key=key,
            entries=tuple(entries),
            write_id=self._randomness.bytes(WRITE_ID),
            micros=self.clock.now(),
            new_uid="" if uid else self.ids.sortable(),
            uid=uid,
            idem_key=request.key,
            request=_asked(entries) if request.key is not None else None,
            checkpoint=self._marked(request),
            patch=request.patch,
            after_run=request.after_run,
            head=request.head,
            epoch=request.epoch,
            renew_until=request.renew_until,
        )
        try:
            done = await self.storage.append(write)
        except (NotFoundError, VersionConflictError):
            if request.uid is not None or write.uid is None:
                raise
            self.forget(key)  # deleted, or made again, by somebody; this caller never claimed to have seen it
            write = msgspec.structs.replace(write, uid=None, new_uid=self.ids.sortable())
            done = await self.storage.append(write)
        self._tell(key, done, write)
        return done

    async def mark(self, row: ThreadRow, version: int, request: Request) -> Appended:
        """Make a checkpoint of a version that is there already."""
        mark = msgspec.structs.replace(self._marked(request) or CheckpointMark(id="", kind=""), version=version)
        return await self._added(row, EntryKind.CHECKPOINT_SAVED, encode_body(mark), request, mark, names=version)

    async def prune(
        self, row: ThreadRow, body: bytes, pruning: Pruning, large: tuple[Blob, ...], request: Request
    ) -> Appended:
        """Drop what a plan names, in the transaction of the entry that tells of it."""
        return await self._added(row, EntryKind.RANGE_PRUNED, body, request, None, pruning, large)

    async def take_back(self, row: ThreadRow, body: bytes, pruning: Pruning, request: Request) -> Appended:
        """Empty messages, in the transaction of the entry that tells of it."""
        return await self._added(row, EntryKind.MESSAGE_DELETED, body, request, None, pruning)

    async def _added(
        self,
        row: ThreadRow,
        kind: EntryKind,
        body: bytes,
        request: Request,
        mark: CheckpointMark | None,
        pruning: Pruning | None = None,
        large: tuple[Blob, ...] = (),
        names: int | None = None,
    ) -> Appended:
        asked = [kind, mark.version, *request.asked()] if mark else [kind, body]
        write = Write(
            key=row.key,
            entries=(self.entry(kind, body, request.actor),),
            write_id=self._randomness.bytes(WRITE_ID),
            micros=self.clock.now(),
            new_uid="",
            uid=row.uid,
            idem_key=request.key,
            request=digest_of(encode_body(asked)) if request.key is not None else None,
            since=row.head,
            checkpoint=mark,
            patch=request.patch,
            blobs=large,
            pruning=pruning,
            names=names,
        )
        return await self.storage.append(write)

    def _marked(self, request: Request) -> CheckpointMark | None:
        """The checkpoint of a request, with an id after all others, unless it has one."""
        mark = request.mark
        return msgspec.structs.replace(mark, id=self.ids.checkpoint()) if mark and not mark.id else mark

    def _tell(self, key: ThreadKey, done: Appended, write: Write) -> None:
        if self._is_heard and not done.again:
            kind = write.entries[-1].kind
            self.telemetry.count("perdure.writes", 1, kind=kind)
            self.telemetry.event("entry.committed", thread=key.id, version=done.version, kind=kind)

    def forget(self, key: ThreadKey) -> None:
        """Drop what the process knows of a thread."""
        self._heads.drop(key)
        self._unseen.discard(key)


def _hears(told: object, silence: object) -> bool:
    return getattr(told, "__func__", None) is not silence


def _asked(entries: Sequence[NewEntry]) -> bytes:
    """What a key stands for. The kinds belong to it: the end of a run and its cancellation may have the same body."""
    return digest_of(encode_body([[entry.kind, entry.digest] for entry in entries]))
