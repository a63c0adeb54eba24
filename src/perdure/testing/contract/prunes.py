"""Prunes as the contract makes them: a log of real states, and records that stand for ranges of it."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.codec import encode
from perdure.core.digest import GENESIS, snapshot_digest
from perdure.core.entries import Entry
from perdure.core.envelope import seal, seal_packed
from perdure.core.identity import ThreadKey
from perdure.core.payload import WholeState, encode_body
from perdure.core.pruning import Composed, Pruning, Record
from perdure.core.writes import Appended, Snapshot, Write
from perdure.storage.contract import Storage
from perdure.testing.contract.rewinding import PRUNED, Diary
from perdure.testing.scribe import THREAD

ALL = CheckpointQuery(limit=1000)


async def planned(
    diary: Diary, *ranges: tuple[int, int], base: int | None = None, blobs: tuple[bytes, ...] = (), **fields: Any
) -> Pruning:
    """A plan that makes one change of each range, and a base at `base`."""
    storage, key = diary.scribe.storage, diary.key
    row = await storage.thread(key)
    assert row is not None
    chains = {0: GENESIS} | {entry.version: entry.chain for entry in await storage.entries(key)}
    records = [_record(diary, low, high, chains, blobs) for low, high in ranges]
    if base is not None:
        whole = WholeState(Raw(encode(diary.states[base])))
        records.insert(0, sealed(row.parent_version, base, chains[base], whole, blobs))
    usual: dict[str, Any] = {"seen": row.head, "records": tuple(records)}
    return Pruning(**(usual | fields))


def _record(diary: Diary, low: int, high: int, chains: dict[int, bytes], blobs: tuple[bytes, ...]) -> Record:
    content = Composed(low, chains[low], diary.change(low, diary.states[high]))
    return sealed(low, high, chains[high], content, blobs)


def sealed(
    low: int, version: int, chain: bytes, content: Composed | WholeState, blobs: tuple[bytes, ...] = ()
) -> Record:
    """A record as storages keep it."""
    payload = seal_packed(encode_body(content))
    whole, digest = isinstance(content, WholeState), snapshot_digest(chain, payload)
    return Record(low=low, version=version, chain=chain, digest=digest, payload=payload, whole=whole, blobs=blobs)


async def pruning(diary: Diary, *ranges: tuple[int, int], base: int | None = None, **fields: Any) -> Write:
    """The write that prunes these ranges."""
    plan = await planned(diary, *ranges, base=base, **fields)
    return diary.scribe.write(diary.key, PRUNED, pruning=plan)


async def prune(diary: Diary, *ranges: tuple[int, int], **fields: Any) -> Appended:
    """Prune them."""
    made = await diary.scribe.storage.append(await pruning(diary, *ranges, **fields))
    diary.states.append(diary.states[-1])
    return made


def without(diary: Diary, *gone: int) -> list[list[int] | None]:
    """What the versions restore to when these are gone."""
    return [None if version in gone else state for version, state in enumerate(diary.states)]


async def said(storage: Storage, key: ThreadKey = THREAD) -> list[object]:
    """What a storage says of a thread that is not derived."""
    return [
        await storage.thread(key),
        await storage.entries(key),
        await storage.seams(key),
        [msgspec.structs.replace(record, blobs=()) for record in await storage.records(key)],
        await storage.checkpoints(key, ALL),
    ]


def derived(diary: Diary, entry: Entry) -> Snapshot:
    """A true whole state of the version of an entry."""
    payload = seal(encode_body(WholeState(Raw(encode(diary.states[entry.version])))))
    digest = snapshot_digest(entry.chain, payload)
    return Snapshot(version=entry.version, chain=entry.chain, digest=digest, payload=payload)
