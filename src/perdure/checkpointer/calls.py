"""What every checkpointer can do. Each call has a twin without the `a` for synchronous code."""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Coroutine, Mapping
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, ClassVar, Self, TypeVar

from perdure.app.options import StorageOptions
from perdure.app.servers import Mode
from perdure.app.store import CACHE_BYTES, Perdure, parts_of
from perdure.app.thread import Thread
from perdure.app.users import UserId
from perdure.checkpointer.calling import count_overrides, twin
from perdure.checkpointer.config import Config, Place, check_names, place_of, user_of
from perdure.checkpointer.injecting import active
from perdure.checkpointer.metrics import shared_metrics
from perdure.checkpointer.pending import Pending
from perdure.checkpointer.soon import Soon
from perdure.checkpointer.stores import Stores
from perdure.core.errors import AmbiguousThreadError, InvalidInputError
from perdure.core.identity import ANY_USER, RESULTS, ThreadKey, check_id, reserved_namespace
from perdure.core.retention_policy import Retention
from perdure.storage.baton import Baton

T = TypeVar("T")
log = logging.getLogger("perdure.checkpointer")
_OWN = (
    "namespace", "state_history_limit", "enforce_user_isolation", "max_pending_writes", "migrate", "cache_bytes",
    "clock", "telemetry",
)  # fmt: skip


class Calls:
    """What all parts of a checkpointer stand on: its stores, and what every call has in common.

    Options of its own are `state_history_limit` (older states are pruned, messages stay), `enforce_user_isolation`
    (a config has to name its user) and `max_pending_writes` (1000); all others are those of `Perdure.open`.
    """

    _takes: ClassVar[tuple[str, ...]] = tuple(StorageOptions.__annotations__)  # options of the storage

    def __init__(self, url: str | None = None, **options: Any) -> None:
        check_names(type(self), options, (*self._takes, *_OWN))
        self._url = url
        self._options = {name: value for name, value in options.items() if name not in _OWN}
        self._namespace: str = options.get("namespace") or ""
        self._history: int | None = options.get("state_history_limit")
        self._isolated = bool(options.get("enforce_user_isolation"))
        self._given: dict[str, Any] = {"migrate": "auto", "cache_bytes": CACHE_BYTES, "clock": None, "telemetry": None}
        self._given |= {name: value for name, value in options.items() if name in self._given and value is not None}
        self._stores = Stores(self._open, shared=(url or "").startswith("memory:"))
        self._soon = Soon(options.get("max_pending_writes", 1000))
        self._pending = Pending()
        self._metrics = shared_metrics()

    def _address(self, mode: Mode) -> tuple[str, dict[str, Any]]:
        """Where the store is, and its options; asked for when it is opened."""
        return self._url or "memory://", self._options

    def _hot(self, tuning: Mapping[str, float | None]) -> dict[str, Any]:
        """The options with the hot layer that was asked for, here or by the environment."""
        hot = self._options.get("hot") or os.environ.get("CACHE_URL")
        if not hot:
            return self._options
        found = {"cache_ttl": _seconds(os.environ.get("CACHE_TTL"))}
        found |= {name: value for name, value in tuning.items() if value is not None}
        return {**self._options, "hot": hot, **{name: value for name, value in found.items() if value is not None}}

    def _open(self, mode: Mode, baton: Baton | None) -> Perdure:
        url, options = self._address(mode)
        retention = None if self._history is None else Retention(last=self._history)
        return Perdure.open_as(
            mode, url, namespace=self._namespace, randomness=None, options=StorageOptions(**options), baton=baton,
            retention=retention, **self._given,
        )  # fmt: skip

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        count_overrides(cls)

    def _called(self, name: str | None, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]:
        """A call that is waited for; one with a name is ours, and is measured."""
        if name is None:
            return self._pending.watched(work, lambda: work)
        return self._pending.watched(work, lambda: self._metrics.timed(name, self._stores.in_turn(work)))

    def _drive(self, work: Coroutine[Any, Any, T]) -> T:
        return self._stores.drive(work)

    @property
    def store(self) -> Perdure:
        """The store behind it, for everything that these calls do not offer."""
        return self._stores.store()

    def _place(self, config: Config) -> Place:
        return place_of(config, isolated=self._isolated, texts=self._texts)

    def _user(self, config: Config) -> UserId | None:
        return user_of(config, isolated=self._isolated, texts=self._texts)

    @property
    def _texts(self) -> bool:
        return (self._options.get("user_id_type") or "string") == "string"

    def thread(self, config: Config) -> Thread:
        """The thread that a config names, for time travel, forks, comparisons and everything else."""
        place = self._place(config)
        return self.store.thread(place.thread_id, user=ANY_USER if place.user is None else place.user)

    async def _owner(self, config: Config) -> str:
        """Whom a config names; by a `thread_id` alone, the owner of the only thread of that id, else nobody.

        A thread of which there are only results of tools counts too.
        """
        parts, user = parts_of(self.store), self._user(config)
        if user is not None:
            return parts.users.key(user)
        await parts.ready()
        id, spaces = self._thread_id(config), (self._namespace, self._reserved(RESULTS))
        owners = {row.key.user for space in spaces for row in await parts.storage.find(space, id)}
        if len(owners) > 1:
            raise AmbiguousThreadError(id, [parts.users.shown(owner) for owner in sorted(owners)])
        return owners.pop() if owners else ""

    async def _listed_user(self, config: Config) -> UserId | None:
        """Whose threads a list covers: the user of a config, or the owner of its thread; None is everybody's."""
        named = self._user(config)
        if named is not None or config.get("thread_id") is None:
            return named
        owner = parts_of(self.store).users.shown(await self._owner(config))
        return "" if owner is None else owner

    def _beside(self, kind: str, owner: str, id: str) -> Thread:
        """A thread of a user where no list shows it and no caller can name it."""
        return Thread(parts_of(self.store), ThreadKey(self._reserved(kind), owner, id))

    async def _results(self, config: Config) -> Thread:
        """Where the results of tools lie that were called in a thread."""
        return self._beside(RESULTS, await self._owner(config), self._thread_id(config))

    def _thread_id(self, config: Config) -> str:
        return check_id(self._place(config).thread_id, "the thread id")

    def _reserved(self, kind: str) -> str:
        return reserved_namespace(kind, self._namespace)

    def active(self) -> AbstractContextManager[Self]:
        """Make this the current checkpointer inside a block; see `current_checkpointer`."""
        return active(self)  # type: ignore[arg-type, return-value]

    async def asetup(self) -> None:
        """Make or upgrade the layout of the storage; the first call does so too."""
        await self.store.setup()

    async def aflush(self) -> None:
        """Wait until every call that was made is at its end; raise what background writes could not do."""
        await self._settled()
        await asyncio.to_thread(self._soon.flush)
        await self._stores.flush()

    async def arelease(self) -> None:
        """Wait for calls that are under way, and let go of files and connections; raise what `aflush` raises."""
        await self._settled()
        try:
            await asyncio.to_thread(self._soon.close)
        finally:
            await self._stores.close()

    async def _settled(self) -> None:
        left = await self._pending.settled()
        if left:
            log.warning("%d calls of the checkpointer are not at their end", left)

    def flush(self) -> None:
        """`aflush` for synchronous code: what runs on an event loop is not waited for."""
        self._soon.flush()

    def release(self) -> None:
        """`arelease` for synchronous code."""
        try:
            self._soon.close()
        finally:
            self._stores.close_in_place()

    setup = twin(asetup)

    async def __aenter__(self) -> Self:
        await self.asetup()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.arelease()

    def __enter__(self) -> Self:
        self.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def _seconds(text: str | None) -> float | None:
    try:
        return float(text) if text else None
    except ValueError:
        raise InvalidInputError(f"CACHE_TTL in the environment must be a number of seconds, not {text!r}") from None
