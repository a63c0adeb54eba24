"""Finding the version a ref means."""

from __future__ import annotations

from itertools import islice

from perdure.checkpoints.reading import is_where_it_was, line_fits, read_log
from perdure.core import refs
from perdure.core.checkpoint import MAX_LIMIT, Checkpoint, CheckpointMark, CheckpointQuery
from perdure.core.codec import decode_tagged
from perdure.core.digest import body_of
from perdure.core.entries import FAILED_KINDS, STATE_KINDS, Entry, EntryKind
from perdure.core.errors import EntryDamagedError, NotFoundError
from perdure.core.fold import change_of, kept_mark, mark_of
from perdure.core.ports import Clock
from perdure.core.pruning import is_blank
from perdure.core.seams import Range, within
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
        """The version `ref` means in this thread; raise `NotFoundError` when there is no such point.

        A version and a checkpoint mean what they say; everything else follows the lineage, past what was rewound.
        """
        parsed = refs.parse(ref.id if isinstance(ref, Checkpoint) else ref)
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
        if not await line_fits(self._storage, row):
            raise EntryDamagedError(row.key.id, row.head, "is not what the directory says it is")

    async def states(
        self, row: ThreadRow, at: int | None = None, until: int | None = None, limit: int = 1
    ) -> list[Entry]:
        """The newest entries of the lineage that changed the state and can be restored, newest first.

        They are as of the head that the line names, whatever is written meanwhile.
        """
        top, seams = row.head if at is None else min(at, row.head), await self._storage.seams(row.key)
        left = seams.left(row.head)
        most = MAX_LIMIT if left or seams.gone else limit
        found = await self._storage.headers(row.key, at=top, until=until, kinds=_STATES, limit=most)
        kept = (entry for entry in found if not seams.is_gone(entry.version) and not within(left, entry.version))
        return list(islice(kept, limit))

    async def _back(self, row: ThreadRow, steps: int) -> int:
        found = await self.states(row, limit=steps)
        if len(found) < steps:
            raise _absent(row, f"version @-{steps}", f"its state changed {len(found)} times")
        return found[-1].version

    async def _until(self, row: ThreadRow, micros: int, ref: object) -> int:
        found = await self.states(row, until=micros)
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
        is_short = limit is None and (entries[-1].version if entries else 0) < row.head
        if is_short and await is_where_it_was(self._storage, row):
            raise EntryDamagedError(row.key.id, len(entries) + 1, "is missing")
        for entry in entries:
            mark = await self._mark_of(row, entry)
            if mark is not None and mark.id == checkpoint_id:
                return entry.version if mark.version is None else mark.version
        return None

    async def _mark_of(self, row: ThreadRow, entry: Entry) -> CheckpointMark | None:
        """The checkpoint that an entry carries; of a pruned one, what its record kept."""
        if entry.kind is EntryKind.CHECKPOINT_SAVED and not is_blank(entry):
            return mark_of(row.key.id, entry)
        if entry.kind not in STATE_KINDS:
            return None
        if not is_blank(entry):
            return change_of(row.key.id, entry).mark
        records = await self._storage.records(row.key)
        return next((kept_mark(row.key.id, each) for each in records if each.version == entry.version), None)

    async def _tag(self, row: ThreadRow, name: str) -> int:
        tags = await self._storage.entries(row.key, kinds=[EntryKind.CHECKPOINT_TAGGED])
        for entry in reversed(tags):
            payload = decode_tagged(body_of(row.key.id, entry))
            if payload.get("name") == name and payload["version"] is None:
                break  # it was taken away
            if payload.get("name") == name:
                return int(payload["version"])
        raise _absent(row, f"tag {name!r}")

    async def _before_error(self, row: ThreadRow) -> int:
        left = tuple((await self._storage.seams(row.key)).left(row.head))
        most = MAX_LIMIT if left else 1
        found = await self._storage.headers(row.key, at=row.head, kinds=tuple(FAILED_KINDS), limit=most)
        failed = [entry for entry in found if not within(left, entry.version)][:1]
        marked = await self._storage.checkpoints(row.key, CheckpointQuery(status=_ERROR, limit=1, left=left))
        limit = max([entry.version for entry in failed] + [mark.entry for mark in marked], default=None)
        if limit is None:
            raise _absent(row, "an error", "so there is no point before one")
        return await self._newest_before(row, limit, left)

    async def _newest_before(self, row: ThreadRow, limit: int, left: tuple[Range, ...]) -> int:
        for mark in await self._storage.checkpoints(row.key, CheckpointQuery(limit=1000, left=left)):
            if mark.entry < limit and mark.mark.status != _ERROR:
                return mark.version
        states = await self.states(row, at=limit - 1)
        if not states:
            raise _absent(row, "a version before the newest error")
        return states[0].version


def _absent(row: ThreadRow, what: str, advice: str = "") -> NotFoundError:
    return NotFoundError(f"{what} of thread {row.key.id!r}", advice)
