"""Small values beside conversations: results of tools by call, and values that expire."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from perdure.app.store import parts_of
from perdure.app.thread import Thread
from perdure.checkpointer.calling import operation, twin
from perdure.checkpointer.calls import Calls
from perdure.checkpointer.config import Config
from perdure.core.errors import InvalidInputError, StorageBusyError, VersionConflictError
from perdure.core.identity import CACHE, check_id

_SECOND = 1_000_000
_EVERY = 256  # versions between two sweeps
_TRIES = 100


class Values(Calls):
    """The part of a checkpointer that keeps small values."""

    @operation
    async def aput_tool_result(self, config: Config, tool_call_id: str, result: Any) -> None:
        """Record the result of a tool call durably, so that nobody has to make the call again."""
        thread = await self._results(config)
        await thread.update(set={(check_id(tool_call_id, "the tool call id"),): result})

    @operation
    async def aget_tool_result(self, config: Config, tool_call_id: str) -> Any:
        """The recorded result of a tool call; None when there is none."""
        thread = await self._results(config)
        return (await thread.load(default={})).get(tool_call_id)

    @operation
    async def aput_cache_value(
        self, namespace: str, key: str, value: Any, ttl_seconds: float | None = None, *, config: Config | None = None
    ) -> None:
        """Keep a value under a key, for so many seconds or for ever.

        With a `config` it is of the user that this names, and no other user's call finds it. Without one it is of
        nobody, for all callers that give none. The same holds for all calls on the cache.
        """
        now = parts_of(self.store).clock.now()
        if ttl_seconds is not None and not ttl_seconds > 0:
            raise InvalidInputError(f"ttl_seconds must be more than 0, not {ttl_seconds!r}")
        until = None if ttl_seconds is None else now + int(ttl_seconds * _SECOND)
        thread = await self._cache(namespace, config)
        version = await thread.update(set={(check_id(key, "the key"),): {"value": value, "until": until}})
        if version % _EVERY == 0:
            await self._swept(await self._cache(namespace, config), now)

    async def _swept(self, thread: Thread, now: int) -> None:
        """Drop values whose time is over, with everything that was; somebody else's newer value is left alone."""
        kept = await thread.load(default={})
        stale = [(name,) for name, each in kept.items() if _is_stale(each, now)]
        with suppress(VersionConflictError):  # the next sweep is not far
            if stale:
                await thread.update(delete=stale)
        await thread.prune(1)

    @operation
    async def aget_cache_value(self, namespace: str, key: str, *, config: Config | None = None) -> Any:
        """The value under a key; None when there is none, or when its time is over."""
        kept = (await (await self._cache(namespace, config)).load(default={})).get(key)
        return None if kept is None or _is_stale(kept, parts_of(self.store).clock.now()) else kept["value"]

    @operation
    async def aclear_cache_value(self, namespace: str, key: str, *, config: Config | None = None) -> bool:
        """Remove a value; False when there was none."""
        for _ in range(_TRIES):
            thread = await self._cache(namespace, config)
            if key not in await thread.load(default={}):
                return False
            with suppress(VersionConflictError):  # somebody put another value meanwhile
                await thread.update(delete=[(key,)])
                return True
        raise StorageBusyError(f"cache namespace {namespace!r}", f"other writers were first {_TRIES} times")

    @operation
    async def alist_cache_keys(
        self, namespace: str, prefix: str | None = None, *, config: Config | None = None
    ) -> list[str]:
        """The keys of a namespace that have a value, in order."""
        now = parts_of(self.store).clock.now()
        kept = await (await self._cache(namespace, config)).load(default={})
        return sorted(key for key in kept if key.startswith(prefix or "") and not _is_stale(kept[key], now))

    async def _cache(self, namespace: str, config: Config | None) -> Thread:
        owner = "" if config is None else await self._owner(config)
        return self._beside(CACHE, owner, check_id(namespace, "the cache namespace"))

    put_tool_result = twin(aput_tool_result)
    get_tool_result = twin(aget_tool_result)
    put_cache_value = twin(aput_cache_value)
    get_cache_value = twin(aget_cache_value)
    clear_cache_value = twin(aclear_cache_value)
    list_cache_keys = twin(alist_cache_keys)


def _is_stale(kept: dict[str, Any], now: int) -> bool:
    return kept["until"] is not None and kept["until"] <= now
