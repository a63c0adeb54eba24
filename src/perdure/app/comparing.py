"""Comparing points of threads: where they are, what their status was, what past they share."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from perdure.app.parts import Parts
from perdure.core import refs
from perdure.core.checkpoint import MAX_LIMIT, Checkpoint, CheckpointQuery, CheckpointRow
from perdure.core.codec import decode_tagged
from perdure.core.comparison import Comparison, Comparisons, Past, Side, compare, compare_all
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.runs import CANCELLED, FAILED, FINISHED, RUNNING
from perdure.core.seams import Range
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage

FEWEST, MOST = 2, 4
_RUNS = {
    EntryKind.RUN_STARTED: RUNNING, EntryKind.RUN_RESUMED: RUNNING, EntryKind.RUN_FINISHED: FINISHED,
    EntryKind.RUN_FAILED: FAILED, EntryKind.RUN_CANCELLED: CANCELLED,
}  # fmt: skip
_PAGE = 16  # checkpoints that are looked at in one go


class Place(msgspec.Struct, frozen=True):
    """A thread, and a ref in it; None is its newest version."""

    key: ThreadKey
    ref: object = None


class Point(msgspec.Struct, frozen=True):
    """A version of a thread, with what a comparison says of it."""

    row: ThreadRow
    side: Side
    version: int


def check_count(points: Sequence[object]) -> None:
    """Raise `InvalidInputError` for more points than a person can look at, or fewer than can differ."""
    if not FEWEST <= len(points) <= MOST:
        raise InvalidInputError(f"compare takes {FEWEST} to {MOST} points, not {len(points)}")


async def compare_places(parts: Parts, places: Sequence[Place]) -> Comparison | Comparisons:
    """Compare 2 to 4 places, the others with the first."""
    check_count(places)
    points = [await _point(parts, place) for place in places]
    if len(points) == FEWEST:
        return await _pair(parts.storage, *points)
    shared = [await _shared(parts.storage, points[0], other) for other in points[1:]]
    pairs = zip(points[1:], shared, strict=True)
    pasts = [await _past(parts.storage, [points[0], other], common) for other, common in pairs]
    return compare_all([point.side for point in points], pasts, await _past(parts.storage, points, min(shared)))


async def compare_two(parts: Parts, old: Place, new: Place) -> Comparison:
    """Compare two places."""
    return await _pair(parts.storage, await _point(parts, old), await _point(parts, new))


async def _pair(storage: Storage, old: Point, new: Point) -> Comparison:
    past = await _past(storage, [old, new], await _shared(storage, old, new))
    return compare(old.side, new.side, past)


async def _point(parts: Parts, place: Place) -> Point:
    """The version a place means, with its state and status."""
    key, ref = place.key, _text(place.ref)
    row = await parts.storage.thread(key)
    if row is None:
        raise NotFoundError(f"thread {key.id!r}", "save or append to it first")
    version = row.head if ref is None else await parts.points.version(row, ref)
    document = await parts.engine.at(key, version, row.uid)
    if document.root is None:
        raise NotFoundError(f"a state at version {version} of thread {key.id!r}")
    side = Side(
        encoded=document.close(), thread=key.id, user=parts.users.shown(key.user), version=version,
        status=await _status(parts.storage, row, version, ref),
    )  # fmt: skip
    return Point(row, side, version)


def _text(ref: object) -> object:
    return ref.id if isinstance(ref, Checkpoint) else ref


async def _status(storage: Storage, row: ThreadRow, version: int, ref: object) -> str | None:
    """What the checkpoint says that was asked for; else one that names the version; else the newest before it."""
    named = None if ref is None else refs.parse(ref)
    if isinstance(named, refs.AtCheckpoint):
        found = await storage.checkpoint(row.key.namespace, row.key.user, named.id)
        if found is not None:
            return found.mark.status
    said = await _said_later(storage, row, version)
    return said if said is not None else await _said_before(storage, row, version)


async def _said_later(storage: Storage, row: ThreadRow, version: int) -> str | None:
    """The status by which a checkpoint named the version when that was past already."""
    marking = await storage.headers(row.key, kinds=[EntryKind.CHECKPOINT_SAVED])
    if not marking or marking[0].version <= version:
        return None
    rows = await storage.checkpoints(row.key, CheckpointQuery(limit=MAX_LIMIT, left=(Range(0, version),)))
    return next((each.mark.status for each in rows if each.version == version and each.mark.status), None)


async def _said_before(storage: Storage, row: ThreadRow, version: int) -> str | None:
    """The status that the newest checkpoint on the way to the version gave."""
    seams = await storage.seams(row.key)
    query = CheckpointQuery(left=(Range(version, row.head), *seams.left(version)), limit=_PAGE)
    while rows := await storage.checkpoints(row.key, query):
        for each in rows:
            if each.version in (each.entry, version):  # others name an older version than the one they were made at
                return await _since(storage, row, each, version)
        query = msgspec.structs.replace(query, before=rows[-1].mark.id)
    return None


async def _since(storage: Storage, row: ThreadRow, mark: CheckpointRow, version: int) -> str | None:
    """The status of a checkpoint. One that a run saved by itself says how the run stood, which may have ended since."""
    said = decode_tagged(mark.mark.metadata)
    if mark.mark.status is None or not isinstance(said, dict) or "trigger" not in said:
        return mark.mark.status
    newest = await storage.headers(row.key, at=version, kinds=tuple(_RUNS), limit=1)
    passed = newest and newest[0].version > mark.entry
    return _RUNS[newest[0].kind] if passed else mark.mark.status


async def _shared(storage: Storage, one: Point, other: Point) -> int:
    """The last version that two logs have in common, 0 when there is none.

    A chain digest stands for everything up to its entry: equal digests are an equal past, whoever forked from whom.
    """
    low, high = 0, min(one.version, other.version)
    if one.row.uid == other.row.uid:
        return high
    while low < high:
        half = (low + high + 1) // 2
        same = await _chain(storage, one, half) == await _chain(storage, other, half)
        low, high = (half, high) if same else (low, half - 1)
    return low


async def _chain(storage: Storage, point: Point, version: int) -> bytes | None:
    entry = await _entry(storage, point.row.key, version)
    return entry.chain if entry is not None else None


async def _past(storage: Storage, points: Sequence[Point], common: int) -> Past:
    """What the logs share, and with what each goes on up to its point."""
    nexts = [await _entry(storage, point.row.key, common + 1) if point.version > common else None for point in points]
    return Past(common, tuple(nexts))


async def _entry(storage: Storage, key: ThreadKey, version: int) -> Entry | None:
    """The entry of a version, without its payload."""
    found = await storage.headers(key, at=version)
    return found[0] if found else None
