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
    """The file."""

    lease: Lease = Lease()


_FILE = msgspec.json.Decoder(LeaseFile)


def read(disk: Disk, folder: str, thread_id: str, version: int) -> LeaseFile:
    """The lease of a thread; one that was never claimed has none."""
    path = join(folder, NAME)
    data = files.get(disk, path) if disk.stat(path) is not None else None
    if data is None:
        return LeaseFile()
    try:
        return checked(data, _FILE)
    except CannotReadLine as exc:
        # Guessing an epoch could let a run go on whose lease was taken.
        raise EntryDamagedError(thread_id, version, f"has a {NAME} that {exc}, which `repair` replaces") from exc


def keep(disk: Disk, folder: str, row: ThreadRow, turn: int) -> Lease:
    """Make the lease of `row` durable."""
    lease = lease_in(row, turn)
    write(disk, folder, lease)
    return lease


def write(disk: Disk, folder: str, lease: Lease) -> None:
    """Make a lease durable."""
    files.put(disk, join(folder, NAME), written(LeaseFile(lease)))


def is_readable(disk: Disk, folder: str) -> bool:
    """Whether there is no lease, or one that can be read."""
    try:
        read(disk, folder, folder, 0)
    except EntryDamagedError:
        return False
    return True


def due_at(row: ThreadRow) -> int | None:
    """When somebody should look; None is never. A sweep does not open a thread that nobody trusts."""
    if row.is_quarantined:
        return None
    return row.lease_until if row.lease_owner is not None else row.wake_at
