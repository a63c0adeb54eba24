"""The keys of a store that sign exports: its own, and those of other stores whose files it takes as its own."""

from __future__ import annotations

from perdure.app.clock import SystemRandomness
from perdure.core.errors import InvalidInputError, NotFoundError, StorageReadOnlyError
from perdure.core.export_keys import KEY_BYTES, key_id
from perdure.storage.contract import Storage

_PREFIX = "export.key."
_OWN = _PREFIX + "own"


async def own_key(storage: Storage) -> bytes:
    """The key with which this store signs, made at the first use."""
    known = (await storage.kept(_PREFIX)).get(_OWN)
    if known is not None:
        return known
    try:
        return await storage.keep(_OWN, SystemRandomness.bytes(KEY_BYTES))
    except StorageReadOnlyError as exc:
        told = "this store has no key to sign exports with, and it is read-only: export without a signature"
        raise InvalidInputError(f"{told} (sign=False, --unsigned), or once with the right to write") from exc


async def all_keys(storage: Storage) -> dict[str, bytes]:
    """The keys whose signatures this store believes, by their ids, its own first."""
    kept = await storage.kept(_PREFIX)
    own = kept.pop(_OWN, None)
    return {key_id(key): key for key in (*((own,) if own else ()), *kept.values())}


async def add_key(storage: Storage, key: bytes) -> str:
    """Believe the signatures of another store from now on, and return the id of its key."""
    name = key_id(key)
    if name not in await all_keys(storage):
        await storage.keep(_PREFIX + name, key)
    return name


async def remove_key(storage: Storage, name: str) -> None:
    """Believe a key no longer. The store's own is replaced: what it signed so far is then a stranger's.

    Raises `NotFoundError` when there is no key of this id.
    """
    kept = await storage.kept(_PREFIX)
    stored = next((place for place, key in kept.items() if key_id(key) == name), None)
    if stored is None:
        raise NotFoundError(f"key {name!r}", "`perdure key list URL` names those that this store believes")
    await storage.discard(stored)
