"""Which threads were used, told to Redis in batches: reads that never reach Redis keep a thread hot too."""

from __future__ import annotations

import threading
from collections import OrderedDict

_MOST_MICROS = 1_000_000  # between two batches; a tenth of the time to live where that is less


class Usage:
    """The last use of each thread, until it is told."""

    def __init__(self, limit: int, ttl_micros: int) -> None:
        self._limit = limit
        self._interval = min(_MOST_MICROS, ttl_micros // 10)
        self._lock = threading.Lock()
        self._last: OrderedDict[bytes, int] = OrderedDict()  # those whose place among all is not told
        self._due: OrderedDict[bytes, None] = OrderedDict()  # … and whose time to live is not
        self._absent: OrderedDict[bytes, None] = OrderedDict()
        self._told = self._filled = -(1 << 62)

    def note(self, member: bytes, now: int) -> bool:
        """Note a use, and say whether a batch is due."""
        with self._lock:
            for each in (self._last, self._due):
                each.pop(member, None)
                if len(each) >= self._limit:
                    each.popitem(last=False)  # longer unused than all that may be kept
            self._last[member], self._due[member] = now, None
            return not 0 <= now - self._told < self._interval

    def take(self, now: int) -> tuple[list[bytes], dict[bytes, int]]:
        """The threads whose time to live has to be told, and the last uses; they are the caller's to tell."""
        with self._lock:
            members, scores = list(self._due), dict(self._last)
            self._due.clear()
            self._last.clear()
            self._told = now
            return members, scores

    def take_scores(self) -> dict[bytes, int]:
        """The last uses alone: whoever evicts has to know them first."""
        with self._lock:
            scores = dict(self._last)
            self._last.clear()
            return scores

    def missed(self, member: bytes) -> None:
        """Redis does not have a thread that is used."""
        with self._lock:
            self._absent[member] = None
            if len(self._absent) > self._limit:
                self._absent.popitem(last=False)

    def filled(self, member: bytes) -> None:
        """Redis has it now."""
        self._absent.pop(member, None)

    def may_fill(self, member: bytes, now: int) -> bool:
        """Whether a reader of memory should bring a thread back: one in a while, since each is a whole restore."""
        if member not in self._absent:
            return False
        with self._lock:
            if 0 <= now - self._filled < self._interval:
                return False
            self._filled = now
            del self._absent[member]
            return True
