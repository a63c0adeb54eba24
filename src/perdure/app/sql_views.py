"""The SQL views of a store: made once, brought up with the logs when somebody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.core.codec import encode
from perdure.core.errors import (
    DamagedError,
    InvalidInputError,
    NotFoundError,
    UnsupportedValueError,
    ValueTooLargeError,
)
from perdure.core.messages import MessageQuery
from perdure.core.render import to_json
from perdure.sessions.messages import Wanted
from perdure.storage.sql import views
from perdure.storage.sql.store import SqlStorage
from perdure.storage.sql.views import Shown, Stale

if TYPE_CHECKING:
    from perdure.app.parts import Parts

Progress = Callable[[int], None]  # how many threads were brought up

_KEPT = "views"
_PAGE = 100


class ViewsReport(msgspec.Struct, frozen=True, kw_only=True):
    """What was brought up."""

    threads: int = 0
    damaged: tuple[str, ...] = ()  # threads that cannot be read: the views show no state of them

    def __str__(self) -> str:
        lines = [f"brought up {self.threads:,} thread{'' if self.threads == 1 else 's'}"]
        return "\n".join([*lines, *(f"  cannot be read: {each!r}" for each in self.damaged)])


async def refresh(parts: Parts, namespace: str, progress: Progress | None = None) -> ViewsReport:
    """Make the views where there are none, and bring them up with every log of a namespace."""
    await parts.ready()
    await parts.flush()
    storage = _sql(parts)
    if storage is None:
        raise InvalidInputError("SQL views need a SQL database: sqlite:, postgresql: or mysql:")
    if not await is_made(parts):
        await storage.change_views(views.make)
        await parts.storage.keep(_KEPT, b"1")
    await storage.change_views(views.purge)
    done, damaged = set[str](), list[str]()
    # One that is written to without a pause is brought up once: else this would never end.
    while page := [each for each in await _stale(storage, namespace, len(done)) if each.uid not in done]:
        for each in page[:_PAGE]:
            shown, is_whole = await _shown(parts, each)
            await storage.change_views(lambda tx, shown=shown: views.put(tx, shown))
            done.add(each.uid)
            damaged += [] if is_whole else [each.key.id]
            if progress is not None:
                progress(len(done))
    return ViewsReport(threads=len(done), damaged=tuple(damaged))


async def _stale(storage: SqlStorage, namespace: str, known: int) -> list[Stale]:
    return await storage.read_views(lambda tx: views.stale(tx, namespace, _PAGE + known))


async def is_made(parts: Parts) -> bool:
    """Whether this store has views."""
    return _sql(parts) is not None and bool(await parts.storage.kept(_KEPT))


async def purge(parts: Parts, *, everything: bool = False) -> None:
    """Remove what the views hold of threads that are gone, or all of it, where there are views."""
    storage = _sql(parts)
    if storage is not None and await is_made(parts):
        await storage.change_views(lambda tx: views.purge(tx, everything=everything))


async def rebuild(parts: Parts, namespace: str) -> None:
    """Make again what the views hold, where there are views."""
    if await is_made(parts):
        await purge(parts, everything=True)
        await refresh(parts, namespace)


async def drop(parts: Parts) -> bool:
    """Remove the views with everything they hold; False when there were none."""
    await parts.ready()
    storage = _sql(parts)
    if storage is None or not await is_made(parts):
        return False
    await storage.change_views(views.drop)
    await parts.storage.discard(_KEPT)
    return True


def _sql(parts: Parts) -> SqlStorage | None:
    """The database behind a store."""
    storage: Any = parts.stored
    storage = getattr(storage, "inner", storage)  # its limits of decoding stand before it
    return storage if isinstance(storage, SqlStorage) else None


async def _shown(parts: Parts, stale: Stale) -> tuple[Shown, bool]:
    """What the views show of a thread, and whether it could be read."""
    # Read to the head that was seen at least: a row never names more of the log than what it shows.
    empty = Shown(uid=stale.uid, version=stale.head, state_version=0, state=None)
    with suppress(DamagedError, ValueTooLargeError, UnsupportedValueError, NotFoundError):
        head = await parts.engine.head(stale.key)
        if head.uid != stale.uid:
            return empty, True  # it is another thread by now
        version, state_version = head.last, head.version
        state = None if head.document.root is None else to_json(head.document.encoded()).decode()
        found = await parts.messages.find(stale.key, Wanted(query=MessageQuery(after=0, limit=None)))
        messages = [
            (each.row.number, each.row.id, each.row.role, each.row.micros, to_json(encode(each.message)).decode())
            for each in found
        ]
        return Shown(uid=stale.uid, version=version, state_version=state_version, state=state, messages=messages), True
    return empty, False
