"""The state of a thread as a run changes it: every write is found again, so that resuming does not double it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from perdure.checkpoints.requests import Request, Saved
from perdure.core.calls import LOAD
from perdure.core.changes import Change
from perdure.core.checkpoint import CheckpointMark, check_metadata
from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.errors import LeaseLostError, NotFoundError, RunDivergedError, RunFinishedError
from perdure.core.identity import check_id, check_label
from perdure.core.payload import encode_body
from perdure.core.steps import Step
from perdure.runtime.scope import state_was_read
from perdure.runtime.written import asked_for

if TYPE_CHECKING:
    from perdure.core.document import Document
    from perdure.runtime.journal import Journal
    from perdure.runtime.scope import Scope
    from perdure.runtime.triggering import Triggering
    from perdure.runtime.written import Put

Make = Callable[[Request], Awaitable[Saved]]
PathLike = str | tuple[Step, ...]
Checkpointed = bool | CheckpointMark | None  # a mark: one that a trigger asks for, see `triggering.turned`
_ABSENT: Any = object()


class Writing:
    """The part of a run that reads and writes the state."""

    journal: Journal
    over: bool
    resumed: bool
    accept: bool
    triggering: Triggering
    _seen: int | None
    step: Callable[..., Awaitable[Any]]

    @property
    def id(self) -> str: ...  # pyright: ignore[reportReturnType]

    @property
    def scope(self) -> Scope: ...  # pyright: ignore[reportReturnType]

    async def load(self, default: Any = _ABSENT, *, fresh: bool = False) -> Any:
        """The state; raise `NotFoundError` when there is none, unless a default is given.

        Which version it is is recorded: after a crash the code sees again what it saw, and asks for the same. With
        `fresh` it is the newest one then too; what is asked for next may differ from what the log recorded.
        """
        if fresh:
            state_was_read()
        newest = (await self.journal.engine.head(self.journal.key)).version
        version = newest if fresh else await self.step(LOAD, lambda: newest)
        document = await self._at(version)
        if document is None or document.root is None:
            if default is _ABSENT:
                what = f"a state of thread {self.journal.key.id!r}"
                raise NotFoundError(what, "give load a default, or save one first")
            return default
        self._seen = version
        return document.value()

    async def _at(self, version: int) -> Document | None:
        engine, key = self.journal.engine, self.journal.key
        if version == 0:
            return None
        head = await engine.head(key)
        return head.document if head.version == version else await engine.at(key, version)

    async def append(self, path: PathLike, *items: object, checkpoint: Checkpointed = False) -> int:
        """Append to a list in the state, once however often the run is resumed, and return the version."""
        return await self._change("append", self._given({}, {path: list(items)}, ()), checkpoint)

    async def update(
        self,
        *,
        set: Mapping[PathLike, object] | None = None,
        append: Mapping[PathLike, Sequence[object]] | None = None,
        delete: Sequence[PathLike] = (),
        checkpoint: Checkpointed = False,
    ) -> int:
        """Set, append and delete in one write, once however often the run is resumed, and return the version."""
        return await self._change("update", self._given(set or {}, append or {}, delete), checkpoint)

    async def save(
        self,
        state: object,
        *,
        kind: str = "manual",
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> int:
        """Make `state` the state, with a checkpoint, once however often the run is resumed; return the version."""
        mark = CheckpointMark(
            id="", kind=check_id(kind, "the checkpoint kind"), status=check_label(status, "status"),
            note=check_label(note, "note"), metadata=check_metadata(metadata),
        )  # fmt: skip
        engine, key = self.journal.engine, self.journal.key
        content = digest_of(encode(state, subclasses=engine.subclasses))
        return await self._write("save", mark, content, lambda request: engine.save(key, state, self._seen, request))

    def _given(
        self, set: Mapping[Any, object], append: Mapping[Any, Sequence[object]], delete: Sequence[PathLike]
    ) -> Change:
        return Change(set, append, delete, self.journal.engine.subclasses)

    async def _change(self, what: str, change: Change, checkpoint: Checkpointed) -> int:
        mark = CheckpointMark(id="", kind="manual") if checkpoint is True else checkpoint or None
        engine, key, content = self.journal.engine, self.journal.key, digest_of(encode_body(change.request()))
        by_itself = checkpoint is not True

        async def make(request: Request) -> Saved:
            saved = await engine.change(key, change, None, replace(request, by_itself=by_itself))
            if mark is not None and by_itself:
                self.triggering.saved(saved.appended)
            return saved

        return await self._write(what, mark, content, make, by_itself)

    async def _write(
        self, what: str, mark: CheckpointMark | None, content: bytes, make: Make, by_itself: bool = False
    ) -> int:
        scope = self.scope
        put = scope.write(what, asked_for(content, None if by_itself else mark))
        try:
            standing = await self._standing(put, scope)
            if standing is None:
                request = replace(self.journal.request(put.key, mark=mark), content=content)
                standing = self._wrote(await make(request))
        except LeaseLostError as exc:
            self.journal.held.lost = exc
            raise
        finally:
            scope.settle_write()
        self.journal.written.keep(put, standing)
        return standing

    async def _standing(self, put: Put, scope: Scope) -> int | None:
        """The version of a write that was made earlier; raise where the log has another one in its place."""
        written = self.journal.written
        found = await written.find(put, resumed=self.resumed)
        if found is not None:
            return found
        if self.over:
            raise RunFinishedError(self.id, str(put))
        other = None if self.accept or scope.free else written.other(put)
        if other is not None:
            raise RunDivergedError(self.id, f"version {other}", f"{put} with other values")
        return None

    async def was_written(self) -> bool:
        """Whether the next write that is made in sequence stands already; if so it is passed over, and not made."""
        scope = self.scope
        stands = self.resumed and await self.journal.written.stands(scope.call_id, scope.writes)
        if stands:
            scope.pass_write()
        return stands

    def _wrote(self, saved: Saved) -> int:
        done = saved.appended
        if not done.again and done.before in (self._seen, 0):
            self._seen = done.state_version
        self.journal.state_version = max(self.journal.state_version, done.row.state_version)
        return done.version
