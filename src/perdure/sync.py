"""The synchronous face: the same store for code without an event loop.

Every call drives the one implementation in place: no loop, no thread, no hop. Threads may share a store.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack, overload

from perdure.app import store as app
from perdure.app.branches import Branch
from perdure.app.copying import Copied
from perdure.app.exporting import Exported
from perdure.app.maintenance import Progress, PruneReport
from perdure.app.options import StorageOptions
from perdure.app.store import CACHE_BYTES
from perdure.app.thread import PathLike, ThreadInfo
from perdure.app.thread import Thread as AsyncThread
from perdure.app.travelling import OnFailure
from perdure.app.users import UserId
from perdure.checkpoints.newest import Latest
from perdure.checkpoints.pruning import Pruned
from perdure.checkpoints.repairing import Progress as RepairProgress
from perdure.checkpoints.repairing import Repaired
from perdure.checkpoints.travel import Rewinding, TimelineItem
from perdure.checkpoints.verifying import Progress as VerifyProgress
from perdure.core.checkpoint import Checkpoint
from perdure.core.comparison import Comparison, Comparisons
from perdure.core.entries import Entry
from perdure.core.errors import ForkedProcessError
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.retention import Plan
from perdure.core.retention_policy import EVERY, Retention
from perdure.core.verification import Report
from perdure.core.weights import StoreSizes, ThreadSizes
from perdure.storage.baton import Baton
from perdure.storage.contract import Migrate
from perdure.storage.drive import drive

T = TypeVar("T")
_ABSENT: Any = object()


class _Driver:
    """Runs one operation at a time, others while it waits for a server: what a store remembers is never torn."""

    def __init__(self, baton: Baton) -> None:
        self._baton = baton
        self._pid = os.getpid()

    def is_inherited(self) -> bool:
        """Whether another process opened the store."""
        return self._pid != os.getpid()

    def __call__(self, work: Coroutine[Any, Any, T]) -> T:
        if self.is_inherited():
            # The lock may be held by a thread that os.fork left behind: waiting for it would be for ever.
            work.close()
            raise ForkedProcessError("the store", f"opened by process {self._pid}, used by {os.getpid()}")
        with self._baton:
            return drive(work)


class Thread:
    """`perdure.Thread` for synchronous code."""

    def __init__(self, thread: AsyncThread, run: _Driver) -> None:
        self._thread = thread
        self._run = run

    @property
    def id(self) -> str:
        """The id of the thread."""
        return self._thread.id

    @property
    def user(self) -> UserId | None:
        """Whose thread it is, once that is known."""
        return self._thread.user

    def __repr__(self) -> str:
        return repr(self._thread)

    def load(self, ref: object = None, default: Any = _ABSENT) -> Any:
        """Return the newest state, or that at `ref`; raise `NotFoundError` when absent, unless a default is given."""
        return self._run(self._thread.load(ref) if default is _ABSENT else self._thread.load(ref, default))

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
    ) -> Checkpoint:
        """Make `state` the state of the thread, with a checkpoint. What is stored is the change."""
        return self._run(
            self._thread.save(
                state, kind=kind, status=status, note=note, metadata=metadata, expected=expected, key=key, after=after
            )
        )

    def routine(
        self,
        state: object,
        *,
        every: timedelta = EVERY,
        status: str | None = None,
        note: str | None = None,
        metadata: Mapping[str, object] | None = None,
    ) -> Checkpoint | None:
        """Save a routine checkpoint if the newest one is `every` old (30 minutes); None when it is not time yet."""
        return self._run(self._thread.routine(state, every=every, status=status, note=note, metadata=metadata))

    def append(self, path: PathLike, *items: object, key: str | None = None, checkpoint: bool = False) -> int:
        """Add items to the list at `path`, made when missing, and return the new version."""
        return self._run(self._thread.append(path, *items, key=key, checkpoint=checkpoint))

    def update(
        self,
        *,
        set: Mapping[Any, object] | None = None,
        append: Mapping[Any, Sequence[object]] | None = None,
        delete: Iterable[PathLike] = (),
        expected: int | None = None,
        key: str | None = None,
        checkpoint: bool = False,
    ) -> int:
        """Set, append and delete in one atomic write, and return the new version."""
        return self._run(
            self._thread.update(
                set=set, append=append, delete=delete, expected=expected, key=key, checkpoint=checkpoint
            )
        )

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

    def messages(self, limit: int | None = None) -> list[Any]:
        """Return what was said in this thread, oldest first; with `limit`, the newest that many."""
        return self._run(self._thread.messages(limit))

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


def _held(point: object) -> object:
    """The thread inside a handle of this face, also where it stands beside a ref."""
    if isinstance(point, tuple):
        return tuple(map(_held, point))
    return point._thread if isinstance(point, Thread) else point  # pyright: ignore[reportPrivateUsage]


class Perdure:
    """`perdure.Perdure` for synchronous code: a plain context manager."""

    def __init__(self, store: app.Perdure, baton: Baton) -> None:
        self._store = store
        self._run = _Driver(baton)

    @classmethod
    def open(
        cls,
        url: str,
        *,
        namespace: str = "",
        migrate: Migrate = "auto",
        clock: Clock | None = None,
        randomness: Randomness | None = None,
        telemetry: Telemetry | None = None,
        cache_bytes: int = CACHE_BYTES,
        retention: Retention | None = None,
        **options: Unpack[StorageOptions],
    ) -> Self:
        """Open the store at `url`; it is reached at the first use. See `perdure.Perdure.open`."""
        baton = Baton()
        store = app.Perdure.open_as(
            "sync", url, namespace=namespace, migrate=migrate, clock=clock, randomness=randomness,
            telemetry=telemetry, cache_bytes=cache_bytes, options=options, baton=baton, retention=retention,
        )  # fmt: skip
        return cls(store, baton)

    def thread(
        self,
        id: str,
        *,
        user: UserId | None = None,
        agent: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        actor: str | None = None,
        task: str | None = None,
    ) -> Thread:
        """A handle on a thread, which is made by its first write."""
        thread = self._store.thread(id, user=user, agent=agent, name=name, tags=tags, actor=actor, task=task)
        return Thread(thread, self._run)

    @overload
    def compare(self, a: object, b: object, /, *, user: UserId | None = None) -> Comparison: ...
    @overload
    def compare(self, a: object, b: object, c: object, /, *more: object, user: UserId | None = None) -> Comparisons: ...
    def compare(self, *points: Any, user: UserId | None = None) -> Comparison | Comparisons:
        """Compare 2 to 4 points, the others with the first. See `perdure.Perdure.compare`."""
        return self._run(self._store.compare(*map(_held, points), user=user))

    def sizes(self, threads: int = 0) -> StoreSizes:
        """How many bytes everything takes, and with `threads` which that many threads are the largest."""
        return self._run(self._store.sizes(threads))

    def export(self, thread: Thread | str, path: str | os.PathLike[str], *, forks: bool = False) -> Exported:
        """Write a thread into one file that any store can import; with `forks`, all that descend from it too."""
        handle = thread._thread if isinstance(thread, Thread) else thread  # pyright: ignore[reportPrivateUsage]
        return self._run(self._store.export(handle, path, forks=forks))

    def import_(
        self,
        path: str | os.PathLike[str],
        *,
        to: str | None = None,
        user: UserId | None = None,
        overwrite: bool = False,
    ) -> list[Copied]:
        """Add the threads of an export, and return what became of each; it can be repeated."""
        return self._run(self._store.import_(path, to=to, user=user, overwrite=overwrite))

    def prune(
        self,
        policy: Retention | None = None,
        dry_run: bool = False,
        *,
        user: UserId | None = None,
        progress: Progress | None = None,
    ) -> PruneReport:
        """Drop what a policy (default: the store's own) does not keep, of all threads or of a user's."""
        return self._run(self._store.prune(policy, dry_run, user=user, progress=progress))

    def verify(
        self, *, restore: bool = False, user: UserId | None = None, progress: VerifyProgress | None = None
    ) -> Report:
        """Check all threads, or those of a user: every log, every whole state, every index. Nothing is changed."""
        return self._run(self._store.verify(restore=restore, user=user, progress=progress))

    def repair(self, *, user: UserId | None = None, progress: RepairProgress | None = None) -> Repaired:
        """Make everything again that is derived from the logs, of all threads or of a user's."""
        return self._run(self._store.repair(user=user, progress=progress))

    def compact(self) -> int:
        """Give disk space that nothing uses any more back to the system, and return how many bytes that was."""
        return self._run(self._store.compact())

    def compacting(self) -> str:
        """Who has to wait while `compact` works, in a sentence."""
        return self._store.compacting()

    def flush(self) -> None:
        """Wait until everything that was answered is durable."""
        self._run(self._store.flush())

    def warm(self, users: Iterable[UserId], *, threads: int = 3) -> int:
        """Bring the newest threads of these users into Redis, and return how many there are now."""
        return self._run(self._store.warm(users, threads=threads))

    def close(self) -> None:
        """Let go of files and connections; a second call does nothing. In a forked child it only forgets them."""
        if self._run.is_inherited():
            drive(self._store.close())
        else:
            self._run(self._store.close())

    def __enter__(self) -> Self:
        self._run(self._store.__aenter__())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
