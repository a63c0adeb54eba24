"""Time travel: forks, rewinds, tags and marks on points of a thread, and the view of everything that happened."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Literal, Self

import msgspec

from perdure.app.handle import Handle
from perdure.core.checkpoint import MAX_LIMIT, Checkpoint, check_limit
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, NotFoundError, UnfinishedRunError
from perdure.core.identity import ThreadKey, check_id, check_label
from perdure.core.runs import WAKING
from perdure.core.threads import ThreadRow

if TYPE_CHECKING:
    from perdure.app.branches import Branch
    from perdure.checkpoints.travel import Rewinding, TimelineItem

OnFailure = Literal["keep", "rewind"]
REWIND = "rewind"  # the kind of the checkpoint that a rewind makes


class TimeTravel(Handle):
    """The part of a thread that goes to other points of it."""

    async def fork(self, ref: object = None, *, to: str) -> Self:
        """Make a thread `to` whose history is this one's up to `ref` (default: now). Nothing is copied."""
        key = await self._found()
        row = await self._row(key)
        version = row.head if ref is None else await self._parts.points.version(row, ref)
        target = ThreadKey(key.namespace, key.user, check_id(to, "the thread id"))
        line = ThreadRow(
            key=target, uid=self._parts.engine.ids.sortable(), name=row.name, agent=row.agent, tags=row.tags,
            metadata=row.metadata, created=self._parts.engine.clock.now(),
        )  # fmt: skip
        await self._parts.storage.fork(key, version, line)
        self._parts.engine.forget(target)
        return type(self)(self._parts, target, actor=self._actor, task=self._task)

    async def tree(self) -> Branch:
        """The tree of forks that this thread is part of: who began where. `print` draws it."""
        from perdure.app.branches import tree

        return await tree(self._parts.storage, await self._found())

    async def rewind(
        self, ref: object, *, dry_run: bool = False, note: str | None = None, key: str | None = None
    ) -> Rewinding:
        """Go back to the state at `ref`, and return what is left behind; with `dry_run`, only that.

        It is an entry like any other: nothing is erased, and `redo` takes it back. What tools did outside stays done;
        the answer names them. Raises `VersionConflictError` when the state changed since this handle saw it, and
        `UnfinishedRunError` under a run that works or waits: it would go on as if what it wrote were still there.
        """
        row = await self._row(await self._found())
        version = await self._parts.points.version(row, ref)
        preview = await self._parts.travel.preview(row, version)
        if dry_run:
            return preview
        await self._refuse_under_a_run(row)
        point = await self._go(row, version, note, key)
        return msgspec.structs.replace(preview, checkpoint=point)

    async def redo(self) -> Rewinding:
        """Take the newest rewind back; raise `NotFoundError` when the state changed after it, or there was none."""
        row = await self._row(await self._found())
        await self._refuse_under_a_run(row)
        version = await self._parts.travel.last_rewind(row)
        preview = await self._parts.travel.preview(row, version)
        return msgspec.structs.replace(preview, checkpoint=await self._go(row, version, "redo", None))

    async def _refuse_under_a_run(self, row: ThreadRow) -> None:
        """What a run wrote is found in the log when it goes on, and not written again: a rewind would take it away."""
        if not row.run or row.status not in WAKING:
            return
        current = await self._parts.running.runtime.standing.newest(row)
        if current is not None and not current.is_over:
            raise UnfinishedRunError(self.id, current.started.run, row.status)

    async def _go(self, row: ThreadRow, version: int, note: str | None, key: str | None) -> str | None:
        mark = self._mark(REWIND, None, note, {"to": version})
        mark = msgspec.structs.replace(mark, parent=await self._parts.travel.parent_of(row, version))
        wanted = self._expected(None) or row.state_version
        saved = await self._parts.engine.rewind(row, version, wanted, self._request(mark, key))
        self._saw(saved, wanted)
        made = saved.appended.checkpoint
        return made.mark.id if made else None

    async def checkpoint(
        self,
        ref: object = None,
        *,
        kind: str = "manual",
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
        key: str | None = None,
    ) -> Checkpoint:
        """Make a checkpoint of a version that is there (default: the newest state), and return it."""
        row = await self._row(await self._found())
        version = row.state_version if ref is None else await self._parts.points.version(row, ref)
        if version == 0:
            raise NotFoundError(f"a state of thread {self.id!r}", "save one first")
        request = self._request(self._mark(kind, status, note, metadata), key)
        done = await self._parts.engine.mark(row, version, request)
        if done.checkpoint is None:
            raise InvalidInputError("the write this key stands for made no checkpoint")
        return done.checkpoint.public(self.user)

    async def tag(self, ref: object, name: str) -> int:
        """Give a point a name (`@tag:name`), and return its version. A point with a tag is never pruned."""
        row = await self._row(await self._found())
        version = await self._parts.points.version(row, ref)
        body = {"name": check_id(name, "the tag"), "version": version}
        await self._tell(row, EntryKind.CHECKPOINT_TAGGED, body, names=version)
        return version

    async def untag(self, name: str) -> None:
        """Take a tag away; raise `NotFoundError` when there is none of this name."""
        row = await self._row(await self._found())
        if check_id(name, "the tag") not in await self._parts.travel.tags(row):
            raise NotFoundError(f"tag {name!r} of thread {self.id!r}")
        await self._tell(row, EntryKind.CHECKPOINT_TAGGED, {"name": name, "version": None})

    async def tagged(self) -> dict[str, int]:
        """The tags of points, and the version each names."""
        return await self._parts.travel.tags(await self._row(await self._found()))

    async def clear(self, checkpoint: Checkpoint | str) -> None:
        """Say that a checkpoint is no longer needed: retention may drop it, whatever its kind would keep it for."""
        row = await self._row(await self._found())
        name = checkpoint.id if isinstance(checkpoint, Checkpoint) else check_label(checkpoint, "checkpoint") or ""
        await self._parts.points.version(row, name)
        await self._tell(row, EntryKind.CHECKPOINT_CLEARED, {"id": name.removeprefix("@")})

    async def _tell(
        self, row: ThreadRow, kind: EntryKind, body: Mapping[str, object], names: int | None = None
    ) -> None:
        await self._parts.engine.add(row, kind, encode(body), self._request(None, None), names)

    @asynccontextmanager
    async def operation(self, name: str, *, on_failure: OnFailure = "keep") -> AsyncGenerator[Checkpoint]:
        """A point to go back to around something risky: kept until the operation completed.

        When the block raises, the point stays, or with `on_failure="rewind"` the thread is rewound to it; the error
        goes on to the caller either way.
        """
        from perdure.core.vocabulary import one_of

        one_of(on_failure, ("keep", "rewind"), "on_failure", InvalidInputError)
        point = await self.checkpoint(kind="pre_operation", note=check_id(name, "the operation"))
        try:
            yield point
        except BaseException:
            if on_failure == "rewind":
                self._seen = None  # what the block wrote, through whichever handle, is left behind
                await self.rewind(point, note=f"{name} failed")
            raise
        await self.clear(point)

    async def timeline(self, after: int = 0, limit: int | None = None) -> list[TimelineItem]:
        """Everything that happened after a version, oldest first: who, when, what kind, note, size."""
        row = await self._row(await self._found())
        if type(after) is not int or after < 0:
            raise InvalidInputError(f"after must be a version (an int from 0 on), not {after!r}")
        return await self._parts.travel.timeline(row, after, MAX_LIMIT if limit is None else check_limit(limit))
