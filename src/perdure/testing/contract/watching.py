"""Waiting for work: whoever watches looks again in time, and never waits for ever."""

from __future__ import annotations

from perdure.core.threads import ThreadPatch
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import THREAD, Scribe

GENEROUS = 30.0  # seconds: these machines are shared
MOMENT = 0.01
FAR = 4_000_000_000 * 1_000_000


class WatchContract(Contract):
    """Watching a namespace."""

    async def test_a_wait_ends_though_nothing_happens(self, storage: Storage) -> None:
        watch = storage.watch("")
        assert await watch.wait(MOMENT) in (True, False)
        assert await watch.wait(0) in (True, False)
        await watch.close()

    async def test_what_is_committed_after_the_watch_was_made_is_announced(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        watch = storage.watch("")
        await scribe.append(THREAD, patch=ThreadPatch(wake_at=1))
        assert await watch.wait(GENEROUS)
        await watch.close()

    async def test_a_lease_given_back_is_announced(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        lease = await storage.claim(THREAD, "me", until=FAR, now=scribe.clock.now())
        watch = storage.watch("")
        await storage.release(THREAD, lease.epoch, wake_at=1)
        assert await watch.wait(GENEROUS)
        await watch.close()

    async def test_what_another_opening_commits_is_announced(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        watch = (await place.ready()).watch("")
        await scribe.append(THREAD, patch=ThreadPatch(wake_at=1))
        assert await watch.wait(GENEROUS)
        await watch.close()

    async def test_a_closed_watch_waits_for_nothing(self, storage: Storage) -> None:
        watch = storage.watch("")
        await watch.close()
        await watch.close()
        assert not await watch.wait(GENEROUS)
