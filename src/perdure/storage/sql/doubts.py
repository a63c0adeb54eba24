"""What became of a transaction whose answer was lost: looked up, and answered as the caller would have been."""

from __future__ import annotations

import msgspec

from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.core.writes import Write
from perdure.storage.sql.history import pieces, thread
from perdure.storage.sql.rows import StoredThread, entry_of
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.writing import Answer, again


async def landed(tx: Transaction, write: Write, since: int, made: Answer | None) -> Answer | None:
    """Whether a write whose answer was lost stands; None when it does not and may be made now."""
    stored = await thread(tx, write.key, lock=True)
    if stored is None:
        return None
    found = await again(tx, stored, msgspec.structs.replace(write, since=since))
    if found is None or made is not None:
        return made if found else None
    return await _as_made(tx, write, (found, stored.number))


async def _as_made(tx: Transaction, write: Write, found: Answer) -> Answer:
    """A write that was found standing, as the caller who made it just now should see it.

    Told that it had been written `again`, a caller would not take the version for one that it has seen, and conflict
    with itself at the next write. A key that stands since an earlier call is another matter.
    """
    appended, number = found
    if appended.row.head != appended.version:
        return found  # others wrote since: whoever believed to stand at this line would not have seen their changes
    stored, first = StoredThread(number, appended.row), appended.version - len(write.entries) + 1
    rows = await tx.rows(tx.sql.LIGHT_ENTRIES, (stored.place(first - 1), stored.place(first), 1))
    if not rows or entry_of(rows[0]).write_id != write.write_id:
        return found
    before = await _state_version_at(tx, stored, first - 1)
    return msgspec.structs.replace(appended, again=False, before=before), number


async def _state_version_at(tx: Transaction, stored: StoredThread, version: int) -> int:
    """The last version up to this one that changed the state, 0 if none did."""
    for owner, span in await pieces(tx, stored, version):
        for (found,) in await tx.rows(tx.sql.LAST_STATE, (owner.place(span.low), owner.place(span.high))):
            return found
    return 0


async def line_changed(tx: Transaction, key: ThreadKey, after: ThreadRow | None) -> ThreadRow | None:
    """Whether a claim or release whose answer was lost stands: the line as it was made, or None."""
    stored = await thread(tx, key)
    if stored is None or after is None:
        return None
    same = stored.row.epoch == after.epoch and stored.row.lease_owner == after.lease_owner
    claimed_since = after.lease_owner is None and stored.row.epoch > after.epoch
    return after if same or claimed_since else None


async def is_gone(tx: Transaction, key: ThreadKey, uid: str | None) -> str | None:
    """Whether a deletion whose answer was lost stands: the uid, or None. A later thread of that name is another one."""
    stored = await thread(tx, key)
    return uid if stored is None or stored.row.uid != uid else None
