"""A thread for synchronous code."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.app.branches import Branch
from perdure.app.handle import Fresh
from perdure.app.rerunning import Changed, Effects
from perdure.app.thread import PathLike, ThreadInfo
from perdure.app.travelling import OnFailure
from perdure.checkpoints.newest import Latest
from perdure.checkpoints.pruning import Pruned
from perdure.checkpoints.repairing import Repaired
from perdure.checkpoints.travel import Rewinding, TimelineItem
from perdure.core.checkpoint import EVERY, Checkpoint
from perdure.core.comparison import Comparison
from perdure.core.entries import Entry
from perdure.core.resume import Unfinished
from perdure.core.retention import Plan
from perdure.core.retention_policy import Retention
from perdure.core.verification import Report
from perdure.core.weights import ThreadSizes
from perdure.sync.run import SyncBlock
from perdure.sync.talking import Talking

if TYPE_CHECKING:
    from perdure.core.subclasses import Subclasses
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.models import ModelRequest
    from perdure.runtime.streaming import Chunk

_ABSENT: Any = object()


class Thread(Talking):
    """`perdure.Thread` for synchronous code."""

    def load(
        self, ref: object = None, default: Any = _ABSENT, *, fresh: Fresh = "storage", max_age: float | None = None
    ) -> Any:
        """Return the newest state, or that at `ref`; raise `NotFoundError` when absent, unless a default is given.

        With `fresh="cache"` Redis alone is asked for one that was the newest at most `max_age` seconds ago (60).
        """
        defaults = {} if default is _ABSENT else {"default": default}
        return self._run(self._thread.load(ref, fresh=fresh, max_age=max_age, **defaults))

    def save(
        self,
        state: object,
        *,
        kind: str = "manual",
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
        expected: int | None = None,
        key: str | None = None,
        after: object = None,
        messages: Sequence[object] = (),
        subclasses: Subclasses | None = None,
    ) -> Checkpoint:
        """Make `state` the state of the thread, with a checkpoint. What is stored is the change."""
        return self._run(
            self._thread.save(
                state, kind=kind, status=status, note=note, metadata=metadata, expected=expected, key=key, after=after,
                messages=messages, subclasses=subclasses,
            )
        )  # fmt: skip

    def run(
        self,
        key: str | None = None,
        input: Any = None,
        *,
        unfinished: Unfinished = "resume",
        wait: float | None = None,
        changed: Changed = "refuse",
        traceback: bool | None = None,
    ) -> SyncBlock:
        """Run code in this thread: `with thread.run(key="turn-7") as run:`. What it did is not done again."""
        block = self._thread.run(
            key, input, unfinished=unfinished, wait=wait, changed=changed, traceback=traceback
        )  # fmt: skip
        return SyncBlock(block, self._run)

    def seen(self, ref: object = None) -> ModelRequest:
        """Exactly what the model saw at the newest `run.model` call up to a ref; None is now."""
        return self._run(self._thread.seen(ref))

    def streamed(self, after: int = 0) -> list[Chunk]:
        """What `run.stream` gave in this thread after a version."""
        return self._run(self._thread.streamed(after))

    def rerun(
        self,
        ref: object = None,
        *,
        agent: str | None = None,
        set: Mapping[Any, object] | None = None,
        to: str | None = None,
        effects: Effects = "recorded",
        times: int = 1,
    ) -> list[RunInfo]:
        """Do the run that a ref belongs to again from there, on a fork, and return how far each one came."""
        again = self._thread.rerun(ref, agent=agent, set=set, to=to, effects=effects, times=times)
        return self._run(again)

    def routine(
        self,
        state: object,
        *,
        every: timedelta = EVERY,
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
        subclasses: Subclasses | None = None,
    ) -> Checkpoint | None:
        """Save a routine checkpoint if the newest one is `every` old (30 minutes); None when it is not time yet."""
        made = self._thread.routine(
            state, every=every, status=status, note=note, metadata=metadata, subclasses=subclasses
        )
        return self._run(made)

    def append(
        self,
        path: PathLike,
        *items: object,
        key: str | None = None,
        checkpoint: bool = False,
        subclasses: Subclasses | None = None,
    ) -> int:
        """Add items to the list at `path`, made when missing, and return the new version."""
        return self._run(self._thread.append(path, *items, key=key, checkpoint=checkpoint, subclasses=subclasses))

    def update(
        self,
        *,
        set: Mapping[Any, object] | None = None,
        append: Mapping[Any, Sequence[object]] | None = None,
        delete: Iterable[PathLike] = (),
        expected: int | None = None,
        key: str | None = None,
        checkpoint: bool = False,
        subclasses: Subclasses | None = None,
    ) -> int:
        """Set, append and delete in one atomic write, and return the new version."""
        return self._run(
            self._thread.update(
                set=set, append=append, delete=delete, expected=expected, key=key, checkpoint=checkpoint,
                subclasses=subclasses,
            )
        )  # fmt: skip

    def history(
        self,
        limit: int = 50,
        before: Checkpoint | str | None = None,
        kind: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, object] | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        everything: bool = False,
    ) -> list[Checkpoint]:
        """List checkpoints, newest first, never their states."""
        return self._run(self._thread.history(limit, before, kind, status, metadata, agent, since, until, everything))

    def entries(self, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries of the log after a version, oldest first."""
        return self._run(self._thread.entries(after, limit))

    def compare(self, a: object, b: object) -> Comparison:
        """Compare the states at two refs (or checkpoints) of this thread; None is the newest version."""
        return self._run(self._thread.compare(a, b))

    def fork(self, ref: object = None, *, to: str) -> Thread:
        """Make a thread `to` whose history is this one's up to `ref` (default: now)."""
        return Thread(self._run(self._thread.fork(ref, to=to)), self._run)

    def tree(self) -> Branch:
        """The tree of forks that this thread is part of: who began where. `print` draws it."""
        return self._run(self._thread.tree())

    def rewind(
        self, ref: object, *, dry_run: bool = False, note: str | None = None, key: str | None = None
    ) -> Rewinding:
        """Go back to the state at `ref`, and return what is left behind; with `dry_run`, only that."""
        return self._run(self._thread.rewind(ref, dry_run=dry_run, note=note, key=key))

    def redo(self) -> Rewinding:
        """Take the newest rewind back."""
        return self._run(self._thread.redo())

    def checkpoint(
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
        return self._run(self._thread.checkpoint(ref, kind=kind, status=status, note=note, metadata=metadata, key=key))

    def tag(self, ref: object, name: str) -> int:
        """Give a point a name (`@tag:name`), and return its version. A point with a tag is never pruned."""
        return self._run(self._thread.tag(ref, name))

    def untag(self, name: str) -> None:
        """Take a tag away; raise `NotFoundError` when there is none of this name."""
        self._run(self._thread.untag(name))

    def tagged(self) -> dict[str, int]:
        """The tags of points, and the version each names."""
        return self._run(self._thread.tagged())

    def clear(self, checkpoint: Checkpoint | str) -> None:
        """Say that a checkpoint is no longer needed: retention may drop it."""
        self._run(self._thread.clear(checkpoint))

    @contextmanager
    def operation(self, name: str, *, on_failure: OnFailure = "keep") -> Generator[Checkpoint]:
        """A point to go back to around something risky: kept until the operation completed."""
        block = self._thread.operation(name, on_failure=on_failure)
        point = self._run(block.__aenter__())
        try:
            yield point
        except BaseException as exc:
            self._run(block.__aexit__(type(exc), exc, exc.__traceback__))
            raise
        self._run(block.__aexit__(None, None, None))

    def timeline(self, after: int = 0, limit: int | None = None) -> list[TimelineItem]:
        """Everything that happened after a version, oldest first: who, when, what kind, note, size."""
        return self._run(self._thread.timeline(after, limit))

    def plan(self, keep: int | Retention) -> Plan:
        """What `prune` would drop, why, and about how many bytes that frees. Nothing is changed."""
        return self._run(self._thread.plan(keep))

    def prune(self, keep: int | Retention) -> Pruned:
        """Drop the points that a policy does not keep, and what only they need."""
        return self._run(self._thread.prune(keep))

    def verify(self, *, restore: bool = False) -> Report:
        """Check the whole log, every whole state against a replay, and every index against the log."""
        return self._run(self._thread.verify(restore=restore))

    def repair(self) -> Repaired:
        """Make everything again that is derived from the log."""
        return self._run(self._thread.repair())

    def latest(self, kind: str | None = None, status: str | None = None) -> Latest:
        """The newest checkpoint (of a kind, or with a status) that restores; damaged ones are skipped, and named."""
        return self._run(self._thread.latest(kind, status))

    def delete(self) -> bool:
        """Delete the thread with everything that belongs to it; its forks keep their history."""
        return self._run(self._thread.delete())

    def sizes(self, ref: object = None, depth: int = 2) -> ThreadSizes:
        """Say where the bytes of this thread are: its log by kind, and its state down to the key."""
        return self._run(self._thread.sizes(ref, depth))

    def info(self) -> ThreadInfo:
        """Return status, versions and sizes."""
        return self._run(self._thread.info())


def held(point: object) -> object:
    """The thread inside a handle of this face, also where it stands beside a ref."""
    if isinstance(point, tuple):
        return tuple(map(held, point))
    return point._thread if isinstance(point, Thread) else point  # pyright: ignore[reportPrivateUsage]
