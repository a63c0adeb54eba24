"""Whether the lines of messages are what the logs say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from perdure.core.errors import DamagedError
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow
from perdure.sessions.projecting import Projector
from perdure.storage.contract import Storage

_FIELDS = ("version", "id", "role", "node", "run", "micros", "tool_calls", "error", "tokens", "duration", "digest")


class Lines:
    """Compares lines with the log that they were read off."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self._projector = Projector(storage)

    async def faults(self, key: ThreadKey) -> list[str]:
        """What is wrong with the lines of a thread. Lines that were not read to the end are read on before any use.

        A log that is damaged itself says nothing about them.
        """
        found = await self._storage.projection(key)
        if found is None or not found.is_current:
            return []
        try:
            should = await self._projector.lines(key)
        except DamagedError:
            return []
        stand = await self._storage.messages(key, MessageQuery(after=0, limit=None))
        # A message of a parent that was deleted after the fork is passed over by readers too.
        return list(_differences((line for line in stand if line.payload), should))


def _differences(stand: Iterable[MessageRow], should: Iterable[MessageRow]) -> Iterator[str]:
    for one, other in zip_longest(stand, should):
        if one is None:
            yield f"lack message {other.number}"
        elif other is None:
            yield f"have a message {one.number} that the log does not have"
        elif wrong := [name for name in _FIELDS if getattr(one, name) != getattr(other, name)]:
            yield f"have another {wrong[0]} of message {one.number} than the log"
