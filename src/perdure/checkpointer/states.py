"""States: what an agent thinks with, kept at every step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from perdure.app.freshness import MAX_AGE, is_cached
from perdure.app.handle import key_of, remember, sight_of
from perdure.app.store import parts_of
from perdure.app.thread import Thread
from perdure.checkpointer.calling import operation, twin
from perdure.checkpointer.calls import Calls, log
from perdure.checkpointer.config import Config
from perdure.checkpointer.speech import as_messages
from perdure.checkpointer.state import AgentState, built, is_state, mark_read, mark_seen, seen_of, stored
from perdure.core.checkpoint import Checkpoint
from perdure.core.comparison import Comparison
from perdure.core.entries import NewEntry
from perdure.core.errors import InvalidInputError, NotFoundError, StorageUnavailableError
from perdure.core.message import Message
from perdure.core.vocabulary import one_of

OnUnavailable = Literal["raise", "fresh"]
KIND = "state"


class States(Calls):
    """The part of a checkpointer that keeps states."""

    @operation
    async def aput_state(self, config: Config, state: AgentState) -> AgentState:
        """Save a state, and return it; it is durable then, and in Redis where there is one.

        A state that was loaded from this thread and changed by somebody else since is refused with
        `VersionConflictError`. A fresh state, or one of another thread, takes the place of what is there.
        """
        return await self._put(config, state)

    @operation
    async def aput_checkpoint(
        self,
        config: Config,
        state: AgentState,
        messages: Sequence[Message] | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> AgentState:
        """Save a state and messages in one transaction: both are there, or neither."""
        return await self._put(config, state, messages or (), metadata)

    async def _put(
        self,
        config: Config,
        state: AgentState,
        messages: Sequence[Message] = (),
        metadata: dict[str, Any] | None = None,
        also: Sequence[NewEntry] = (),
    ) -> AgentState:
        place, thread = self._place(config), self.thread(config)
        kept = stored(state)
        key = await key_of(thread)
        remember(thread, seen_of(state, key))
        said = as_messages(messages, {**place.run(), **(metadata or {})})
        await thread.save(kept, kind=KIND, metadata={**place.extra, **(metadata or {})}, messages=said, also=also)
        mark_seen(state, key, sight_of(thread))
        return state

    @operation
    async def aget_state(
        self, config: Config, *, ref: object = None, on_unavailable: OnUnavailable = "raise"
    ) -> AgentState | None:
        """Load the newest state, or that at `ref` (a version, checkpoint, tag or time); None when there is none.

        A storage that cannot be reached raises `StorageUnavailableError`, a `ConnectionError`; only with
        `on_unavailable="fresh"` is the answer an empty state then, with a warning in the log.
        """
        return await self._got(config, ref, on_unavailable, {})

    async def _got(
        self, config: Config, ref: object, on_unavailable: OnUnavailable, how: dict[str, Any]
    ) -> AgentState | None:
        one_of(on_unavailable, ("raise", "fresh"), "on_unavailable", InvalidInputError)
        try:
            return await self._get(self.thread(config), ref, how)
        except StorageUnavailableError as exc:
            if on_unavailable == "raise":
                raise
            log.warning("the storage cannot be reached, starting with a fresh state: %s", exc)
            return AgentState()

    async def _get(self, thread: Thread, ref: object, how: dict[str, Any]) -> AgentState | None:
        try:
            kept = await thread.load(ref, **how)
        except NotFoundError:
            if ref is not None:
                raise
            return None
        if kept is None:
            return None  # it was cleared
        if not is_state(kept):
            raise InvalidInputError(f"the state of thread {thread.id!r} is not an agent's: load it with store.thread()")
        state = built(kept, thread.id)
        mark_seen(state, await key_of(thread), sight_of(thread) if ref is None else None)
        mark_read(state, thread.last_read if ref is None else None)
        return state

    @operation
    async def aget_state_cache(
        self, config: Config, *, max_age: float = MAX_AGE, on_unavailable: OnUnavailable = "raise"
    ) -> AgentState | None:
        """Load a state that was the newest at most `max_age` seconds ago from Redis alone, else from the storage.

        `state.last_read` tells which, and how old the state is. Putting one that is not the newest any more is refused
        with `VersionConflictError`. Without Redis it is `aget_state`.
        """
        is_cached("cache", max_age)
        if parts_of(self.store).hot is None:
            return await self.aget_state(config, on_unavailable=on_unavailable)
        return await self._got(config, None, on_unavailable, {"fresh": "cache", "max_age": max_age})

    @operation
    async def aclear_state(self, config: Config) -> None:
        """Leave the thread without a state; its history and its messages stay."""
        thread = self.thread(config)
        if await thread.load(default=None) is not None:
            await thread.save(None, kind=KIND)

    @operation
    async def alist_states(self, config: Config, limit: int = 50) -> list[Checkpoint]:
        """The points at which states were saved, newest first: each can be loaded, compared and gone back to."""
        return await self.thread(config).history(limit)

    @operation
    async def acompare_states(self, config: Config, a: object, b: object = None) -> Comparison:
        """What changed between two points; None is the newest."""
        return await self.thread(config).compare(a, b)

    @operation
    async def arestore_state(self, config: Config, ref: object) -> AgentState | None:
        """Go back to a point; the states and messages after it are left behind, nothing is erased.

        For the state alone, put what `aget_state(ref=…)` gives.
        """
        thread = self.thread(config)
        await thread.rewind(ref)
        return await self._get(thread, None, {})

    @operation
    async def afork(self, config: Config, to: str, ref: object = None) -> Config:
        """Fork a thread, messages included, and return the config of the new one. Nothing is copied."""
        await self.thread(config).fork(ref, to=to)
        return {**config, "thread_id": to}

    put_state = twin(aput_state)
    put_checkpoint = twin(aput_checkpoint)
    get_state = twin(aget_state)
    get_state_cache = twin(aget_state_cache)
    clear_state = twin(aclear_state)
    list_states = twin(alist_states)
    compare_states = twin(acompare_states)
    restore_state = twin(arestore_state)
    fork = twin(afork)
