"""The newest point that really restores: what is damaged on the way to it is skipped, and told."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.points import Points
from perdure.checkpoints.reading import is_where_it_was, line_fits, read_log
from perdure.core import indexing, said
from perdure.core.checkpoint import Checkpoint, CheckpointQuery, CheckpointRow
from perdure.core.codec import decode_tagged
from perdure.core.errors import (
    CheckpointDamagedError,
    DamagedError,
    EntryDamagedError,
    NotFoundError,
    PerdureError,
    ValueDamagedError,
)
from perdure.core.identity import ThreadKey
from perdure.core.pruning import is_blank
from perdure.core.threads import ThreadRow
from perdure.core.verification import Damage, Finder
from perdure.storage.contract import Storage

_PAGE = 50
_LOOKS = 5  # at a thread that others write to


class _Moved(Exception):
    """Something could not be read, and the thread is not where it was."""


class Latest(msgspec.Struct, frozen=True, kw_only=True):
    """The newest intact checkpoint, and what was skipped on the way to it."""

    checkpoint: Checkpoint
    skipped: list[Damage] = []

    def __str__(self) -> str:
        words = f"{self.checkpoint.id} (@{self.checkpoint.version}, {self.checkpoint.kind})"
        return "\n".join([words, *(f"  skipped  {each}" for each in self.skipped)])


class Newest:
    """Looks for intact points of threads."""

    def __init__(self, storage: Storage, points: Points, engine: Engine) -> None:
        self._storage = storage
        self._points = points
        self._engine = engine

    async def find(
        self, row: ThreadRow, *, kind: str | None = None, status: str | None = None
    ) -> tuple[CheckpointRow, list[Damage]]:
        """The newest intact checkpoint of the lineage, with what was skipped; raise `NotFoundError` without one.

        What somebody prunes meanwhile is not damaged: a thread that has moved on is looked at anew, a few times.
        """
        query = CheckpointQuery(kind=kind, status=status, limit=_PAGE)
        for _ in range(_LOOKS):
            try:
                return await self._found(row, query, believes=False)
            except _Moved:
                row = await self._storage.thread(row.key) or row
        return await self._found(row, query, believes=True)

    async def _found(
        self, row: ThreadRow, query: CheckpointQuery, *, believes: bool
    ) -> tuple[CheckpointRow, list[Damage]]:
        finder = Finder(row.key)
        await self._check_head(row, finder)
        async for mark in self._listed(row, query):
            try:
                await self._check(row, mark)
            except (DamagedError, NotFoundError) as exc:
                if not believes and not await is_where_it_was(self._storage, row):
                    raise _Moved from exc
                self._skip(finder, mark, exc)
            else:
                return mark, finder.found
        why = f"; {len(finder.found)} damaged, the newest: {finder.found[0]}" if finder.found else ""
        raise NotFoundError(f"an intact checkpoint of thread {row.key.id!r}", f"run `perdure verify`{why}")

    async def _check_head(self, row: ThreadRow, finder: Finder) -> None:
        """A directory line that does not fit its log may hide newer points."""
        if not await line_fits(self._storage, row):
            finder.add("directory line", "does not name the newest entry: newer points may be hidden", derived=True)

    async def _listed(self, row: ThreadRow, query: CheckpointQuery) -> AsyncIterator[CheckpointRow]:
        left = tuple((await self._storage.seams(row.key)).left(row.head))
        query = msgspec.structs.replace(query, left=left)
        while page := await self._storage.checkpoints(row.key, query):
            for mark in page:
                yield mark
            query = msgspec.structs.replace(query, before=page[-1].mark.id)

    async def _check(self, row: ThreadRow, mark: CheckpointRow) -> None:
        """Raise unless the index tells the truth about a checkpoint and its state can be read."""
        name = mark.mark.id
        entries = await read_log(self._storage, row.key, mark.entry - 1, 1)
        records = await self._storage.records(row.key) if any(map(is_blank, entries)) else []
        found = said.read(row.key.id, entries, records).marks.get(mark.entry)
        if found is None or indexing.differs(row, entries[0], found, mark):
            raise CheckpointDamagedError(name, row.key.id)
        document = await self._engine.at(row.key, mark.version, row.uid)
        if document.root is None:
            if await self._points.states(row, at=mark.version):
                raise CheckpointDamagedError(name, row.key.id)
            return  # a question that was asked before there was a state
        try:
            decode_tagged(document.close())
        except ValueDamagedError as exc:
            raise CheckpointDamagedError(name, row.key.id) from exc

    def _skip(self, finder: Finder, mark: CheckpointRow, exc: PerdureError) -> None:
        finder.add(f"checkpoint {mark.mark.id}", f"cannot be restored: {exc}", mark.version)
        telemetry, fields = self._engine.telemetry, {"thread": mark.thread_id, "checkpoint": mark.mark.id}
        telemetry.log("warning", "a damaged checkpoint was skipped", **fields, error=str(exc))
        telemetry.count("perdure.checkpoints.damaged")

    async def advised(self, key: ThreadKey, error: DamagedError) -> DamagedError:
        """The same error, naming the newest intact point where there is one."""
        try:
            if isinstance(error, EntryDamagedError) and error.intact is None:
                return await self._before(key, error)
            row = await self._storage.thread(key)
            if row is not None and isinstance(error, CheckpointDamagedError) and error.intact is None:
                mark, _ = await self.find(row)
                return CheckpointDamagedError(error.checkpoint_id, error.thread_id, intact=mark.mark.id)
        except PerdureError:
            pass  # there is nothing better to say than what is known
        return error

    async def _before(self, key: ThreadKey, error: EntryDamagedError) -> DamagedError:
        """The newest state before a damaged entry."""
        row = await self._storage.thread(key)
        states = await self._points.states(row, at=error.version - 1) if row else []
        if not states:
            return error
        await self._engine.at(key, states[0].version)
        return EntryDamagedError(error.thread_id, error.version, error.reason, intact=states[0].version)
