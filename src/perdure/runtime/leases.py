"""Leases: the right to run a thread, kept while it runs and given back afterwards."""

from __future__ import annotations

from perdure.core.errors import LeaseHeldError, LeaseLostError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.ports import Clock, Randomness
from perdure.runtime.owner import is_dead, owner
from perdure.storage.contract import Storage

TTL = 30.0  # seconds
SECOND = 1_000_000
_OFTEN = 6  # times within a lease that the writes of its run renew it
_LOOK = 0.25  # seconds between two looks at a lease that another one holds


class Held:
    """A lease that this process holds, or held."""

    def __init__(self, key: ThreadKey, epoch: int, owner: str, ttl: float) -> None:
        self.key = key
        self.epoch = epoch
        self.owner = owner
        self.ttl = ttl
        self.renewed = 0  # when a write was last asked to renew it
        self.released = False
        self.lost: LeaseLostError | None = None


class Leases:
    """Claims, renews and gives back."""

    def __init__(self, storage: Storage, clock: Clock, randomness: Randomness, ttl: float = TTL) -> None:
        self._storage = storage
        self._clock = clock
        self._randomness = randomness
        self.ttl = ttl

    def until(self) -> int:
        """When a lease that is renewed now runs out."""
        return self._clock.now() + int(self.ttl * SECOND)

    def by_the_way(self, held: Held) -> int:
        """Until when a write renews a lease by the way; 0 where that is not due: each would change an index for it."""
        now = self._clock.now()
        if now - held.renewed < self.ttl * SECOND / _OFTEN and now >= held.renewed:
            return 0
        held.renewed = now
        return now + int(self.ttl * SECOND)

    async def claim(self, key: ThreadKey, wait: float = 0.0, seen: str | None = None) -> Held:
        """Take the lease, at once from an owner who is dead; raise `LeaseHeldError` after `wait` seconds.

        `seen` is the owner that the thread had a moment ago: if that one is dead, the first claim says so.
        """
        me = owner(self._randomness.bytes(4).hex())
        end = self._clock.now() + int(wait * SECOND)
        while True:
            try:
                return await self._claimed(key, me, seen)
            except LeaseHeldError:
                left = (end - self._clock.now()) / SECOND
                if left <= 0:
                    raise
            await self._look_again(key, min(left, _LOOK))

    async def _claimed(self, key: ThreadKey, me: str, seen: str | None) -> Held:
        now, dead = self._clock.now(), seen if seen is not None and is_dead(seen) else None
        try:
            lease = await self._storage.claim(key, me, until=self.until(), now=now, take_from=dead)
        except LeaseHeldError as exc:
            if not is_dead(exc.owner):
                raise
            lease = await self._storage.claim(key, me, until=self.until(), now=now, take_from=exc.owner)
        return Held(key, lease.epoch, me, self.ttl)

    async def _look_again(self, key: ThreadKey, seconds: float) -> None:
        watch = self._storage.watch(key.namespace)
        try:
            await watch.wait(seconds)
        finally:
            await watch.close()

    async def renew(self, held: Held) -> None:
        """Make it last longer; raise `LeaseLostError` when it is another's by now.

        A renewal that was under way while its own run gave the lease back is no loss.
        """
        try:
            await self._storage.renew(held.key, held.epoch, until=self.until(), now=self._clock.now())
        except LeaseLostError as exc:
            if held.released:
                return
            held.lost = exc
            raise

    async def take_away(self, key: ThreadKey, from_owner: str) -> None:
        """End a lease that is another's: what its owner writes from now on is refused."""
        me = owner(self._randomness.bytes(4).hex())
        lease = await self._storage.claim(
            key, me, until=self.until(), now=self._clock.now(), take_from=from_owner
        )  # fmt: skip
        await self._storage.release(key, lease.epoch)

    async def release(self, held: Held, wake_at: int | None = None) -> None:
        """Give it back; one that is another's by now, or whose thread is gone, is left alone."""
        if held.lost is not None:
            return
        held.released = True
        try:
            await self._storage.release(held.key, held.epoch, wake_at=wake_at)
        except (LeaseLostError, NotFoundError) as exc:
            held.lost = exc if isinstance(exc, LeaseLostError) else LeaseLostError(held.key.id, held.epoch, 0)
