"""Whether a thread is what was written: its log link by link, and everything that is kept beside it.

Every damage is told with its place, not only the first. What is derived from the log can be made again; what is damaged
in the log itself cannot.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import groupby, pairwise

import msgspec

from perdure.core.digest import GENESIS, header_rest, link
from perdure.core.entries import STATE_KINDS, Entry, EntryKind
from perdure.core.errors import MISSING
from perdure.core.identity import ThreadKey
from perdure.core.printable import printable
from perdure.core.pruning import Record, is_blank, standing_for
from perdure.core.retention_words import shown
from perdure.core.said import Said
from perdure.core.threads import ThreadRow

_NEAR = 4  # chain digests that an entry after damaged ones may follow from
_EMPTY = "is empty, and nothing stands for it"


class Damage(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is not as it was written."""

    thread_id: str
    user: str
    place: str  # entry 7, checkpoint chk_…, snapshot at version 9, directory line …
    reason: str
    version: int | None = None
    derived: bool = False  # `repair` makes it again from the log
    namespace: str = ""

    def __str__(self) -> str:
        owner = f" of {shown(self.user)}" if self.user else ""
        return f"{shown(self.thread_id)}{owner}: {printable(self.place)} {printable(self.reason)}"


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What was looked at, and what was found damaged."""

    threads: int = 0
    entries: int = 0
    points: int = 0
    snapshots: int = 0
    restored: int = 0  # points that were restored and compared
    forgotten: int = 0  # users who were forgotten, as the tombstones say
    interrupted: int = 0  # forgets that were begun and not finished: `forget` for the same user completes them
    damaged: list[Damage] = []

    @property
    def ok(self) -> bool:
        """Whether everything is as it was written."""
        return not self.damaged

    def plus(self, other: Report) -> Report:
        """Both together."""
        names = ("threads", "entries", "points", "snapshots", "restored", "forgotten", "interrupted")
        sums = {name: getattr(self, name) + getattr(other, name) for name in names}
        return Report(**sums, damaged=[*self.damaged, *other.damaged])

    def __str__(self) -> str:
        seen = [_count(self.threads, "thread"), _count(self.entries, "entry"), _count(self.points, "checkpoint")]
        seen += [_count(self.snapshots, "snapshot")]
        seen += [f"{self.restored:,} restored and compared"] if self.restored else []
        seen += [f"{_count(self.forgotten, 'user')} forgotten"] if self.forgotten else []
        seen += [f"{_count(self.interrupted, 'forget')} not finished"] if self.interrupted else []
        verdict = "intact" if self.ok else f"{_count(len(self.damaged), 'damage')}"
        return "\n".join([f"{verdict}: {', '.join(seen)}", *(f"  {each}" for each in self.damaged)])


def _count(number: int, noun: str) -> str:
    several = noun[:-1] + "ies" if noun.endswith("y") else noun + "s"
    return f"{number:,} {noun if number == 1 else several}"


class Finder:
    """Collects the damages of one thread."""

    def __init__(self, key: ThreadKey) -> None:
        self._key = key
        self.found: list[Damage] = []

    def add(self, place: str, reason: str, version: int | None = None, *, derived: bool = False) -> None:
        """One more; what was said once is not said again."""
        key = self._key
        damage = Damage(
            thread_id=key.id, user=key.user, namespace=key.namespace, place=place, reason=reason, version=version,
            derived=derived,
        )  # fmt: skip
        if damage not in self.found:
            self.found.append(damage)

    def add_entries(self, faults: Iterable[tuple[int, str]]) -> None:
        """Damaged entries; neighbours with the same fault are told as one."""
        ordered = sorted(set(faults))
        runs = groupby(enumerate(ordered), key=lambda each: (each[1][0] - each[0], each[1][1]))
        for (_, reason), run in runs:
            versions = [version for _, (version, _) in run]
            self.add_range(versions[0], versions[-1], reason)

    def add_range(self, first: int, last: int, reason: str) -> None:
        """Entries that lie side by side and have the same fault."""
        if first == last:
            self.add(f"entry {first}", reason, first)
        elif first < last:
            self.add(f"entries {first} to {last}", f"each {reason}", first)


def check_links(finder: Finder, entries: Sequence[Entry], lost: Collection[int] = ()) -> set[int]:
    """Check that the entries are there without a gap and that each follows; return the versions that do not.

    Those that are `lost` were told already. After a damaged one the walk goes on with what is stored, so that the
    damage is told where it is.
    """
    version, near, faults = 0, [GENESIS], list[tuple[int, str]]()
    for entry in entries:
        if entry.version > version + 1:
            ends = [version, *sorted(each for each in lost if version < each < entry.version), entry.version]
            for before, after in pairwise(ends):
                finder.add_range(before + 1, after - 1, MISSING)
            near = []  # nothing is left that could vouch for this one but those after it
        made = [_linked(chain, entry) for chain in near]
        if entry.version <= version:
            faults.append((entry.version, "is there twice"))
        elif near and entry.chain not in made:
            faults.append((entry.version, "does not follow from the one before: wrong chain digest"))
            near = [*near, *(each for each in made[-1:] if each), entry.chain][-_NEAR:]
        else:
            near = [entry.chain]
        version = max(version, entry.version)
    finder.add_entries(faults)
    return {at for at, _ in faults}


def _linked(chain: bytes, entry: Entry) -> bytes | None:
    try:
        rest = header_rest(entry, entry.write_id, entry.key, entry.request)
        return link(chain, entry.version, entry.micros, rest, entry.digest)
    except (AttributeError, TypeError, OverflowError):
        return None  # a damaged row: a text where a number should be


def check_bodies(finder: Finder, row: ThreadRow, said: Said, entries: Sequence[Entry]) -> None:
    """Check every body, and that something stands for each that is empty; what does not say anything is unread."""
    empty = [entry for entry in entries if is_blank(entry) and not _is_accounted_for(row, said, entry)]
    said.unread.update((entry.version, _EMPTY) for entry in empty)
    finder.add_entries(said.unread.items())


_EMPTIED_KINDS = (EntryKind.CHECKPOINT_SAVED, EntryKind.MESSAGE_ADDED)


def _is_accounted_for(row: ThreadRow, said: Said, entry: Entry) -> bool:
    """Whether a prune emptied an entry. In a parent's part, the entry that tells of it may come after the fork."""
    if entry.changes_state:
        return standing_for(said.records, entry.version) is not None
    inherited = entry.version <= row.parent_version and entry.kind in _EMPTIED_KINDS
    return inherited or entry.version < said.last_prune or entry.version in said.emptied


def check_records(finder: Finder, row: ThreadRow, said: Said, chains: Mapping[int, bytes]) -> None:
    """Check what stands for pruned ranges: it belongs to this log, and the entry that told of it vouches for it."""
    told = {(low, high): (chain, digest) for each in said.prunes for low, high, chain, digest in each.records}
    for record in said.records:
        place = _record_place(record)
        if chains.get(record.version) != record.chain:
            finder.add(place, "belongs to another log", record.version)
        vouched = told.get((record.low, record.version))
        if vouched is None and record.version > row.parent_version:
            finder.add(place, "is not named by any range.pruned entry", record.version)
        elif vouched is not None and vouched != (record.chain, record.digest):
            finder.add(place, "is not the one that the range.pruned entry names", record.version)


def _record_place(record: Record) -> str:
    return f"{'base' if record.whole else 'composed change'} of versions {record.low + 1} to {record.version}"


def check_end(finder: Finder, row: ThreadRow, entries: Sequence[Entry]) -> None:
    """Check that the log ends where the directory says, and as it says."""
    if row.head < row.parent_version:
        reason = f"names version {row.head} as the newest of a fork that began at {row.parent_version}"
        finder.add("directory line", reason, derived=True)
        return
    last, digest = (entries[-1].version, entries[-1].chain) if entries else (0, GENESIS)
    if last < row.head and digest != row.head_digest:
        finder.add_range(last + 1, row.head, MISSING)
    elif last != row.head:
        goes_on = f"ends with {last}" if last < row.head else f"goes on to {last}"
        finder.add("directory line", f"names version {row.head} as the newest, the log {goes_on}", derived=True)
    at_head = {entry.version: entry.chain for entry in entries}.get(row.head, GENESIS if row.head == 0 else None)
    if at_head is not None and row.head_digest not in (at_head, digest):
        finder.add("directory line", f"has another head digest than entry {row.head}", row.head, derived=True)


def check_line(finder: Finder, row: ThreadRow, made: ThreadRow) -> None:
    """Compare the rest of a directory line with what follows from the log."""
    words = {
        "state_version": "newest version of the state", "run": "newest run", "updated": "time",
        "last_checkpoint": "newest checkpoint",
    }  # fmt: skip
    for name, noun in words.items():
        stands, follows = getattr(row, name), getattr(made, name)
        if stands != follows:
            finder.add("directory line", f"has {stands!r} as its {noun}, the log has {follows!r}", derived=True)
    if row.lease_owner is None and row.lease_until:
        finder.add("directory line", "has the end of a lease that nobody holds", derived=True)


def changed_state(entries: Iterable[Entry], head: int) -> int:
    """The newest version up to a head that changed the state, 0 when none did."""
    return max((entry.version for entry in entries if entry.kind in STATE_KINDS and entry.version <= head), default=0)
