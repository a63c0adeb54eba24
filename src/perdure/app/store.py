"""The Perdure object: an open store of threads."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from contextlib import suppress
from types import TracebackType
from typing import Self, Unpack

from perdure.app.opening import parse
from perdure.app.options import StorageOptions, given
from perdure.app.parts import Parts
from perdure.app.servers import Mode
from perdure.app.thread import Thread
from perdure.app.users import UserId
from perdure.core.errors import BackgroundWriteError, InvalidInputError, SuspendedError
from perdure.core.identity import ThreadKey, check_id, check_label, check_namespace
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.core.threads import NO_PATCH, ThreadPatch
from perdure.core.writes import Sizes
from perdure.storage.baton import Baton
from perdure.storage.contract import Migrate, Storage

CACHE_BYTES = 64 * 1024 * 1024


class Perdure:
    """An open store. Use it as an async context manager, or call `close`."""

    def __init__(self, parts: Parts, namespace: str) -> None:
        self._parts = parts
        self._namespace = namespace
        # Tied to the parts and not to this object: a handle on a thread keeps its store open.
        self._finalizer = weakref.finalize(parts, _close_forgotten, parts.storage)

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
        """Open the store at `url`; it is reached at the first use.

        `namespace` keeps tenants apart. `migrate="check"` refuses to change an old layout. `cache_bytes` bounds the
        encoded states that are kept in memory so that a save costs what changed. A `clock` of your own counts instead
        of the server's. Servers and the hot layer have `options` of their own: see the guide on each.
        """
        return cls.open_as(
            "async", url, namespace=namespace, migrate=migrate, clock=clock, randomness=randomness,
            telemetry=telemetry, cache_bytes=cache_bytes, options=options,
        )  # fmt: skip

    @classmethod
    def open_as(
        cls,
        mode: Mode,
        url: str,
        *,
        namespace: str,
        migrate: Migrate,
        clock: Clock | None,
        randomness: Randomness | None,
        telemetry: Telemetry | None,
        cache_bytes: int,
        options: StorageOptions,
        baton: Baton | None = None,
    ) -> Self:
        """Open for asynchronous callers, or for `perdure.sync`, whose threads take turns with a baton."""
        if migrate not in ("auto", "check"):
            raise InvalidInputError(f'migrate must be "auto" or "check", not {migrate!r}')
        if type(cache_bytes) is not int or cache_bytes < 0:
            raise InvalidInputError(f"cache_bytes must be an int from 0 on, not {cache_bytes!r}")
        if clock is not None and not callable(getattr(clock, "now", None)):
            raise InvalidInputError(f"clock must have a method now(), {clock!r} has none")
        checked = check_namespace(namespace)
        address = parse(url)
        parts = Parts(
            address, mode, migrate=migrate, clock=clock, randomness=randomness, telemetry=telemetry,
            cache_bytes=cache_bytes, options=given(options, address.scheme), baton=baton,
        )  # fmt: skip
        return cls(parts, checked)

    def thread(
        self,
        id: str,
        *,
        user: UserId | None = None,
        agent: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
    ) -> Thread:
        """A handle on a thread, which is made by its first write. Agent, name and tags are kept with that write."""
        key = ThreadKey(self._namespace, self._parts.users.key(user), check_id(id, "the thread id"))
        if isinstance(tags, str) or not isinstance(tags, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"tags must be a list of str, not {tags!r}")
        labels = tuple(check_id(tag, "a tag") for tag in tags)
        agent, name = check_label(agent, "agent"), check_label(name, "name")
        given = agent is not None or name is not None or labels
        patch = ThreadPatch(agent=agent, name=name, tags=labels or None) if given else NO_PATCH
        return Thread(self._parts, key, named_user=user is not None, patch=patch)

    async def sizes(self) -> Sizes:
        """How many bytes everything takes."""
        await self._parts.ready()
        return await self._parts.storage.sizes()

    async def flush(self) -> None:
        """Wait until everything that was answered is durable. Only `durability="background"` leaves something to do.

        Raises `BackgroundWriteError` naming what could not be made.
        """
        await self._parts.flush()

    async def warm(self, users: Iterable[UserId], *, threads: int = 3) -> int:
        """Bring the newest threads of these users into Redis, and return how many there are now.

        Raises `InvalidInputError` where there is no hot layer.
        """
        return await self._parts.warm(self._namespace, users, threads)

    async def close(self) -> None:
        """Let go of files and connections; a second call does nothing."""
        self._finalizer.detach()
        await self._parts.storage.close()

    async def __aenter__(self) -> Self:
        await self._parts.ready()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _close_forgotten(storage: Storage) -> None:
    """A store nobody closed: closing never waits for an event loop, so it can be driven here."""
    from perdure.storage.drive import drive

    # One that still writes in the background does so on the loop it was used on; what was lost has been logged.
    with suppress(SuspendedError, BackgroundWriteError):
        drive(storage.close())
