"""What comes with a write besides the state, and what comes back."""

from __future__ import annotations

import msgspec

from perdure.core.checkpoint import CheckpointMark
from perdure.core.entries import NewEntry
from perdure.core.threads import NO_PATCH, ThreadPatch
from perdure.core.writes import Appended


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """The circumstances of one write."""

    mark: CheckpointMark | None = None  # its id is made when it is written, after those of the thread
    by_itself: bool = False  # nobody asked for the mark: the same write without it is the same request
    key: str | None = None
    actor: str | None = None
    patch: ThreadPatch = NO_PATCH
    uid: str | None = None  # the thread its caller has seen; another of the same id is not it
    epoch: int | None = None  # of the lease of the run that writes
    renew_until: int = 0  # how long that lease lasts then
    after_run: int | None = None  # the newest run that its caller has seen; after another one it is refused
    head: int | None = None  # the newest version that its caller has seen; after another entry it is refused
    content: bytes | None = None  # the digest of what is written, where its caller has made it already
    also: tuple[NewEntry, ...] = ()  # entries that are written just before it, in the same write

    def with_entries(self, *entries: NewEntry) -> Request:
        """The same, with entries that are written just before it."""
        return msgspec.structs.replace(self, also=(*self.also, *entries))

    def asked(self) -> list[object]:
        """What of it belongs to the request that a key stands for; the id of a checkpoint is made, not asked for."""
        mark = None if self.by_itself else self.mark
        digests = [entry.digest for entry in self.also]
        return [*([None] if mark is None else [mark.kind, mark.status, mark.note, mark.metadata]), *digests]


class Saved(msgspec.Struct, frozen=True):
    """A write that stands."""

    appended: Appended
