"""The limits of decoding, kept at the door of a storage: what is larger neither comes out nor goes in.

Everything above a storage unpacks and decodes what it is given without another look at its size.
"""

from __future__ import annotations

from collections.abc import Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.core.envelope import claimed
from perdure.core.limits import DecodeLimits

if TYPE_CHECKING:
    from perdure.core.derived import Derived
    from perdure.core.entries import Entry, EntryKind
    from perdure.core.identity import ThreadKey
    from perdure.core.messages import MessageQuery, MessageRow, Owner
    from perdure.core.pruning import Record, WholeLog
    from perdure.core.threads import ThreadRow
    from perdure.core.transfer import ThreadCopy
    from perdure.core.writes import Appended, Restored, Snapshot, Write
    from perdure.storage.contract import Storage

E = TypeVar("E", bound="Iterable[Entry]")
_RATIO = 1 << 5  # an entry is looked at from there on, or where it is packed by zstd
_PACKED = b"\x01"


class BoundedStorage:
    """A storage whose values have no more bytes and nodes than its limits say; what has no values is passed on."""

    def __init__(self, inner: Storage, limits: DecodeLimits) -> None:
        self.inner = inner
        self.limits = limits

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def append(self, write: Write) -> Coroutine[Any, Any, Appended]:
        small = self.limits.nodes // _RATIO
        for entry in write.entries:
            if len(entry.payload) > small or entry.payload[1:2] == _PACKED:
                self.limits.check_sealed(entry.payload, f"the entry {entry.kind.value!r} of thread {write.key.id!r}")
        if write.checkpoint is not None and len(write.checkpoint.metadata) > small:
            self.limits.check(write.checkpoint.metadata, "the metadata of a checkpoint")
        if write.patch.metadata is not None:
            self.limits.check(write.patch.metadata, f"the metadata of thread {write.key.id!r}")
        return self.inner.append(write)

    async def put_thread(self, copy: ThreadCopy) -> ThreadRow:
        self._entries(copy.row.key, copy.entries)
        self._records(copy.row.key, copy.records)
        for blob in copy.blobs:
            self._blob(blob.digest, blob.payload)
        return await self.inner.put_thread(copy)

    async def keyed(self, key: ThreadKey, idem_key: str) -> Entry | None:
        found = await self.inner.keyed(key, idem_key)
        self._entries(key, [found] if found is not None else ())
        return found

    async def under(self, key: ThreadKey, prefix: str) -> list[Entry]:
        return self._entries(key, await self.inner.under(key, prefix))

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        return self._entries(key, await self.inner.entries(key, after=after, limit=limit, kinds=kinds))

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        found = await self.inner.restore(key, at=at, after=after)
        if found is not None:
            if found.snapshot is not None:
                self._snapshot(key, found.snapshot)
            self._entries(key, found.entries)
            self._records(key, found.records)
        return found

    async def log(
        self,
        key: ThreadKey,
        *,
        after: int = 0,
        kinds: Sequence[EntryKind] | None = None,
        checkpoints: bool = False,
    ) -> WholeLog | None:
        found = await self.inner.log(key, after=after, kinds=kinds, checkpoints=checkpoints)
        if found is not None:
            self._entries(key, found.entries)
            self._records(key, found.records)
        return found

    async def records(self, key: ThreadKey) -> list[Record]:
        return self._records(key, await self.inner.records(key))

    async def derived(self, key: ThreadKey) -> Derived | None:
        found = await self.inner.derived(key)
        if found is not None:
            self._entries(key, found.beyond)
            self._records(key, found.records)
        return found

    async def messages(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
        return self._messages(await self.inner.messages(of, query))

    async def current(self, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
        found = await self.inner.current(of, query)
        return None if found is None else self._messages(found)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        found = await self.inner.blobs(key, digests)
        for digest, payload in found.items():
            self._blob(digest, payload)
        return found

    def _entries(self, key: ThreadKey, entries: E) -> E:
        small = self.limits.nodes // _RATIO
        for entry in entries:
            if entry.payload is not None and (len(entry.payload) > small or entry.payload[1:2] == _PACKED):
                self.limits.check_sealed(entry.payload, f"entry {entry.version} of thread {key.id!r}")
        return entries

    def _records(self, key: ThreadKey, records: list[Record]) -> list[Record]:
        for record in records:
            self.limits.check_sealed(record.payload, f"the record at version {record.version} of thread {key.id!r}")
        return records

    def _snapshot(self, key: ThreadKey, snapshot: Snapshot) -> None:
        self.limits.check_sealed(snapshot.payload, f"the snapshot at version {snapshot.version} of thread {key.id!r}")

    def _messages(self, rows: list[MessageRow]) -> list[MessageRow]:
        for row in rows:
            self.limits.check_sealed(row.payload, f"message {row.number} of thread {row.thread_id!r}")
        return rows

    def _blob(self, digest: bytes, payload: bytes) -> None:
        self.limits.check_size(claimed(payload), f"large value {digest.hex()[:16]}…")  # one text or bytes
