"""Writes as an engine would make them: fresh ids, sealed payloads, a moment later each time."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec

from perdure.core.checkpoint import CheckpointMark, CheckpointRow
from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.envelope import seal
from perdure.core.identity import ThreadKey
from perdure.core.ids import IdMaker
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Blob, Snapshot, Write
from perdure.storage.contract import Storage
from perdure.testing.clock import ManualClock, SeededRandomness

THREAD = ThreadKey("", "alice", "t1")
OTHER = ThreadKey("", "alice", "t2")
BOBS = ThreadKey("", "bob", "t1")
SECOND = 1_000_000
MOMENT = timedelta(seconds=1)
STATE = EntryKind.STATE_UPDATED
MESSAGE = EntryKind.MESSAGE_ADDED


class Scribe:
    """Makes writes, and hands them to a storage when asked to."""

    def __init__(self, storage: Storage, clock: ManualClock, seed: int = 1) -> None:
        self.storage = storage
        self.clock = clock
        self._randomness = SeededRandomness(seed)
        self._ids = IdMaker(clock, self._randomness)
        self._made = 0

    def write(self, key: ThreadKey = THREAD, *kinds: EntryKind, **fields: Any) -> Write:
        """A write of one entry per kind (a change of the state when none is named), a second after the one before."""
        self.clock.advance(MOMENT)
        usual: dict[str, Any] = {
            "key": key,
            "entries": tuple(self.entry(kind) for kind in kinds or (STATE,)),
            "write_id": self._randomness.bytes(12),
            "micros": self.clock.now(),
            "new_uid": self.uid(),
        }
        return Write(**(usual | fields))

    async def append(self, key: ThreadKey = THREAD, *kinds: EntryKind, **fields: Any) -> Appended:
        """Make a write and append it."""
        return await self.storage.append(self.write(key, *kinds, **fields))

    async def grow(self, key: ThreadKey, count: int) -> Appended:
        """Append `count` writes of one change each, and return what became of the last."""
        for _ in range(count - 1):
            await self.append(key)
        return await self.append(key)

    async def save(self, key: ThreadKey = THREAD, *, metadata: object = None, **mark: Any) -> CheckpointRow:
        """Append one change with a checkpoint, and return the checkpoint's line."""
        made = await self.append(key, checkpoint=self.mark(metadata=metadata, **mark))
        assert made.checkpoint is not None
        return made.checkpoint

    def entry(self, kind: EntryKind = STATE, body: bytes | None = None, actor: str | None = None) -> NewEntry:
        """An entry whose body no other has, unless it is given."""
        self._made += 1
        body = encode({"n": self._made, "text": "é 漢 \U0001f600"}) if body is None else body
        return NewEntry(kind=kind, payload=seal(body), digest=digest_of(body), actor=actor)

    def mark(self, *, metadata: object = None, **fields: Any) -> CheckpointMark:
        """A checkpoint with an id of its own."""
        usual: dict[str, Any] = {"id": self._ids.checkpoint(), "kind": "manual"}
        return CheckpointMark(**(usual | fields), metadata=encode({} if metadata is None else metadata))

    def uid(self) -> str:
        """A fresh thread uid."""
        return self._ids.sortable()

    def target(self, key: ThreadKey, **fields: Any) -> ThreadRow:
        """A line for the thread that a fork makes."""
        self.clock.advance(MOMENT)
        return ThreadRow(key=key, uid=self.uid(), created=self.clock.now(), **fields)

    async def fork(self, source: ThreadKey, version: int, key: ThreadKey, **fields: Any) -> ThreadRow:
        """Fork `source` at `version`."""
        return await self.storage.fork(source, version, self.target(key, **fields))

    async def snapshot(self, made: Appended, **fields: Any) -> Snapshot:
        """Keep a snapshot of the version that a write made."""
        kept = snapshot_of(made.version, made.row.head_digest, **fields)
        assert await self.storage.put_snapshot(made.row.key, made.row.uid, kept)
        return kept


def snapshot_of(version: int, chain: bytes = bytes(32), **fields: Any) -> Snapshot:
    """A snapshot whose payload tells its version."""
    payload = seal(encode({"version": version}))
    return msgspec.structs.replace(
        Snapshot(version=version, chain=chain, digest=digest_of(payload), payload=payload), **fields
    )


def blob_of(text: str) -> Blob:
    """A value kept apart."""
    body = encode(text)
    return Blob(digest_of(body), seal(body))
