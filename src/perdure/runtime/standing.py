"""Runs as they stand in the log."""

from __future__ import annotations

from msgspec import Raw
from msgspec.structs import replace

from perdure.core.calls import told
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.runs import Current, decode_ended, decode_resumed, decode_started, end_key, input_key, run_key
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage

_TRIED = (EntryKind.RUN_STARTED, EntryKind.RUN_RESUMED, EntryKind.RUN_FAILED)
_PROGRESS = (EntryKind.STEP_FINISHED, EntryKind.TOOL_FINISHED, EntryKind.PAUSE_DECIDED, EntryKind.SIGNAL_RECEIVED)


class Standing:
    """Finds runs by their entries."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    async def newest(self, row: ThreadRow) -> Current | None:
        """The newest run of a thread."""
        if not row.run:
            return None
        found = await self._storage.entries(row.key, after=row.run - 1, limit=1)
        return await self._whole(row.key, found[0]) if found else None

    async def of(self, row: ThreadRow, run: str) -> Current | None:
        """A run of a thread by its id: nearly always the newest."""
        newest = await self.newest(row)
        if newest is None or newest.started.run == run:
            return newest
        entries = await self._storage.entries(row.key, kinds=(EntryKind.RUN_STARTED,))
        found = [entry for entry in entries if told(row.key.id, entry, decode_started).run == run]
        return await self._whole(row.key, found[0]) if found else None

    async def named(self, key: ThreadKey, name: str) -> Current | None:
        """The run that a key stands for."""
        entry = await self._storage.keyed(key, run_key(name))
        return await self._whole(key, entry) if entry else None

    async def _whole(self, key: ThreadKey, entry: Entry) -> Current:
        started = told(key.id, entry, decode_started)
        current = Current(version=entry.version, started=started, micros=entry.micros, actor=entry.actor)
        end = await self._storage.keyed(key, end_key(started.run))
        if end is None:
            return current
        return replace(current, end=told(key.id, end, decode_ended), end_kind=end.kind)

    async def progressed(self, row: ThreadRow) -> bool:
        """Whether something was recorded since the run was last taken up."""
        newest = await self._storage.headers(row.key, kinds=(*_TRIED, *_PROGRESS), limit=1)
        return bool(newest) and newest[0].kind in _PROGRESS

    async def failure(self, row: ThreadRow) -> tuple[str, str]:
        """Why the run failed last, for people, and its traceback."""
        newest = await self._storage.headers(row.key, kinds=(EntryKind.RUN_FAILED,), limit=1)
        if not newest or newest[0].version < row.run:
            return "", ""
        entries = await self._storage.entries(row.key, after=newest[0].version - 1, limit=1)
        ended = told(row.key.id, entries[0], decode_ended)
        return f"{ended.error}: {ended.text}", ended.traceback

    async def inputs(self, row: ThreadRow, current: Current) -> list[Raw]:
        """The inputs that a run was given anew when it was resumed, oldest first."""
        found: list[Raw] = []
        while entry := await self._storage.keyed(row.key, input_key(current.started.run, len(found) + 1)):
            found.append(told(row.key.id, entry, decode_resumed).input)
        return found
