"""What an imported thread may do before somebody trusts it, and with which standing a thread arrives in a storage.

A file is a claim of whoever wrote it: its digests say that it is whole, not that it is true. A thread from a file is
therefore quarantined when it is inserted, in the same write. It is read and written like any other, but it is never
due, no lease of it can be claimed, and no decision about it is kept. The mark and the origin are fields of the row, so
that forks, copies and exports of the thread carry them too.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from perdure.core.entries import EntryKind
from perdure.core.errors import QuarantinedError, ThreadExistsError
from perdure.core.threads import ThreadRow

# What starts a run, answers its question, or reaches it from outside. All of them are kinds that the short cuts of
# storages leave to `core.writes.admit` (`core.writes.WAKING_KINDS`).
RUN_KINDS = frozenset(
    {EntryKind.RUN_STARTED, EntryKind.PAUSE_APPROVED, EntryKind.PAUSE_DECIDED, EntryKind.SIGNAL_RECEIVED}
)


def check_run(row: ThreadRow) -> None:
    """Raise `QuarantinedError` unless a thread may be run, and decisions about it count."""
    if row.is_quarantined:
        raise QuarantinedError(row.key.id)


def check_write(row: ThreadRow, kinds: Iterable[EntryKind]) -> None:
    """Raise `QuarantinedError` for entries that a quarantined thread does not take."""
    if row.is_quarantined and not RUN_KINDS.isdisjoint(kinds):
        raise QuarantinedError(row.key.id)


def with_standing_of(row: ThreadRow, other: ThreadRow) -> ThreadRow:
    """The row with the quarantine and the origin of another: a fork has those of its parent."""
    return msgspec.structs.replace(
        row, quarantined_at=other.quarantined_at, origin=other.origin, origin_version=other.origin_version
    )


def shares_past(parent: ThreadRow, child: ThreadRow) -> bool:
    """Whether a copied fork may use the entries of a parent that stands here as its own past.

    What stands for pruned ranges is not part of the chain: a trusted fork must not read it from a thread that nobody
    trusts, even where all chain digests are equal.
    """
    return child.is_quarantined or not parent.is_quarantined


class Arrival(msgspec.Struct, frozen=True, kw_only=True):
    """How threads arrive in a storage. As it is by default, an operator copies them from another storage."""

    origin: str | None = None  # SHA-256 of the file they come from
    signed: bool = True  # the source is this store's own word; only such a source continues a thread that is here
    trusted: bool = True  # the operator vouches for the source: threads keep the standing that they have there
    now: int = 0

    def new(self, row: ThreadRow) -> ThreadRow:
        """The row of a thread that is not here yet."""
        if self.trusted:
            return row
        return msgspec.structs.replace(row, quarantined_at=self.now, origin=self.origin, origin_version=row.head)

    def frees(self, standing: ThreadRow, row: ThreadRow) -> bool:
        """Whether a thread that is quarantined here is to be replaced by a trusted one of the same history."""
        return self.trusted and standing.is_quarantined and not row.is_quarantined

    def grown(self, standing: ThreadRow, row: ThreadRow) -> ThreadRow:
        """The row of a thread that is continued by one that arrives. Growing does not change the standing.

        Raises `ThreadExistsError` where the source may not continue it.
        """
        if not self.signed:
            raise ThreadExistsError(row.key.id, UNSIGNED)
        if row.is_quarantined and not standing.is_quarantined:
            raise ThreadExistsError(row.key.id, CONTINUED_BY_QUARANTINED)
        return with_standing_of(row, standing)


UNSIGNED = (
    "the file is not signed with a key of this store and must not change a thread that is here; "
    "import it beside it, under another id (to=…, --to)"
)
CONTINUED_BY_QUARANTINED = (
    "the one that arrives is quarantined where it comes from and must not change a trusted thread; "
    "trust it there first, or put it here under another id"
)
