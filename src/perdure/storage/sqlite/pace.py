"""Where a commit of asynchronous callers is made, and when the WAL is copied into the database."""

from __future__ import annotations

import os

_QUICK = 0.0005  # seconds of a commit that an event loop may be held up for
_TRUST = 16  # quick commits in a row before one is made in place
_DOUBT = 256  # … at most, after one that was not: as many times more as it took longer
_IN_A_ROW = 4  # writes that are made at once before one waits its turn
_WRITES = 256  # writes between two copies of the WAL: about the 1000 pages after which SQLite does it by itself
_LOOK = 8  # writes between two looks at the size of the WAL
_LARGE = 4 * 1024 * 1024  # bytes of a WAL that may be there without having grown


class Pace:
    """Whether the disk is so quick that a commit is made on the event loop.

    Handing it to a thread and being told of its end takes a tenth of a millisecond, as long as the commit itself on
    such a disk. A disk that is slow, if only once, has the thread wait for it from then on, until it has been quick
    for a while, the longer the slower it was: what an event loop is held up for beyond quick commits is the 32nd part
    of a millisecond each on the average, but for a disk that stands still.
    """

    def __init__(self, trust: int = _TRUST) -> None:
        self._missing = trust

    @property
    def is_quick(self) -> bool:
        return not self._missing

    def note(self, seconds: float) -> None:
        """A commit took so long."""
        if seconds > _QUICK:
            self._missing = max(self._missing, min(int(seconds / _QUICK * _TRUST), _DOUBT))
        elif self._missing:
            self._missing -= 1


class Company:
    """Whether writers come one at a time: then a write is made at once, and its caller goes on without a wait.

    Going through the event loop takes two of its rounds, a tenth of a commit each. But who never waits never lets the
    others in: so every few writes wait their turn all the same, and where somebody joined them, the next ones do too.
    """

    def __init__(self) -> None:
        self._missing = _TRUST
        self._in_a_row = 0

    def is_absent(self) -> bool:
        """Whether the next write is made at once."""
        if self._missing or self._in_a_row >= _IN_A_ROW:
            self._in_a_row = 0
            return False
        self._in_a_row += 1
        return True

    def note(self, together: int) -> None:
        """So many writes were committed together after a wait."""
        self._missing = _TRUST if together > 1 else max(self._missing - 1, 0)


class Upkeep:
    """Counts writes: SQLite itself copies the WAL within a commit, which would hold up the event loop for it."""

    def __init__(self, path: str) -> None:
        self._wal = f"{path}-wal"
        self._size = _LARGE
        self._writes = 0

    def note(self, writes: int, *, looks: bool = False) -> bool:
        """So many writes were committed; say whether it is time. `looks`: they may have been large."""
        before, self._writes = self._writes, self._writes + writes
        looks = looks or before // _LOOK != self._writes // _LOOK
        if self._writes < _WRITES and not (looks and self._grew()):
            return False
        self._writes = 0
        return True

    def _grew(self) -> bool:
        """Large values fill it sooner than their number tells. What is there is written over once it was copied."""
        try:
            size = os.stat(self._wal).st_size
        except OSError:
            return False
        known, self._size = self._size, max(self._size, size)
        return size > known
