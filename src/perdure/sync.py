"""The synchronous face: the same store for code without an event loop.

Every call drives the one implementation in place: no loop, no thread, no hop. Threads may share a store.
"""

from __future__ import annotations

import os
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

from perdure.app import store as app
from perdure.app.options import StorageOptions
from perdure.app.store import CACHE_BYTES
from perdure.app.thread import PathLike, ThreadInfo
from perdure.app.thread import Thread as AsyncThread
from perdure.app.users import UserId
from perdure.core.checkpoint import Checkpoint
from perdure.core.diff import Comparison
from perdure.core.entries import Entry
from perdure.core.errors import ForkedProcessError
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.writes import Sizes
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
    ) -> Checkpoint:
        """Make `state` the state of the thread, with a checkpoint. What is stored is the change."""
        return self._run(
            self._thread.save(state, kind=kind, status=status, note=note, metadata=metadata, expected=expected, key=key)
        )

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
    ) -> list[Checkpoint]:
        """List checkpoints, newest first, never their states."""
        return self._run(self._thread.history(limit, before, kind, status, metadata, agent, since, until))

    def entries(self, after: int = 0, limit: int | None = None) -> list[Entry]:
        """Return the entries of the log after a version, oldest first."""
        return self._run(self._thread.entries(after, limit))

    def messages(self, limit: int | None = None) -> list[Any]:
        """Return what was said in this thread, oldest first; with `limit`, the newest that many."""
        return self._run(self._thread.messages(limit))

    def compare(self, a: object, b: object) -> Comparison:
        """Compare the states at two refs of this thread."""
        return self._run(self._thread.compare(a, b))

    def fork(self, ref: object = None, *, to: str) -> Thread:
        """Make a thread `to` whose history is this one's up to `ref` (default: now)."""
        return Thread(self._run(self._thread.fork(ref, to=to)), self._run)

    def delete(self) -> bool:
        """Delete the thread with everything that belongs to it; its forks keep their history."""
        return self._run(self._thread.delete())

    def info(self) -> ThreadInfo:
        """Return status, versions and sizes."""
        return self._run(self._thread.info())


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
        **options: Unpack[StorageOptions],
    ) -> Self:
        """Open the store at `url`; it is reached at the first use. See `perdure.Perdure.open`."""
        baton = Baton()
        store = app.Perdure.open_as(
            "sync", url, namespace=namespace, migrate=migrate, clock=clock, randomness=randomness,
            telemetry=telemetry, cache_bytes=cache_bytes, options=options, baton=baton,
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
    ) -> Thread:
        """A handle on a thread, which is made by its first write."""
        return Thread(self._store.thread(id, user=user, agent=agent, name=name, tags=tags), self._run)

    def sizes(self) -> Sizes:
        """How many bytes everything takes."""
        return self._run(self._store.sizes())

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
