"""The messages of a thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec import Raw

from perdure.core import blobs
from perdure.core.codec import decode
from perdure.core.conversation import MESSAGE_PATH, Conversation, appended
from perdure.core.digest import body_of
from perdure.core.entries import STATE_KINDS, Entry, EntryKind
from perdure.core.fold import change_of
from perdure.core.identity import ThreadKey
from perdure.core.ops import Ops
from perdure.core.payload import StateChange, decode_change, encode_body
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
        if entry.kind is EntryKind.MESSAGE_ADDED:
            return [Raw(body_of(key.id, entry))]
        return appended(await self._ops(key, entry), self._path)

    async def _all(self, key: ThreadKey) -> list[bytes]:
        conversation = Conversation(self._path)
        for entry in await self._storage.entries(key, kinds=_KINDS):
            if entry.kind is EntryKind.MESSAGE_ADDED:
                conversation.add(Raw(body_of(key.id, entry)))
            else:
                conversation.follow(await self._ops(key, entry))
        return conversation.messages()

    async def _ops(self, key: ThreadKey, entry: Entry) -> Ops:
        change = change_of(key.id, entry)
        return await self._with_large(key, change) if change.blobs else change.ops

    async def _with_large(self, key: ThreadKey, change: StateChange) -> Ops:
        found = await self._storage.blobs(key, change.blobs)
        bodies = {digest: blobs.checked(digest, payload) for digest, payload in found.items()}
        return decode_change(blobs.resolve(encode_body(change), bodies)).ops
