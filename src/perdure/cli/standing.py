"""A question by its id, as it stands: what somebody is asked before they decide on a terminal."""

from __future__ import annotations

from datetime import datetime

from perdure.app import store as app
from perdure.app.store import namespace_of, parts_of
from perdure.core.calls import told
from perdure.core.errors import InvalidInputError, NotFoundError, PauseClosedError
from perdure.core.pauses import decided_key, decode_decided
from perdure.core.pauses import parts_of as parts_of_pause
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime
from perdure.runtime.decisions import Pause

_LISTED = "`perdure pauses` lists those that are open"


async def open_pause(store: app.Perdure, pause: str, now: datetime) -> Pause:
    """The question of an id; raise `PauseClosedError` when it is too late to answer it, `NotFoundError` without one."""
    parts, row = parts_of(store), await line_of(store, pause)
    found = await parts.running.answers.of(row, parts.users.shown(row.key.user))
    for each in found:
        if each.id == pause:
            return _in_time(each, now)
    raise await _closed(store, row, pause)


async def line_of(store: app.Perdure, pause: str) -> ThreadRow:
    """The line of the thread that a question belongs to."""
    parts, place = parts_of(store), parts_of_pause(pause)
    if place is None:
        raise InvalidInputError(f"{pause!r} is not the id of a pause; {_LISTED}")
    await parts.ready()
    row = await parts.storage.line(place[0])
    if row is None or row.key.namespace != namespace_of(store):
        raise NotFoundError(f"pause {pause}", _LISTED)
    return row


def _in_time(pause: Pause, now: datetime) -> Pause:
    if pause.deadline is not None and now >= pause.deadline:
        raise PauseClosedError(pause.id, "its deadline", False, pause.deadline.isoformat())
    return pause


async def _closed(store: app.Perdure, row: ThreadRow, pause: str) -> Exception:
    """Who was first, or that nobody asked."""
    place = parts_of_pause(pause)
    entry = await parts_of(store).storage.keyed(row.key, decided_key(place[1])) if place else None
    if entry is None:
        return NotFoundError(f"pause {pause}", _LISTED)
    decided = told(row.key.id, entry, decode_decided)
    by = "its deadline" if decided.expired else decided.by
    return PauseClosedError(pause, by, decided.approved, to_datetime(entry.micros).isoformat())
