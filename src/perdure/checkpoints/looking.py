"""A storage for those who only look: restoring from it goes as ever, but nothing is dropped for it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.seams import Seams
from perdure.core.threads import ThreadRow
from perdure.core.writes import Restored
from perdure.storage.contract import Storage


class Looking:
    """What a `Restorer` needs of a storage. A damaged snapshot is passed over instead of being dropped.

    States are read by the line that follows from the log: a damaged one would be told again with its newest point.
    """

    def __init__(self, storage: Storage, line: ThreadRow) -> None:
        self._storage = storage
        self._line = line
        self._passed: set[tuple[ThreadKey, int]] = set()

    async def restore(self, key: ThreadKey, *, at: int | None = None, after: int | None = None) -> Restored | None:
        """The restore of the contract, without the snapshots that were passed over."""
        found = await self._storage.restore(key, at=at, after=after)
        while found is not None and found.snapshot is not None and (key, found.snapshot.version) in self._passed:
            found = await self._below(key, found, found.snapshot.version - 1)
        return msgspec.structs.replace(found, row=self._line) if found is not None else None

    async def _below(self, key: ThreadKey, found: Restored, version: int) -> Restored | None:
        """The same from an earlier whole state."""
        last = found.entries[-1].version if found.entries else version + 1
        start = await self._storage.restore(key, at=version)
        rest = await self._storage.restore(key, at=last, after=version)
        if start is None or rest is None:
            return None
        entries, records = [*start.entries, *rest.entries], [*start.records, *rest.records]
        return msgspec.structs.replace(found, snapshot=start.snapshot, entries=entries, records=records)

    async def drop_snapshot(self, key: ThreadKey, version: int) -> None:
        """Pass over it from now on."""
        self._passed.add((key, version))

    async def headers(
        self,
        key: ThreadKey,
        *,
        at: int | None = None,
        until: int | None = None,
        kinds: Sequence[EntryKind] | None = None,
        limit: int = 1,
    ) -> list[Entry]:
        """The headers of the contract."""
        return await self._storage.headers(key, at=at, until=until, kinds=kinds, limit=limit)

    async def seams(self, key: ThreadKey) -> Seams:
        """The seams of the contract."""
        return await self._storage.seams(key)

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """The blobs of the contract."""
        return await self._storage.blobs(key, digests)
