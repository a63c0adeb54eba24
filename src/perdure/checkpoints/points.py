"""Finding the version a ref means."""

from __future__ import annotations

from perdure.checkpoints.reading import read_log
from perdure.core import refs
from perdure.core.checkpoint import CheckpointQuery
from perdure.core.codec import decode_tagged
from perdure.core.digest import body_of
from perdure.core.entries import FAILED_KINDS, STATE_KINDS, Entry, EntryKind
from perdure.core.errors import EntryDamagedError, NotFoundError
from perdure.core.fold import change_of
from perdure.core.identity import ThreadKey
from perdure.core.ports import Clock
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage

_STATES = tuple(STATE_KINDS)
_ERROR = "error"


class Points:
    """Resolves refs on a storage."""

    def __init__(self, storage: Storage, clock: Clock) -> None:
        self._storage = storage
        self._clock = clock

    async def version(self, row: ThreadRow, ref: object) -> int:
        """The version `ref` means in this thread; raise `NotFoundError` when there is no such point."""
        parsed = refs.parse(ref)
        if isinstance(parsed, refs.AtVersion):
            return await self._in_range(row, parsed.version)
        if isinstance(parsed, refs.Back):
            return await self._back(row, parsed.steps)
        if isinstance(parsed, refs.AtCheckpoint):
            return await self._checkpoint(row, parsed.id)
        if isinstance(parsed, refs.AtTime):
            return await self._until(row, parsed.micros, ref)
        if isinstance(parsed, refs.Ago):
            return await self._until(row, self._clock.now() - parsed.micros, ref)
        if isinstance(parsed, refs.AtTag):
            return await self._tag(row, parsed.name)
        return await self._before_error(row)

    async def _in_range(self, row: ThreadRow, version: int) -> int:
        if not 1 <= version <= row.head:
            await self._check_head(row)
            raise _absent(row, f"version {version}", f"its versions are 1 to {row.head}")
        return version

    async def _check_head(self, row: ThreadRow) -> None:
        """Before something is called absent: a directory line that does not fit its log must not hide it."""
        newest = await self._storage.headers(row.key)
        if row.head and (not newest or newest[0].chain != row.head_digest):
            raise EntryDamagedError(row.key.id, row.head, "is not what the directory says it is")

    async def _states(
        self, key: ThreadKey, at: int | None = None, until: int | None = None, limit: int = 1
    ) -> list[Entry]:
        return await self._storage.headers(key, at=at, until=until, kinds=_STATES, limit=limit)

    async def _back(self, row: ThreadRow, steps: int) -> int:
        found = await self._states(row.key, limit=steps)
        if len(found) < steps:
            raise _absent(row, f"version @-{steps}", f"its state changed {len(found)} times")
        return found[-1].version

    async def _until(self, row: ThreadRow, micros: int, ref: object) -> int:
        found = await self._states(row.key, until=micros)
        if not found:
            raise _absent(row, f"a version at {ref}", "it is older than the first state")
        return found[0].version

    async def _checkpoint(self, row: ThreadRow, checkpoint_id: str) -> int:
        """The index says where to look, and the entry there says whether that is true: the log is what counts."""
        found = await self._storage.checkpoint(row.key.namespace, row.key.user, checkpoint_id)
        entry = found.entry if found is not None and found.thread_id == row.key.id else 0
        marked = await self._marked(row, checkpoint_id, entry - 1, 1) if entry else None
        marked = marked or await self._marked(row, checkpoint_id, 0, None)
        if marked is None:
            await self._check_head(row)
            raise _absent(row, f"checkpoint {checkpoint_id}")
        return marked

    async def _marked(self, row: ThreadRow, checkpoint_id: str, after: int, limit: int | None) -> int | None:
        """The version that a checkpoint in these entries means."""
        entries = await read_log(self._storage, row.key, after, limit)
        if limit is None and (entries[-1].version if entries else 0) != row.head:
            raise EntryDamagedError(row.key.id, len(entries) + 1, "is missing")
        for entry in entries:
            if entry.kind in STATE_KINDS:
                mark = change_of(row.key.id, entry).mark
                if mark is not None and mark.id == checkpoint_id:
                    return entry.version if mark.version is None else mark.version
        return None

    async def _tag(self, row: ThreadRow, name: str) -> int:
        tags = await self._storage.entries(row.key, kinds=[EntryKind.CHECKPOINT_TAGGED])
        for entry in reversed(tags):
            payload = decode_tagged(body_of(row.key.id, entry))
            if payload.get("name") == name:
                return int(payload["version"])
        raise _absent(row, f"tag {name!r}")

    async def _before_error(self, row: ThreadRow) -> int:
        failed = await self._storage.headers(row.key, kinds=tuple(FAILED_KINDS))
        marked = await self._storage.checkpoints(row.key, CheckpointQuery(status=_ERROR, limit=1))
        limit = max([entry.version for entry in failed] + [mark.entry for mark in marked], default=None)
        if limit is None:
            raise _absent(row, "an error", "so there is no point before one")
        return await self._newest_before(row, limit)

    async def _newest_before(self, row: ThreadRow, limit: int) -> int:
        for mark in await self._storage.checkpoints(row.key, CheckpointQuery(limit=1000)):
            if mark.entry < limit and mark.mark.status != _ERROR:
                return mark.version
        states = await self._states(row.key, at=limit - 1)
        if not states:
            raise _absent(row, "a version before the newest error")
        return states[0].version


def _absent(row: ThreadRow, what: str, advice: str = "") -> NotFoundError:
    return NotFoundError(f"{what} of thread {row.key.id!r}", advice)
