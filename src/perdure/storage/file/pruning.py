"""What a prune makes of a log: another edition of it, which is put in its place with the entry that tells of it."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain

import msgspec
from msgspec import UNSET

from perdure.core.pruning import Pruning, check_current
from perdure.core.threads import ThreadRow
from perdure.core.writes import Snapshot, base_record
from perdure.storage.file import forks
from perdure.storage.file.bodies import NOTHING
from perdure.storage.file.lines import Header, Line, entry_of
from perdure.storage.file.log import Log
from perdure.storage.file.logs import Logs
from perdure.storage.file.rewriting import among, next_edition, piece_of
from perdure.storage.file.snapshots import Snapshots

Uses = Mapping[int, tuple[bytes, ...]]  # by version: the large values that it is the first to refer to


def check(logs: Logs, log: Log, pruning: Pruning) -> None:
    """Raise `PlanOutdatedError` when the plan is of an earlier thread. The log is held alone: no fork is being made."""
    newer = [header.kind for header in log.index.between(pruning.seen, log.row.head)]
    check_current(log.row, pruning, forks.needed(logs, log), newer)


def prune(logs: Logs, log: Log, pruning: Pruning, line: Line) -> None:
    """Commit a prune and the line that tells of it."""
    shelf, edition = Snapshots(logs.disk, log.folder), log.index.edition + 1
    shedding = _Shedding(pruning, _uses(log.row, pruning))
    old = log.pieces(next_edition(edition, shedding.changed))
    # Derived snapshots go before the commit: lost in vain, they cost time. One left behind could be restored from, in
    # the middle of a range that has no changes any more.
    new = chain(among(old, pruning.records), (piece_of(line),))
    log.rewrite(new, edition, lambda: shelf.drop_if(shedding.outdates))


def put_base(logs: Logs, log: Log, base: Snapshot) -> None:
    """Keep a base, in the place of another snapshot of its version."""

    def changed(line: Line) -> Line | None:
        return None if line.record and line.record.whole and line.record.version == base.version else line

    edition = log.index.edition + 1
    old = log.pieces(next_edition(edition, changed))
    new = among(old, (base_record(log.row.parent_version, base),))
    log.rewrite(new, edition, lambda: Snapshots(logs.disk, log.folder).drop(base.version))


def _uses(row: ThreadRow, pruning: Pruning) -> Uses | None:
    """The new uses of large values; None when they are not known: what was written since the plan may have others."""
    if pruning.uses is None or row.head != pruning.seen:
        return None
    found: dict[int, tuple[bytes, ...]] = {}
    for digest, first in pruning.uses.items():
        version = first if row.parent_version < first <= row.head else 0  # one that no line has stays with the first
        found[version] = (*found.get(version, ()), digest)
    return found


class _Shedding:
    """What a prune takes away from each line."""

    def __init__(self, pruning: Pruning, uses: Uses | None) -> None:
        self._pruning = pruning
        self._uses = uses
        self._put = {record.version for record in pruning.records}
        self._bases = {record.version for record in pruning.records if record.whole}

    def outdates(self, version: int) -> bool:
        """Whether a whole state of this version goes, or gives way to a base."""
        return version in self._bases or self._pruning.covers(version)

    def changed(self, line: Line) -> Line | None:
        """What is left of a line."""
        if line.record is not None:
            version, whole = line.record.version, line.record.whole
            return None if self.outdates(version) or (version in self._put and not whole) else line
        entries = tuple(map(self._header, line.entries))
        mark, changed = line.checkpoint, line.changed
        if mark and mark.entry in self._pruning.unmarked and changed.last_checkpoint is UNSET:
            changed = msgspec.structs.replace(changed, last_checkpoint=mark.id)  # it no longer follows from the line
        return msgspec.structs.replace(
            line,
            changed=changed,
            entries=entries,
            checkpoint=None if mark and mark.entry in self._pruning.unmarked else mark,
            blobs=self._blobs(line),
            payload=tuple(
                NOTHING if header.is_blank else text for header, text in zip(entries, line.payload, strict=False)
            ),
        )

    def _header(self, header: Header) -> Header:
        blank = self._pruning.blanks(entry_of(header, None))
        return msgspec.structs.replace(header, size=0, packed=False) if blank else header

    def _blobs(self, line: Line) -> tuple[bytes, ...]:
        if self._uses is None:
            return line.blobs
        stray = self._uses.get(0, ()) if isinstance(line.changed.uid, str) else ()
        return (*stray, *(digest for header in line.entries for digest in self._uses.get(header.version, ())))
