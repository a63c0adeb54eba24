"""`lease.json`: who runs a thread, and when somebody should look after it.

A lease changes every few seconds while a thread runs, so it is not in the log. A write that changes it (a renewal by
the way, a timer) says so in its line; `turn` tells which of the two is newer.
"""

from __future__ import annotations

from posixpath import join

import msgspec

from perdure.core.errors import EntryDamagedError
from perdure.core.threads import ThreadRow
from perdure.storage.file import files
from perdure.storage.file.disk import Disk
from perdure.storage.file.lines import CannotReadLine, Lease, checked, lease_in, written

NAME = "lease.json"


class LeaseFile(msgspec.Struct, frozen=True, omit_defaults=True):
    """The file. `look_at` is never later than the moment the thread is due, and may be earlier."""

    lease: Lease = Lease()
    look_at: int | None = None


_FILE = msgspec.json.Decoder(LeaseFile)


def read(disk: Disk, folder: str, thread_id: str, version: int) -> LeaseFile:
    """The lease of a thread; one that was never claimed has none."""
    data = files.get(disk, join(folder, NAME))
    if data is None:
        return LeaseFile()
    try:
        return checked(data, _FILE)
    except CannotReadLine as exc:
        # Guessing an epoch could let a run go on whose lease was taken.
        raise EntryDamagedError(thread_id, version, f"has a {NAME} that {exc}") from exc


def keep(disk: Disk, folder: str, row: ThreadRow, turn: int) -> Lease:
    """Make the lease of `row` durable."""
    lease = lease_in(row, turn)
    files.put(disk, join(folder, NAME), written(LeaseFile(lease, due_at(row))))
    return lease


def announce(disk: Disk, folder: str, known: LeaseFile, after: ThreadRow) -> None:
    """Write down an earlier moment to look, before the write that sets it is committed.

    In the other order, a crash between the two would leave a timer that no sweep ever finds.
    """
    at = due_at(after)
    if at is not None and (known.look_at is None or at < known.look_at):
        files.put(disk, join(folder, NAME), written(LeaseFile(known.lease, at)))


def due_at(row: ThreadRow) -> int | None:
    """When somebody should look; None is never. A sweep does not open a thread that nobody trusts."""
    if row.is_quarantined:
        return None
    return row.lease_until if row.lease_owner is not None else row.wake_at
