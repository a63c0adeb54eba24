"""The messages of a thread."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from perdure.core import blobs
from perdure.core.codec import decode
from perdure.core.conversation import MESSAGE_PATH, Conversation
from perdure.core.digest import body_of
from perdure.core.entries import STATE_KINDS, EntryKind
from perdure.core.fold import change_of
from perdure.core.identity import ThreadKey
from perdure.core.payload import decode_change, encode_body
from perdure.core.steps import Path
from perdure.storage.contract import Storage

_KINDS = (*STATE_KINDS, EntryKind.MESSAGE_ADDED)


class Messages:
    """Reads conversations from logs."""

    def __init__(self, storage: Storage, path: Path = MESSAGE_PATH) -> None:
        self._storage = storage
        self._path = path

    async def list(self, key: ThreadKey, limit: int | None = None) -> list[Any]:
        """Everything that was said, oldest first; with `limit`, the newest that many."""
        conversation = Conversation(self._path)
        for entry in await self._storage.entries(key, kinds=_KINDS):
            if entry.kind is EntryKind.MESSAGE_ADDED:
                conversation.add(Raw(body_of(key.id, entry)))
            else:
                change = change_of(key.id, entry)
                conversation.follow(await self._with_large(key, change) if change.blobs else change.ops)
        said = conversation.messages()
        return [decode(each) for each in (said if limit is None else said[len(said) - min(limit, len(said)) :])]

    async def _with_large(self, key: ThreadKey, change: Any) -> Any:
        found = await self._storage.blobs(key, change.blobs)
        bodies = {digest: blobs.checked(digest, payload) for digest, payload in found.items()}
        return decode_change(blobs.resolve(encode_body(change), bodies)).ops
