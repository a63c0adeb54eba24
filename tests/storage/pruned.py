"""Prunes at the level of a storage: records that could be true, and everything a storage then says of a thread."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.codec import encode
from perdure.core.digest import GENESIS, snapshot_digest
from perdure.core.entries import EntryKind
from perdure.core.envelope import seal_packed
from perdure.core.identity import ThreadKey
from perdure.core.ops import Set
from perdure.core.payload import WholeState, encode_body
from perdure.core.pruning import Composed, Pruning, Record
from perdure.core.writes import Appended, Write
from perdure.storage.contract import Storage
from perdure.testing.scribe import THREAD, Scribe

LONG = "as it was " * 100  # long enough to be compressed


async def chains(storage: Storage, key: ThreadKey) -> dict[int, bytes]:
    """The chain digest of every version."""
    return {0: GENESIS} | {entry.version: entry.chain for entry in await storage.entries(key)}


def record_of(low: int, high: int, known: dict[int, bytes], *, whole: bool = False) -> Record:
    """A record for the changes after `low` up to `high`."""
    state = Raw(encode({"version": high, "text": LONG}))
    content = WholeState(state) if whole else Composed(low, known[low], [Set((), state)])
    payload = seal_packed(encode_body(content))
    chain = known[high]
    return Record(
        low=low, version=high, chain=chain, digest=snapshot_digest(chain, payload), payload=payload, whole=whole
    )


async def planned(
    storage: Storage, key: ThreadKey, *ranges: tuple[int, int], base: int | None = None, **fields: Any
) -> Pruning:
    """A plan for these ranges, the first of which is a base when `base` names its end."""
    row, known = await storage.thread(key), await chains(storage, key)
    assert row is not None
    records = [record_of(low, high, known) for low, high in ranges]
    if base is not None:
        records.insert(0, record_of(row.parent_version, base, known, whole=True))
    usual: dict[str, Any] = {"seen": row.head, "records": tuple(records)}
    return Pruning(**(usual | fields))


async def pruning(
    scribe: Scribe, *ranges: tuple[int, int], key: ThreadKey = THREAD, base: int | None = None, **fields: Any
) -> Write:
    """The write that prunes these ranges."""
    plan = await planned(scribe.storage, key, *ranges, base=base, **fields)
    return scribe.write(key, EntryKind.RANGE_PRUNED, pruning=plan)


async def prune(scribe: Scribe, *ranges: tuple[int, int], **fields: Any) -> Appended:
    """Prune them."""
    return await scribe.storage.append(await pruning(scribe, *ranges, **fields))


async def told(storage: Storage, key: ThreadKey) -> list[object]:
    """Everything a storage says of a thread."""
    row = await storage.thread(key)
    versions = range(row.head + 1) if row else ()
    return [
        row,
        await storage.entries(key),
        await storage.headers(key, limit=1000),
        [await storage.restore(key, at=version) for version in (None, *versions)],
        [await storage.restore(key, after=version) for version in versions],
        await storage.seams(key),
        await storage.records(key),
        await storage.forks(key),
        await storage.checkpoints(key, CheckpointQuery(limit=1000)),
        msgspec.structs.replace(await storage.sizes(key), disk_bytes=0),
    ]


async def lasting(storage: Storage, key: ThreadKey) -> list[object]:
    """The part of it that is not derived."""
    return [
        await storage.thread(key),
        await storage.entries(key),
        await storage.seams(key),
        await storage.records(key),
        await storage.checkpoints(key, CheckpointQuery(limit=1000)),
    ]
