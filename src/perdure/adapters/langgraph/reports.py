"""What an import or an export says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

import msgspec


class Outcome(StrEnum):
    """What became of a thread."""

    COPIED = "copied"
    GREW = "grew"  # what an earlier time had brought was brought up to it
    SAME = "same"  # everything was there
    REFUSED = "refused"


class Brought(msgspec.Struct, frozen=True, kw_only=True):
    """One thread, those of its subgraphs included, and what became of it."""

    thread: str
    outcome: Outcome
    checkpoints: int  # that the source has
    new: int = 0  # that were written now, each read back and compared
    reason: str = ""  # why it was refused; what came before that stays


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """What became of each thread, and what those weigh on both sides of which something was brought."""

    threads: tuple[Brought, ...]
    source_bytes: int  # of the rows of their threads, without indexes
    target_bytes: int

    @property
    def checkpoints(self) -> int:
        """How many checkpoints the source has."""
        return sum(each.checkpoints for each in self.threads)

    @property
    def new(self) -> int:
        """How many were written now."""
        return sum(each.new for each in self.threads)

    @property
    def refused(self) -> tuple[Brought, ...]:
        """The threads that were not brought, or only in part."""
        return tuple(each for each in self.threads if each.outcome is Outcome.REFUSED)


Progress = Callable[[int, int], None]  # how many checkpoints are done, of how many


class Count:
    """How far the work is."""

    def __init__(self, total: int, told: Progress | None) -> None:
        self._done, self._total, self._told = 0, total, told

    def to(self, done: int) -> None:
        """So many are done."""
        self._done = done
        if self._told is not None:
            self._told(done, self._total)

    def one(self) -> None:
        """One more is done."""
        self.to(self._done + 1)

    @property
    def done(self) -> int:
        """How many are done."""
        return self._done


@dataclass
class Tally:
    """What was found and brought of one thread."""

    before: int = 0  # checkpoints that were there
    new: int = 0
    written: int = 0  # for checkpoints that were there

    @property
    def outcome(self) -> Outcome:
        """What became of the thread."""
        if not self.new and not self.written:
            return Outcome.SAME
        return Outcome.GREW if self.before else Outcome.COPIED
