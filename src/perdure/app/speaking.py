"""Adding messages to logs: those that stand already are not written again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence

from perdure.checkpoints.engine import Engine
from perdure.checkpoints.requests import Request
from perdure.core.entries import EntryKind, NewEntry
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, message_id
from perdure.sessions.messages import Messages, Wanted
from perdure.storage.contract import Storage

_THREADS = 256  # whose messages are remembered
_IDS = 10_000  # of each
_FEW = 8  # as many are rather written twice than looked for: an id is one message however often it was said


class Speaker:
    """Writes messages."""

    def __init__(self, storage: Storage, engine: Engine, messages: Messages) -> None:
        self._storage = storage
        self._engine = engine
        self._messages = messages
        self._said: OrderedDict[ThreadKey, set[str]] = OrderedDict()  # ids that this process wrote

    async def add(self, key: ThreadKey, bodies: Sequence[bytes], request: Request) -> int:
        """Add messages in one write, and return the version of the last; that of the thread when all stood already."""
        new = await self.entries(key, bodies, request)
        if not new:
            row = await self._storage.thread(key)
            return row.head if row else 0
        return (await self._engine.speak(key, new, request)).version

    async def entries(self, key: ThreadKey, bodies: Sequence[bytes], request: Request) -> list[NewEntry]:
        """The entries of messages that do not stand already, word for word, under their ids.

        With a key it is all of them: the same request must be the same entries, whatever stands meanwhile.
        """
        entries = [self._engine.entry(EntryKind.MESSAGE_ADDED, body, request.actor) for body in bodies]
        if request.key is not None:
            return entries
        ids = {entry.digest: each for entry, body in zip(entries, bodies, strict=True) if (each := message_id(body))}
        standing = await self._standing(key, ids) if self._may_stand(key, set(ids.values())) else set[bytes]()
        return [entry for entry in entries if entry.digest not in standing]

    def _may_stand(self, key: ThreadKey, ids: set[str]) -> bool:
        """Whether it is worth looking: some were written by this process, or they are many."""
        known = self._said.pop(key, set[str]())
        met = len(ids) > _FEW or not known.isdisjoint(ids)
        if len(known) > _IDS:
            known.clear()
        known |= ids
        self._said[key] = known
        if len(self._said) > _THREADS:
            self._said.popitem(last=False)
        return met

    async def _standing(self, key: ThreadKey, ids: dict[bytes, str]) -> set[bytes]:
        query = MessageQuery(ids=tuple(ids.values()), limit=None)
        found = await self._messages.find(key, Wanted(query=query))
        return {each.row.digest for each in found if ids.get(each.row.digest) == each.row.id}
