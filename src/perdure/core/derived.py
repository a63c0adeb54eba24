"""What a storage keeps of a thread beside its log. All of it can be made again from the log."""

from __future__ import annotations

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.entries import Entry
from perdure.core.pruning import Record
from perdure.core.seams import Rewind
from perdure.core.threads import ThreadRow


class Derived(msgspec.Struct, frozen=True, kw_only=True):
    """The directory line and the indexes of a thread's own part of its history."""

    row: ThreadRow
    checkpoints: list[CheckpointRow] = []  # in order of their entries
    rewinds: list[Rewind] = []  # in order
    uses: dict[bytes, int] = {}  # by digest of a large value: the first version that refers to it
    snapshots: list[int] = []  # versions of whole states that may be dropped, in order
    beyond: list[Entry] = []  # entries after the head that the line names, which no reader sees
    records: list[Record] = []  # what stands for pruned ranges that end after it
    is_catalogued: bool = True  # whether the storage's second record of its threads names this one


def same_line(one: ThreadRow, other: ThreadRow) -> bool:
    """Whether a thread is where it was: nobody wrote to it, and it was not made anew."""
    return (one.uid, one.head, one.head_digest) == (other.uid, other.head, other.head_digest)


def mended(standing: ThreadRow, made: ThreadRow) -> ThreadRow:
    """The line as it stands now, with what follows from the log: a lease that was given since is not taken back."""
    return msgspec.structs.replace(
        standing,
        head=made.head,
        state_version=made.state_version,
        run=made.run,
        head_digest=made.head_digest,
        last_checkpoint=made.last_checkpoint,
        updated=made.updated,
        lease_until=standing.lease_until if standing.lease_owner is not None else 0,
    )
