"""Runs as people see them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from perdure.core.codec import decode_known
from perdure.core.entries import EntryKind
from perdure.core.runs import CANCELLED, FINISHED, INTERRUPTED, RUNNING, Current
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime
from perdure.runtime.attending import UNTOLD
from perdure.runtime.owner import is_dead


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A run: what it is, how far it came, and how it ended."""

    id: str
    thread: str
    user: Any
    agent: str | None  # the handler; None for a block of code
    key: str | None
    status: str
    input: Any = None
    result: Any = None
    error: str = ""
    traceback: str = ""  # of its newest failure, while it has not got over it
    attempts: int = 0
    owner: str | None = None  # who runs it now
    started_at: datetime
    updated_at: datetime
    wake_at: datetime | None = None
    version: int = 0  # of its first entry
    quarantined: bool = False  # its thread was imported: it does not go on until somebody trusts the thread


def info_of(
    row: ThreadRow, user: Any, current: Current, now: int, error: str = "", traceback: str = ""
) -> RunInfo:  # fmt: skip
    """What the line and the log of a thread tell of its newest run."""
    started, end = current.started, current.end
    wake_at = None if row.wake_at in (None, UNTOLD) else to_datetime(row.wake_at)
    return RunInfo(
        id=started.run, thread=row.key.id, user=user, agent=started.name, key=started.key,
        status=status_of(row, current, now), input=decode_known(bytes(started.input)),
        result=decode_known(bytes(end.value)) if end else None, error=error or (end.text if end else ""),
        traceback=traceback, attempts=row.attempts, owner=row.lease_owner, started_at=to_datetime(current.micros),
        updated_at=to_datetime(row.updated), wake_at=wake_at,
        version=current.version, quarantined=row.is_quarantined,
    )  # fmt: skip


def status_of(row: ThreadRow, current: Current, now: int) -> str:
    """The status of a thread's newest run. One that says it runs, and that nobody runs, was cut off."""
    if current.end_kind is not None:
        return FINISHED if current.end_kind is EntryKind.RUN_FINISHED else CANCELLED
    if row.status == RUNNING and not is_live(row, now):
        return INTERRUPTED
    return row.status


def is_live(row: ThreadRow, now: int) -> bool:
    """Whether somebody runs a thread."""
    return row.lease_owner is not None and row.lease_until > now and not is_dead(row.lease_owner)
