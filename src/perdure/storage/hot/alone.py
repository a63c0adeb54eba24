"""What Redis alone says of a thread: a state, or a log that answers questions about messages."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.pruning import WholeLog
from perdure.core.threads import ThreadRow
from perdure.core.writes import Restored
from perdure.storage.contract import Storage
from perdure.storage.hot.found import Found

Known = tuple[str | None, int, bytes]  # uid, newest version and its chain digest, as a process remembers them
# After these the newest entries alone do not tell what was said, or stand beside content that was dropped.
_TAKING_BACK = (EntryKind.THREAD_REWOUND, EntryKind.MESSAGE_DELETED, EntryKind.RANGE_PRUNED)


class NotInRedis(Exception):
    """Redis does not have what is asked for: the storage does."""


class CachedState(msgspec.Struct, frozen=True, kw_only=True):
    """The newest state as Redis alone tells it."""

    row: ThreadRow
    age: float  # seconds
    restored: Restored | None  # None: it is at the version that the caller knows already


class CachedLog:
    """The newest entries of a log as Redis alone tells them, for whoever reads messages of a storage.

    Large values are read from the storage, by their digests.
    """

    def __init__(self, row: ThreadRow, age: float, found: Found, inner: Storage) -> None:
        self.row = row
        self.age = age
        self._found = found
        self._inner = inner

    async def thread(self, key: ThreadKey) -> ThreadRow | None:
        """The row, as far as Redis tells it."""
        return self.row

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: Sequence[EntryKind] | None = None
    ) -> list[Entry]:
        """The entries after a version; raise `NotInRedis` unless all of them are there."""
        found = self._found.entries(after)
        if found is None:
            raise NotInRedis
        return [entry for entry in found if kinds is None or entry.kind in kinds][:limit]

    async def log(
        self, key: ThreadKey, *, after: int = 0, kinds: Sequence[EntryKind] | None = None, checkpoints: bool = False
    ) -> WholeLog | None:
        """The whole log of a thread in which nothing was taken back; raise `NotInRedis` for any other."""
        entries = await self.entries(key, after=after)
        if checkpoints or self.row.parent_uid is not None or any(each.kind in _TAKING_BACK for each in entries):
            raise NotInRedis
        return WholeLog(row=self.row, entries=[each for each in entries if kinds is None or each.kind in kinds])

    async def blobs(self, key: ThreadKey, digests: Sequence[bytes]) -> dict[bytes, bytes]:
        """Large values, from the storage."""
        return await self._inner.blobs(key, digests)
