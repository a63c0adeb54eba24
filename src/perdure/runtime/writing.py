"""The state of a thread as a run changes it: every write is found again, so that resuming does not double it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from perdure.checkpoints.requests import Saved
from perdure.core.calls import key_digest, shown
from perdure.core.changes import Change
from perdure.core.checkpoint import CheckpointMark, check_metadata
from perdure.core.codec import decode
from perdure.core.errors import KeyReusedError, LeaseLostError, NotFoundError, RunDivergedError, RunFinishedError
from perdure.core.identity import check_id, check_label
from perdure.core.steps import Step
from perdure.runtime.scope import state_was_read

if TYPE_CHECKING:
    from perdure.core.document import Document
    from perdure.runtime.journal import Journal
    from perdure.runtime.rerunning import Elsewhere
    from perdure.runtime.scope import Scope

PathLike = str | tuple[Step, ...]
_ABSENT: Any = object()


class Writing:
    """The part of a run that reads and writes the state."""

    journal: Journal
    over: bool
    resumed: bool
    calls_as: str
    elsewhere: Elsewhere | None
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
        version = newest if fresh else await self.step("load", lambda: newest)
        document = await self._at(version)
        if document is None or document.root is None:
            if default is _ABSENT:
                what = f"a state of thread {self.journal.key.id!r}"
                raise NotFoundError(what, "give load a default, or save one first")
            return default
        self._seen = version
        return decode(document.close())

    async def _at(self, version: int) -> Document | None:
        engine, key = self.journal.engine, self.journal.key
        if version == 0:
            return None
        head = await engine.head(key)
        return head.document if head.version == version else await engine.at(key, version)

    async def append(self, path: PathLike, *items: object, checkpoint: bool = False) -> int:
        """Append to a list in the state, once however often the run is resumed, and return the version."""
        return await self._change("append", Change({}, {path: list(items)}, ()), checkpoint)

    async def update(
        self,
        *,
        set: Mapping[PathLike, object] | None = None,
        append: Mapping[PathLike, Sequence[object]] | None = None,
        delete: Sequence[PathLike] = (),
        checkpoint: bool = False,
    ) -> int:
        """Set, append and delete in one write, once however often the run is resumed, and return the version."""
        return await self._change("update", Change(set or {}, append or {}, delete), checkpoint)

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
        return await self._write("save", mark, lambda request: engine.save(key, state, self._seen, request))

    async def _change(self, what: str, change: Change, checkpoint: bool) -> int:
        mark = CheckpointMark(id="", kind="manual") if checkpoint else None
        engine, key = self.journal.engine, self.journal.key
        return await self._write(what, mark, lambda request: engine.change(key, change, None, request))

    async def _write(self, what: str, mark: CheckpointMark | None, make: Any) -> int:
        scope = self.scope
        nth = scope.write(what)
        key = self._write_key(scope, what, nth)
        if self.over:
            return await self._written(key, f"{what} number {nth}")
        before = await self.elsewhere.written(key) if self.elsewhere else None
        if before is not None:
            return before.version
        try:
            saved = await make(self.journal.request(key, mark=mark))
        except KeyReusedError as exc:
            raise RunDivergedError(self.id, f"version {exc.version}", f"{what} number {nth} with other values") from exc
        except LeaseLostError as exc:
            self.journal.held.lost = exc
            raise
        return self._wrote(saved)

    async def was_written(self, what: str) -> bool:
        """Whether the next write of this kind ("append" …) stands already; if so it is passed over, and not made."""
        scope = self.scope
        key = self._write_key(scope, what, scope.writes(what) + 1)
        entry = await self.journal.storage.keyed(self.journal.key, key) if self.resumed else None
        if entry is None and self.elsewhere is not None:
            entry = await self.elsewhere.written(key)
        if entry is not None:
            scope.write(what)
        return entry is not None

    def _write_key(self, scope: Scope, what: str, nth: int) -> str:
        return f"w.{shown(key_digest([self.calls_as, scope.call_id, what, nth]))}"

    async def _written(self, key: str, what: str) -> int:
        entry = await self.journal.storage.keyed(self.journal.key, key)
        if entry is None:
            raise RunFinishedError(self.id, what)
        return entry.version

    def _wrote(self, saved: Saved) -> int:
        done = saved.appended
        if not done.again and done.before in (self._seen, 0):
            self._seen = done.state_version
        self.journal.state_version = max(self.journal.state_version, done.row.state_version)
        return done.version
