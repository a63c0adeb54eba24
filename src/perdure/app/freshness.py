"""How fresh an answer has to be: checked by the storage, or as the hot layer remembers it, with its age."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from perdure.app.handle import LastRead
from perdure.app.options import hint
from perdure.core.errors import InvalidInputError
from perdure.core.identity import ThreadKey

if TYPE_CHECKING:
    from perdure.app.parts import Parts
    from perdure.checkpoints.restoring import Head
    from perdure.storage.contract import Storage
    from perdure.storage.hot.store import HotStorage

FRESH = ("storage", "cache")
MAX_AGE = 60.0  # seconds
_MOST_SECONDS = 1_000_000_000


def is_cached(fresh: object, max_age: object) -> float | None:
    """The age in seconds that an answer of the cache may have; None when the storage has to be asked."""
    if fresh not in FRESH:
        near = hint(fresh, FRESH) if isinstance(fresh, str) else ""
        raise InvalidInputError(f'fresh must be "storage" or "cache", not {fresh!r}{near}')
    if fresh == "storage":
        if max_age is not None:
            raise InvalidInputError('max_age is for fresh="cache": what the storage says has no age')
        return None
    seconds: Any = MAX_AGE if max_age is None else max_age
    if type(seconds) not in (int, float) or not 0 <= seconds <= _MOST_SECONDS:
        raise InvalidInputError(f"max_age must be a number of seconds from 0 to {_MOST_SECONDS}, not {seconds!r}")
    return float(seconds)


async def cached_head(parts: Parts, key: ThreadKey, max_age: float) -> tuple[Head, LastRead] | None:
    """The newest state as the hot layer tells it; None where the storage has to be asked as for any other read.

    What Redis does not have, or has too old, is read from the storage and brought to Redis.
    """
    hot = await _asked(parts, key)
    if hot is None:
        return None
    from perdure.storage.hot.cache import RedisAway

    engine = parts.engine
    known = engine.known(key)
    try:
        found = await hot.state_alone(key, max_age, known and (known.uid, known.last, known.chain))
    except RedisAway:
        return None
    hot.count_cached(found is not None)
    if found is None:
        restored, _ = await hot.restore_and_fill(key)
        head = await engine.fold(key, restored, is_linked=False) if restored is not None else None
        return head and (head, LastRead(source="storage", age=0.0, version=head.version))
    head = known if found.restored is None else await engine.fold(key, found.restored, is_linked=True)
    return head and (head, LastRead(source="cache", age=found.age, version=head.version))


async def cached_messages(
    parts: Parts, key: ThreadKey, limit: int | None, max_age: float
) -> tuple[list[Any], LastRead] | None:
    """The newest messages as the hot layer tells them; None where the storage has to be asked."""
    hot = await _asked(parts, key)
    if hot is None:
        return None
    from perdure.sessions.messages import WINDOW, Messages
    from perdure.storage.hot.alone import NotInRedis
    from perdure.storage.hot.cache import RedisAway

    try:
        log = await hot.log_alone(key, max_age, None if limit is None else 2 * limit + WINDOW)
        if log is None:
            raise NotInRedis
        said = await Messages(cast("Storage", log)).list(key, limit)  # a list asks it for no more than it has
    except (RedisAway, NotInRedis) as exc:
        if isinstance(exc, NotInRedis):
            hot.count_cached(False)
        return None
    hot.count_cached(True)
    return said, LastRead(source="cache", age=log.age, version=log.row.head)


async def _asked(parts: Parts, key: ThreadKey) -> HotStorage | None:
    """The hot layer, once nothing is queued that it cannot know of."""
    if parts.hot is not None and parts.background is not None:
        await parts.background.settled(key)
    return parts.hot
