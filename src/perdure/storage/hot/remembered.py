"""What this process remembers of threads beside Redis: the newest rows, and whose time to live was set a moment ago."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Any

from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.storage.hot.pipe import Command


class Lines:
    """The newest directory lines this process saw. They tell what a write follows; nobody is answered with them."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = threading.Lock()
        self._rows: OrderedDict[ThreadKey, ThreadRow] = OrderedDict()

    def get(self, key: ThreadKey) -> ThreadRow | None:
        return self._rows.get(key)

    def put(self, key: ThreadKey, row: ThreadRow | None) -> None:
        with self._lock:
            known = self._rows.pop(key, None)
            if row is not None:
                self._rows[key] = known if known and known.uid == row.uid and known.head > row.head else row
            if len(self._rows) > self._limit:
                self._rows.popitem(last=False)


class Fresh:
    """The threads whose keys were given their time to live, and their place among those that are kept, a moment ago."""

    def __init__(self, limit: int, moment: int) -> None:
        self._limit = limit
        self._moment = moment  # microseconds
        self._since: dict[bytes, tuple[str, int]] = {}

    def has(self, member: bytes, uid: str, now: int) -> bool:
        """Whether that need not be done again."""
        known, since = self._since.get(member, ("", 0))
        return known == uid and 0 <= now - since < self._moment

    def put(self, member: bytes, uid: str, now: int) -> None:
        """It was done."""
        if len(self._since) >= self._limit and member not in self._since:
            self._since.clear()
        self._since[member] = uid, now

    def drop(self, member: bytes) -> None:
        """It has to be done again."""
        self._since.pop(member, None)

    def judge(self, member: bytes, answers: list[Any] | None) -> list[Command]:
        """The answer to a push: where there was nothing to push to, it has to be done again."""
        if not answers or type(answers[0]) is not int or answers[0] < 1:
            self.drop(member)
        return []
