"""What a run wrote into the state, found again by what was written: another order of parallel code changes nothing.

The key of a write is `w.CONTENT`, of one that was made while nothing else of its scope was under way `w.CONTENT.AT`,
of one inside a step `w.CONTENT.AT.STEP`: a resumed run reads them off the headers of its log, once.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from perdure.core.calls import TOP, key_digest, shown
from perdure.core.checkpoint import CheckpointMark
from perdure.core.entries import STATE_KINDS

if TYPE_CHECKING:
    from perdure.runtime.journal import Journal

_STEP = 8  # characters of the id of a step


class Put(NamedTuple):
    """A write as the code makes it."""

    what: str
    content: str  # what tells it from the others of its run
    at: int  # how many writes its scope had made before it
    in_sequence: bool  # nothing else of its scope was under way
    step: str  # the step it is made in; empty for the run itself

    def __str__(self) -> str:
        return f"{self.what} number {self.at + 1}"

    @property
    def key(self) -> str:
        """The key that it stands under."""
        place = str(self.at) if self.in_sequence else ""
        return ".".join(("w", self.content, place, self.step)).rstrip(".")


def step_of(call_id: bytes) -> str:
    """The part of a key that says which step a write was made in."""
    return "" if call_id == TOP else shown(call_id)[:_STEP]


def asked_for(digest: bytes, mark: CheckpointMark | None) -> bytes:
    """What tells one write from another: its values, and those of its checkpoint."""
    marked = None if mark is None else [mark.kind, mark.status, mark.note, mark.metadata]
    return key_digest([digest, marked])


class _Writes:
    """The writes of one scope."""

    def __init__(self) -> None:
        self.versions: dict[str, int] = {}  # by content
        self.places: dict[int, int] = {}  # of those in sequence


class Written:
    """The writes of a run that stand."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._scopes: dict[str, _Writes] = {}
        self._loaded = False

    async def load(self) -> None:
        """Read off the log what was written since the run began."""
        journal, kinds = self._journal, tuple(STATE_KINDS)
        if journal.state_version > journal.began:
            most = journal.head - journal.began
            headers = await journal.storage.headers(journal.key, at=journal.head, kinds=kinds, limit=most)
            for header in headers:
                if header.version > journal.began and header.key is not None and header.key.startswith("w."):
                    self._note(header.key, header.version)
        self._loaded = True  # not before: a write beside this one would not be found, and made twice

    def _note(self, key: str, version: int) -> None:
        content, place, step = [*key.split(".")[1:], "", ""][:3]
        scope = self._scopes.setdefault(step, _Writes())
        scope.versions[content] = version
        if place:
            scope.places[int(place)] = version

    async def stands(self, call_id: bytes, at: int) -> bool:
        """Whether a scope made a write at this place, in sequence."""
        if not self._loaded:
            await self.load()
        scope = self._scopes.get(step_of(call_id))
        return scope is not None and at in scope.places

    async def find(self, put: Put, *, resumed: bool) -> int | None:
        """The version of a write that stands."""
        if resumed and not self._loaded:
            await self.load()
        scope = self._scopes.get(put.step)
        return scope.versions.get(put.content) if scope else None

    def other(self, put: Put) -> int | None:
        """The write that the log has in this place, where the code follows the log step by step."""
        scope = self._scopes.get(put.step) if put.in_sequence else None
        return scope.places.get(put.at) if scope else None

    def keep(self, put: Put, version: int) -> None:
        """A step that is tried again makes its writes again; nobody else does."""
        if put.step:
            self._note(put.key, version)

    def forget_inside(self, call_id: bytes) -> None:
        """A step is recorded: nobody makes the writes inside it again."""
        if self._scopes:
            self._scopes.pop(step_of(call_id), None)
