"""The messages of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from perdure.core import blobs
from perdure.core.codec import decode
from perdure.core.conversation import MESSAGE_PATH, appended
from perdure.core.digest import body_of
from perdure.core.entries import STATE_KINDS, Entry, EntryKind
from perdure.core.fold import Step, change_of, walk, with_bodies
from perdure.core.following import Following
from perdure.core.identity import ThreadKey
from perdure.core.ops import Ops
from perdure.core.payload import WholeState
from perdure.core.pruning import is_blank
from perdure.core.steps import Path
from perdure.storage.contract import Storage

_KINDS = (*STATE_KINDS, EntryKind.MESSAGE_ADDED)
_WINDOW = 16  # entries that are looked at first, beside two for each message
_WIDER = 4  # times, when they did not hold enough


class Messages:
    """Reads conversations from logs."""

    def __init__(self, storage: Storage, path: Path = MESSAGE_PATH) -> None:
        self._storage = storage
        self._path = path

    async def list(self, key: ThreadKey, limit: int | None = None) -> list[Any]:
        """Everything that was said, oldest first; with `limit`, the newest that many."""
        if limit is None:
            return [decode(each) for each in await self._all(key)]
        return [decode(each) for each in await self._newest(key, limit)]

    async def _newest(self, key: ThreadKey, limit: int) -> Sequence[Raw | bytes]:
        """The newest messages, from the newest entries where those tell; else from all."""
        row = await self._storage.thread(key)
        window = 2 * limit + _WINDOW
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
        if is_blank(entry) or entry.kind is EntryKind.THREAD_REWOUND:
            return None
        if entry.kind is EntryKind.MESSAGE_ADDED:
            return [Raw(body_of(key.id, entry))]
        return appended(await self._ops(key, entry), self._path)

    async def _all(self, key: ThreadKey) -> list[bytes]:
        seams = await self._storage.seams(key)
        records = await self._storage.records(key) if seams.gone else []
        following = Following(self._path, seams.targets())
        entries = await self._storage.entries(key, kinds=None if seams.rewinds else _KINDS)
        for entry, step in walk(key.id, entries, records):
            if step is not None:
                following.take(await self._whole(key, step))
            elif entry.kind is EntryKind.MESSAGE_ADDED and not is_blank(entry):
                following.said(Raw(body_of(key.id, entry)))
            following.passed(entry.version)
        return following.now.messages()

    async def _ops(self, key: ThreadKey, entry: Entry) -> Ops:
        step = await self._whole(key, change_of(key.id, entry))
        return () if isinstance(step, WholeState) else step.ops

    async def _whole(self, key: ThreadKey, step: Step) -> Step:
        """The step with its large values put back."""
        if not step.blobs:
            return step
        found = await self._storage.blobs(key, step.blobs)
        return with_bodies(step, {digest: blobs.checked(digest, payload) for digest, payload in found.items()})
