"""After a backup was restored: another incarnation, no allowances, and unfinished runs wait for a person.

What was written after the backup is forgotten, also that a tool was about to run. A run that went on by itself would
run it a second time, and a cache may know states that the storage has never had.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from perdure.checkpoints.requests import Request
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.retention_words import shown
from perdure.core.runs import CANCELLED, FINISHED
from perdure.core.threads import IDLE, ThreadPatch, ThreadRow
from perdure.runtime import allowances
from perdure.storage.contract import INCARNATION
from perdure.storage.listing import all_threads

if TYPE_CHECKING:
    from perdure.app.parts import Parts

_SIZE = 8  # bytes


class Restoration(msgspec.Struct, frozen=True, kw_only=True):
    """What was done after a backup was restored."""

    incarnation: str  # in hex
    quarantined: list[ThreadKey]  # threads whose runs wait until somebody trusts them

    def __str__(self) -> str:
        count = len(self.quarantined)
        waiting = f"{count:,} unfinished run{' waits' if count == 1 else 's wait'} for `perdure trust`"
        lines = [f"incarnation {self.incarnation}; {waiting}"]
        for key in self.quarantined:
            lines.append(f"  {shown(key.id)}{f' of {shown(key.user)}' if key.user else ''}")
        return "\n".join(lines)


async def restored(parts: Parts, by: str) -> Restoration:
    """Give the storage another incarnation and quarantine every unfinished run. Doing it twice does no harm."""
    storage = parts.storage
    await storage.discard(INCARNATION)
    incarnation = await storage.keep(INCARNATION, parts.randomness.bytes(_SIZE))
    found: list[ThreadKey] = []
    for namespace in await storage.namespaces():
        for row in await all_threads(storage, namespace, None):
            if allowances.is_active(row):
                # It may have been revoked, or used up, after the backup.
                await allowances.end(parts.engine, row, by)
            elif _is_unfinished(row) and await _quarantine(parts, row, by):
                found.append(row.key)
    return Restoration(incarnation=incarnation.hex(), quarantined=found)


def _is_unfinished(row: ThreadRow) -> bool:
    """Whether a run may go on. One that failed may be resumed: what it did after the backup nobody knows."""
    waits = row.lease_owner is not None or row.wake_at is not None
    return not row.is_quarantined and (waits or (row.run > 0 and row.status not in (IDLE, FINISHED, CANCELLED)))


async def _quarantine(parts: Parts, row: ThreadRow, by: str) -> bool:
    entry = parts.engine.entry(EntryKind.THREAD_QUARANTINED, encode({"version": row.head}), by)
    patch = ThreadPatch(quarantined_at=max(parts.clock.now(), 1))
    try:
        await parts.engine.speak(row.key, [entry], Request(actor=by, uid=row.uid, patch=patch))
    except NotFoundError:
        return False  # deleted meanwhile
    return True
