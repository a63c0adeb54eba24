"""Reading on in a conversation: what the newest entries of a log add to it, where they only add."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from perdure.core.codec import decode_tagged
from perdure.core.conversation import appended, list_at
from perdure.core.digest import body_of, digest_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.following import spoken, taken_back
from perdure.core.messages import MessageRow, message_id, row_of
from perdure.core.ops import Ops, Set
from perdure.core.retention_policy import drops_messages
from perdure.core.steps import Path


class Added(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was said; without a body one that was deleted, which leaves its number."""

    micros: int
    body: bytes | None
    digest: bytes = b""
    version: int | None = None  # of the entry that is exactly this message
    id: str | None = None  # of a message that an entry added


class Removed(msgspec.Struct, frozen=True, kw_only=True):
    """A message that was taken back."""

    id: str
    versions: tuple[int, ...]  # of the entries that it was


Heard = Added | Removed


def read_on(
    thread_id: str, entries: Iterable[Entry], changes: Mapping[int, Ops | None], path: Path, *, is_first: bool
) -> list[Heard] | None:
    """What entries add to a conversation; None when one of them changes what was said before.

    `changes` are those of entries that change the state, None for a pruned one; `is_first` when the log begins here.
    """
    heard: list[Heard] = []
    listed = not is_first  # whether the list may have items already
    for entry in entries:
        if entry.changes_state:
            found = _from_state(entry, changes[entry.version], path, listed)
            listed = True
        else:
            found = _from_entry(thread_id, entry)
        if found is None:
            return None
        heard += found
    return heard


def _from_entry(thread_id: str, entry: Entry) -> Sequence[Heard] | None:
    if entry.kind is EntryKind.MESSAGE_ADDED:
        body = spoken(thread_id, entry)
        id = None if body is None else message_id(body)
        return [Added(micros=entry.micros, body=body, digest=entry.digest, version=entry.version, id=id)]
    if entry.kind is EntryKind.MESSAGE_DELETED:
        id, versions = taken_back(thread_id, entry)
        return [Removed(id=id, versions=versions)]
    return None if entry.kind is EntryKind.RANGE_PRUNED and _drops(thread_id, entry) else []


def _drops(thread_id: str, entry: Entry) -> bool:
    """Whether messages went with a prune."""
    return drops_messages(decode_tagged(body_of(thread_id, entry))["policy"])


def _from_state(entry: Entry, ops: Ops | None, path: Path, listed: bool) -> Sequence[Added] | None:
    if ops is None or entry.kind is EntryKind.THREAD_REWOUND:
        return None
    items = appended(ops, path)
    if items is None and not listed:
        items = _begun(ops, path)
    if items is None:
        return None
    return [Added(micros=entry.micros, body=bytes(item), digest=digest_of(bytes(item))) for item in items]


def _begun(ops: Ops, path: Path) -> list[msgspec.Raw] | None:
    """The list that the first change of a log puts there; None when it does so in any other way."""
    first, *others = ops
    if others or not isinstance(first, Set) or path[: len(first.path)] != first.path:
        return None
    return list_at(first.value, path[len(first.path) :])


class Place(NamedTuple):
    """Where the newest message of an id stands."""

    number: int
    micros: int  # when it was first said
    version: int  # of the entry that it is


class Places:
    """Gives what was heard numbers, as `Conversation` does: one said again under its id stands where it stood."""

    def __init__(self, known: Mapping[str, Place], count: int) -> None:
        self._known = dict(known)  # by id: what entries added
        self.count = count
        self.rows: dict[int, MessageRow] = {}
        self.gone: set[int] = set()

    def take(self, heard: Heard) -> None:
        """Find the place of a message, or take it away."""
        if isinstance(heard, Removed):
            self._remove(heard)
            return
        self.count += 1
        if heard.body is None:
            return
        number, micros = self.count, heard.micros
        if heard.id is not None:
            number, micros, _ = self._known.get(heard.id, (number, micros, 0))
            self._known[heard.id] = Place(number, micros, heard.version or 0)
        self.rows[number] = row_of(number, micros, heard.body, heard.digest, heard.version)

    def _remove(self, removed: Removed) -> None:
        place = self._known.get(removed.id)
        if place is not None and place.version in removed.versions:
            del self._known[removed.id]
            self.rows.pop(place.number, None)
            self.gone.add(place.number)
