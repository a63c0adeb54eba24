"""Tombstones: what was deleted of threads, or left behind, so that cached reads never serve it again.

A deletion writes a *pending* tombstone to Redis before the storage is asked, and a final one after the storage's
answer. A head mark counts only under the tombstone that lies in Redis, so one that a slow reader made of the old row
is refused. What Redis did not take is owed: until it is written, no cached read of this process is answered by Redis.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from itertools import islice
from weakref import WeakValueDictionary

from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.storage.hot.keys import Keys
from perdure.storage.hot.pipe import Command
from perdure.storage.hot.ports import RedisPort, together
from perdure.storage.hot.signing import Refused, Signer, Tombstone

_KNOWN = 10_000  # threads whose newest tombstone is remembered
_AT_ONCE = 500  # that are written together
_NONCE = 8  # bytes
PENDING = 60 * 1_000_000  # microseconds after which whoever deletes is taken for dead


class _Known:
    """The tombstones that this process wrote or read, by member, and those that Redis has not taken yet."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[bytes, Tombstone] = OrderedDict()
        self._owed: dict[bytes, Tombstone] = {}

    def under(self, member: bytes) -> bytes:
        """What a head mark that is made now says it was made under."""
        known = self._known.get(member)
        return known.nonce if known else b""

    def put(self, member: bytes, tombstone: Tombstone) -> None:
        """Remember one."""
        with self._lock:
            self._known.pop(member, None)
            self._known[member] = tombstone
            if len(self._known) > _KNOWN:
                self._known.popitem(last=False)

    def learn(self, member: bytes, found: Tombstone) -> None:
        """Remember one that was read, unless a newer one is known."""
        known = self._known.get(member)
        if known is None or known.at <= found.at:
            self.put(member, found)

    def contradicts(self, member: bytes, found: Tombstone | None, oldest: int) -> bool:
        """Whether Redis lost what this process knows, or was put back to a time before it."""
        known = self._known.get(member)
        if known is None or known.at < oldest:  # its time to live may be up
            return False
        return found is None or (found.nonce != known.nonce and found.at < known.at)

    def owe(self, member: bytes, tombstone: Tombstone) -> None:
        """Redis did not take one; a newer one of the same thread takes its place."""
        with self._lock:
            self._owed[member] = tombstone

    def owed(self, limit: int) -> dict[bytes, Tombstone]:
        """Some of what Redis lacks."""
        if not self._owed:
            return {}
        with self._lock:
            return dict(islice(self._owed.items(), limit))

    def paid(self, written: dict[bytes, Tombstone]) -> None:
        """Redis has these now."""
        with self._lock:
            for member, tombstone in written.items():
                if self._owed.get(member) == tombstone:
                    del self._owed[member]


_shared: WeakValueDictionary[bytes, _Known] = WeakValueDictionary()
_lock = threading.Lock()


def _known_of(prefix: bytes) -> _Known:
    """Those of one storage: its synchronous and its asynchronous callers in one process share them."""
    with _lock:
        known = _shared.get(prefix)
        if known is None:
            known = _shared[prefix] = _Known()
        return known


class Tombstones:
    """Writes tombstones to Redis, and tells which of those that lie there may be so."""

    def __init__(
        self,
        port: RedisPort,
        keys: Keys,
        signer: Signer,
        *,
        ttl: int,
        clock: Clock,
        randomness: Randomness,
        telemetry: Telemetry,
    ) -> None:
        self._port = port
        self._keys = keys
        self._signer = signer
        self._ttl = ttl  # milliseconds
        self._clock = clock
        self._randomness = randomness
        self._telemetry = telemetry
        self._known = _known_of(keys.used)

    def under(self, member: bytes) -> bytes:
        """What a head mark that is made now says it was made under."""
        return self._known.under(member)

    def read(self, member: bytes, value: object) -> tuple[bool, Tombstone | None]:
        """Whether what Redis says of deletions may be so, and the tombstone."""
        oldest = self._clock.now() - self._ttl * 1000
        try:
            found = None if value is None else self._signer.gone_in(member, value)
        except Refused:
            self._telemetry.count("perdure.hot.refused")
            return False, None
        # One that is pending stands whatever is known: somebody is at work.
        if self._known.contradicts(member, found, oldest) and not (found and found.pending):
            return False, None
        if found is not None:
            self._known.learn(member, found)
        return True, found

    async def write(self, member: bytes, *, pending: bool, also: Sequence[Command] = ()) -> Tombstone | None:
        """Write a tombstone; None when Redis did not take it, which is then owed."""
        made = Tombstone(self._randomness.bytes(_NONCE), self._clock.now(), pending)
        self._known.put(member, made)
        self._known.owe(member, made)  # first: a read meanwhile must not be answered by Redis
        answers = await self._port.run(together([*self._written(member, made), *also]))
        if answers is None:
            return None
        self._known.paid({member: made})
        return made

    def _written(self, member: bytes, tombstone: Tombstone) -> list[Command]:
        value = self._signer.gone(member, tombstone)
        return [("SET", self._keys.gone(member), value, "PX", self._ttl), ("DEL", self._keys.head(member))]

    async def pay(self) -> bool:
        """Write the tombstones that are owed; False when Redis does not take them."""
        while owed := self._known.owed(_AT_ONCE):
            commands = [command for member, each in owed.items() for command in self._written(member, each)]
            if await self._port.run(together(commands)) is None:
                return False
            self._known.paid(owed)
        return True
