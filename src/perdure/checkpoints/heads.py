"""The encoded newest states of threads, kept in the process so that a save costs what changed."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

from perdure.core.digest import GENESIS
from perdure.core.document import Document
from perdure.core.identity import ThreadKey
from perdure.core.seen import Seen


class Head(msgspec.Struct, kw_only=True):
    """The newest state of a thread as this process knows it: valid for exactly one version.

    It is shared and advanced in place, never across a wait: whoever waited checks `last` before touching it.
    """

    uid: str | None = None  # None: the thread did not exist
    version: int = 0  # the last version that changed the state
    last: int = 0  # the newest entry that was looked at
    chain: bytes = GENESIS  # its chain digest
    document: Document = msgspec.field(default_factory=Document)
    nodes: int = 0  # of the document, at most; 0 where they were not counted: each takes a byte
    room: int = 0  # about how many bytes the document takes; counting exactly would cost as much as folding
    checkpoint: str | None = None  # the newest one, as far as this process read or wrote it
    since: int = 0  # bytes of changes since the newest snapshot
    count: int = 0  # … and how many they are
    apart: int = 0  # bytes of changes between the newest landmark and the newest snapshot
    rolling: int = 0  # version of the newest snapshot if the next one replaces it, 0 if it stays
    spare: int = 0  # version of the rolling one before the newest, if that is there still
    seen: Seen = msgspec.field(default_factory=Seen)


class Heads:
    """Heads by thread, the least recently used dropped when they take more than the budget."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._heads: OrderedDict[ThreadKey, Head] = OrderedDict()
        self._sizes: dict[ThreadKey, int] = {}
        self._total = 0

    def get(self, key: ThreadKey) -> Head | None:
        """The head of a thread, if it is known."""
        head = self._heads.get(key)
        if head is not None:
            self._heads.move_to_end(key)
        return head

    def put(self, key: ThreadKey, head: Head) -> None:
        """Keep a head."""
        self._heads[key] = head
        self._heads.move_to_end(key)
        self._weigh(key, head.room)
        while self._total > self._budget and len(self._heads) > 1:
            self.drop(next(iter(self._heads)))

    def drop(self, key: ThreadKey) -> None:
        """Forget a head."""
        self._heads.pop(key, None)
        self._weigh(key, 0)

    def _weigh(self, key: ThreadKey, size: int) -> None:
        self._total += size - self._sizes.pop(key, 0)
        if size:
            self._sizes[key] = size
