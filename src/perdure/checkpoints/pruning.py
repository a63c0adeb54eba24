"""Pruning threads by a policy: what goes and why, and then doing it, one whole write after the other."""

from __future__ import annotations

import msgspec

from perdure.checkpoints.composing import Composer, Made
from perdure.checkpoints.engine import Engine
from perdure.checkpoints.logs import Log, read
from perdure.checkpoints.requests import Request
from perdure.checkpoints.travel import Travel
from perdure.core import cuts
from perdure.core.blobs import referred
from perdure.core.codec import encode
from perdure.core.cuts import Cut
from perdure.core.digest import body_of
from perdure.core.entries import EntryKind
from perdure.core.envelope import unseal
from perdure.core.errors import NotFoundError, PlanOutdatedError, VersionConflictError
from perdure.core.pruning import Pruning, Record, is_blank, standing_for
from perdure.core.retention import Plan, Point
from perdure.core.retention_policy import Retention
from perdure.core.seams import within
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage

_TRIES = 5  # a plan that others made outdated is made again


class Pruned(msgspec.Struct, frozen=True, kw_only=True):
    """What a prune did to a thread."""

    thread_id: str
    points: int = 0  # checkpoints that are gone
    entries: int = 0  # whose payload is gone
    bytes: int = 0  # of payloads, less what stands for them now

    def plus(self, other: Pruned) -> Pruned:
        """Both together."""
        return Pruned(
            thread_id=self.thread_id, points=self.points + other.points, entries=self.entries + other.entries,
            bytes=self.bytes + other.bytes,
        )  # fmt: skip


class Pruner:
    """Prunes threads of a storage."""

    def __init__(self, storage: Storage, engine: Engine, travel: Travel) -> None:
        self._storage = storage
        self._engine = engine
        self._travel = travel

    async def points(self, row: ThreadRow, *, weigh: bool) -> list[Point]:
        """What retention decides about in a thread; weighing the points takes reading all of it."""
        return (await read(self._storage, self._travel, row, payloads=weigh)).points()

    async def apply(self, row: ThreadRow, plan: Plan, policy: Retention, actor: str | None = None) -> Pruned:
        """Drop the points of this thread that a plan names, and what only they needed.

        Points that were made or named since are not touched.
        """
        doomed = {each.point.id: each.point.version for each in plan.dropped if each.point.thread == row.uid}
        return await self.drop(row, doomed, policy, actor)

    async def drop(self, row: ThreadRow, doomed: dict[str, int], policy: Retention, actor: str | None = None) -> Pruned:
        """Drop these points, by id with their versions, and what only they needed; `policy` is why."""
        total = Pruned(thread_id=row.key.id)
        while doomed:
            done = await self._patiently(row, doomed, policy, actor)
            if done is None:
                break
            total = total.plus(done)
        return total

    async def _patiently(
        self, row: ThreadRow, doomed: dict[str, int], policy: Retention, actor: str | None
    ) -> Pruned | None:
        for left in range(_TRIES, 0, -1):
            now = await self._storage.thread(row.key)
            if now is None or now.uid != row.uid:
                return None
            try:
                return await self._once(await read(self._storage, self._travel, now), doomed, policy, actor)
            except (NotFoundError, PlanOutdatedError, VersionConflictError):  # somebody wrote to it, or deleted it
                if left == 1:
                    raise
        return None

    async def _once(self, log: Log, doomed: dict[str, int], policy: Retention, actor: str | None) -> Pruned | None:
        points = log.points()
        dropped = [point for point in points if point.id in doomed and not point.held]
        held = {point.id for point in points if point.held}
        ranges = _ranges(log, points, {at: version for at, version in doomed.items() if at not in held})
        made = await self._made(log, ranges, policy)
        marks = [point for point in dropped if not point.id.startswith("@")]
        if not made and not marks:
            return None
        await self._write(log, made, marks, policy, actor)
        return _counted(log, [each.record for each in made], marks)

    async def _made(self, log: Log, ranges: list[Cut], policy: Retention) -> list[Made]:
        """The records that are worth it, and those of rewinds whose target goes with them."""
        keep = policy.messages == "keep"
        made = await Composer(self._storage, log, keep_messages=keep, limits=self._engine.limits).make(ranges)
        worth = {each.record.version for each in made if _shrinks(log, each.record)}
        chosen = [cut for cut in ranges if cut.high in worth]
        alone = _stranded(log, chosen)
        if len(chosen) == len(ranges) and not alone:
            return made
        return await Composer(self._storage, log, keep_messages=keep, limits=self._engine.limits).make(
            sorted([*chosen, *alone], key=lambda cut: cut.high)
        )

    async def _write(
        self, log: Log, made: list[Made], marks: list[Point], policy: Retention, actor: str | None
    ) -> None:
        records = tuple(each.record for each in made)
        large = {blob.digest: blob for each in made for blob in each.large}
        blank = _marking(log, {point.entry for point in marks})
        pruning = Pruning(
            seen=log.row.head,
            first=min((entry.version for entry in log.own if entry.changes_state), default=0),
            records=records,
            blank=blank,
            unmarked=tuple(point.entry for point in marks),
            uses=_uses(log, records, blank),
        )
        body = encode(
            {
                "policy": policy.to_text(),
                "dropped": [point.id for point in marks],
                "records": [[each.low, each.version, each.chain, each.digest] for each in records],
            }
        )
        await self._engine.prune(log.row, body, pruning, tuple(large.values()), Request(actor=actor))


def _ranges(log: Log, points: list[Point], dropped: dict[str, int]) -> list[Cut]:
    """The ranges to make one."""
    kept = [point.version for point in points if point.id not in dropped]
    kept += [*log.tags.values(), *log.forks, *log.loaded, *log.pauses()]
    return cuts.cuts(log.steps, kept, dropped.values(), is_fork=log.row.parent_uid is not None)


def _stranded(log: Log, chosen: list[Cut]) -> list[Cut]:
    """Rewinds outside the ranges to a version inside one: from then on they tell by themselves what was said."""
    inside = {state for cut in chosen for state in cut.states}
    lows = {step.high: step.low for step in log.steps}
    return [
        Cut(lows[rewind.entry], rewind.entry, (rewind.entry,))
        for rewind in log.rewinds
        if rewind.entry in lows
        and rewind.entry not in inside
        and not standing_for(log.records, rewind.entry)
        and any(cut.low < rewind.to < cut.high for cut in chosen)
    ]


def _shrinks(log: Log, record: Record) -> bool:
    return len(record.payload) < _weight(log, record)


def _weight(log: Log, record: Record) -> int:
    """The bytes that a record stands for."""
    inside = [entry for entry in log.own if record.low < entry.version <= record.version and entry.changes_state]
    older = [each for each in log.records if record.low < each.version <= record.version]
    return sum(len(each.payload or b"") for each in (*inside, *older))


def _marking(log: Log, entries: set[int]) -> tuple[int, ...]:
    """Those of these entries that only mark a version: without their checkpoint they say nothing."""
    return tuple(
        entry.version
        for entry in log.own
        if entry.version in entries and entry.kind is EntryKind.CHECKPOINT_SAVED and not is_blank(entry)
    )


def _uses(log: Log, records: tuple[Record, ...], blank: tuple[int, ...]) -> dict[bytes, int]:
    """Which large values the thread itself still refers to, and from which version on."""
    name, start = log.row.key.id, log.row.parent_version
    ordered = sorted(records, key=lambda record: record.version)
    standing = [each for each in log.records if each.version > start and standing_for(ordered, each.version) is None]
    bodies = [(each.version, unseal(each.payload)) for each in (*standing, *ordered)]
    for entry in log.own:
        pruned = is_blank(entry) or entry.version in blank
        if not pruned and not (entry.changes_state and standing_for(ordered, entry.version)):
            bodies.append((entry.version, body_of(name, entry)))
    uses: dict[bytes, int] = {}
    for version, body in sorted(bodies, key=lambda each: each[0]):
        for digest in referred(body):
            uses.setdefault(digest, version)
    return uses


def _counted(log: Log, records: list[Record], marks: list[Point]) -> Pruned:
    ranges = [record.gone for record in records]
    found = [entry for entry in log.own if entry.changes_state and within(ranges, entry.version)]
    entries = [entry for entry in found if not is_blank(entry)]
    freed = sum(_weight(log, record) - len(record.payload) for record in records)
    return Pruned(thread_id=log.row.key.id, points=len(marks), entries=len(entries), bytes=freed)
