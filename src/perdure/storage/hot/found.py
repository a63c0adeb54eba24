"""What Redis says of a thread, and how much of it is believed.

Nothing is believed that does not lead, link by link, to the head that the storage itself names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from perdure.core.digest import GENESIS, body_of, snapshot_digest, verify_links
from perdure.core.entries import Entry
from perdure.core.errors import EntryDamagedError
from perdure.core.threads import ThreadRow
from perdure.core.writes import Restored
from perdure.storage.hot.keys import member_of
from perdure.storage.hot.signing import Base, HeadMark, Refused, Signer

Enough = Callable[[Entry], bool]


class Found:
    """The raw values of one thread, looked at only as far as a question needs them."""

    def __init__(self, signer: Signer, row: ThreadRow, base: object, elements: object, *, asked_at: int = 0) -> None:
        self.row = row
        self.asked_at = asked_at  # when the storage was asked for the row
        self.under: bytes | None = None  # the tombstone that a head mark of this row may be made under; None: no mark
        self.marks: Marks | None = None
        self.refused = 0  # values that are not ours, or not this thread's
        self._signer = signer
        self._member = member_of(row.key)
        self._base = base
        self._unread: list[object] = elements if isinstance(elements, list) else []
        self._known: dict[int, Entry] = {}  # by version, as far as it was looked
        self.count = len(self._unread)
        if not isinstance(elements, list):
            self.refused += 1

    def restored(self) -> Restored | None:
        """What folding the head needs; None unless all of it is here and right."""
        base = self._believed_base()
        if base is None:
            return None
        start, chain = (base.snapshot.version, base.snapshot.chain) if base.snapshot else (0, GENESIS)
        entries = self._between(start, _enough_to_fold)
        if entries is None or self._end(start, chain, entries) != self.row.head_digest:
            return None
        return Restored(row=self.row, snapshot=base.snapshot, entries=[_lean(entry) for entry in entries])

    def entries(self, after: int) -> list[Entry] | None:
        """The entries after a version, with payload; None unless all of them are here and right."""
        entries = self._between(after, _whole)
        if not entries:
            return entries
        # What the first one follows is not here to be seen, but it was when its header and digest were signed together.
        start, chain, rest = (0, GENESIS, entries) if after == 0 else (after + 1, entries[0].chain, entries[1:])
        return entries if self._end(start, chain, rest) == self.row.head_digest else None

    def _believed_base(self) -> Base | None:
        if self._base is None:
            return None
        try:
            return self._signer.base_in(self._member, self.row.uid, self._base)
        except Refused:
            self.refused += 1
            return None

    def known(self) -> dict[int, Entry]:
        """Everything that is ours, by version, with payload where any element has it."""
        while self._unread:
            self._read_next()
        return self._known

    def _between(self, after: int, enough: Enough) -> list[Entry] | None:
        """The entries after a version up to the head; None when one is missing, or a parent's."""
        if after < self.row.parent_version:
            return None
        wanted = range(after + 1, self.row.head + 1)
        picked: dict[int, Entry] = {}
        while len(picked) < len(wanted) and self._unread:
            for entry in self._read_next():
                if entry.version in wanted and enough(entry):
                    picked.setdefault(entry.version, entry)
        return [picked[version] for version in wanted] if len(picked) == len(wanted) else None

    def _read_next(self) -> list[Entry]:
        """The entries of the newest element that was not looked at yet."""
        try:
            entries = self._signer.entries_in(self._member, self.row.uid, self._unread.pop())
        except Refused:
            self.refused += 1
            return []
        for entry in entries:
            if entry.version not in self._known or self._known[entry.version].payload is None:
                self._known[entry.version] = entry
        return entries

    def _end(self, start: int, chain: bytes, entries: Sequence[Entry]) -> bytes | None:
        """The chain digest that entries lead to; values of another life of this thread do not link."""
        try:
            return verify_links(self.row.key.id, start, chain, entries)
        except EntryDamagedError:
            self.refused += 1
            return None


class Marks:
    """The head marks of one thread in Redis."""

    def __init__(self, signer: Signer, member: bytes, values: object) -> None:
        self.is_list = isinstance(values, list)
        self.refused = 0  # values that are not ours, or not this thread's
        self._values: list[bytes] = []
        self._marks: list[HeadMark | None] = []
        for value in values if isinstance(values, list) else []:
            self._read(signer, member, value)

    def _read(self, signer: Signer, member: bytes, value: object) -> None:
        try:
            mark = signer.head_in(member, value)
        except Refused:
            self.refused += 1
            mark = None
        if isinstance(value, bytes):
            self._values.append(value)
            self._marks.append(mark)

    @property
    def newest(self) -> HeadMark | None:
        """The one of the highest version: pushes of several processes arrive in any order."""
        return max(filter(None, self._marks), key=lambda mark: (mark.head, mark.at), default=None)

    def of_others(self, uid: str, under: bytes) -> list[bytes]:
        """Those of another life of the thread, from before its newest tombstone, or not ours."""
        pairs = zip(self._values, self._marks, strict=True)
        return [value for value, mark in pairs if mark is None or (mark.uid, mark.under) != (uid, under)]


def is_sound(restored: Restored) -> bool:
    """Whether what a storage said may be signed: damage that it had would outlive its repair."""
    snapshot, row = restored.snapshot, restored.row
    start, chain = (snapshot.version, snapshot.chain) if snapshot else (0, GENESIS)
    if snapshot and snapshot_digest(snapshot.chain, snapshot.payload) != snapshot.digest:
        return False
    return is_chain(row, start, chain, restored.entries)


def is_chain(row: ThreadRow, start: int, chain: bytes, entries: Sequence[Entry]) -> bool:
    """Whether entries lead from a version to the head, each with the payload that its header names."""
    try:
        for entry in entries:
            if entry.payload is not None:
                body_of(row.key.id, entry)
        return verify_links(row.key.id, start, chain, entries) == row.head_digest
    except EntryDamagedError:
        return False


def _whole(entry: Entry) -> bool:
    return entry.payload is not None


def _enough_to_fold(entry: Entry) -> bool:
    return entry.payload is not None or not entry.changes_state


def _lean(entry: Entry) -> Entry:
    if entry.payload is None or entry.changes_state:
        return entry
    return msgspec.structs.replace(entry, payload=None)
