"""Writes through a handle that has not seen the thread yet: judged and kept like those of one that has."""

from __future__ import annotations

from datetime import timedelta

import pytest

from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import LeaseHeldError, LeaseLostError, NotFoundError, VersionConflictError
from perdure.storage.contract import Storage
from perdure.testing.contract.known import TTL, leased
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import OTHER, THREAD, Scribe


class StrangerContract(Contract):
    """A fresh handle for each write."""

    async def test_the_chain_digest_of_a_strangers_write_leads_to_the_head(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        uid = (await scribe.append()).row.uid
        made = await (await place.ready()).append(scribe.write(THREAD, uid=uid, expected=1))
        assert verify_links(THREAD.id, 0, GENESIS, await storage.entries(THREAD)) == made.row.head_digest
        assert await storage.thread(THREAD) == made.row

    async def test_a_strangers_write_renews_the_lease_of_its_run_only(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        uid, until = await leased(storage, scribe)
        for asked, stands in ((until + TTL, until + TTL), (until, until + TTL)):
            seen = (await storage.thread(THREAD) or scribe.target(THREAD)).state_version
            write = scribe.write(THREAD, uid=uid, epoch=1, expected=seen, renew_until=asked)
            assert (await (await place.ready()).append(write)).row.lease_until == stands
        outside = scribe.write(THREAD, uid=uid, commutes=True, expected=3, renew_until=until + 9 * TTL)
        assert (await (await place.ready()).append(outside)).row.lease_until == until + TTL

    async def test_a_late_stranger_is_refused(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        uid, until = await leased(storage, scribe)
        await storage.claim(THREAD, "you", until=until + TTL, now=until)
        with pytest.raises(LeaseLostError):
            await (await place.ready()).append(scribe.write(THREAD, uid=uid, epoch=1, expected=1))
        await storage.release(THREAD, 2)
        with pytest.raises(LeaseLostError):
            await (await place.ready()).append(scribe.write(THREAD, uid=uid, epoch=2, expected=1))
        assert len(await storage.entries(THREAD)) == 1

    async def test_a_stranger_waits_for_the_run(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        uid, until = await leased(storage, scribe)
        with pytest.raises(LeaseHeldError):
            await (await place.ready()).append(scribe.write(THREAD, uid=uid, expected=1, micros=until - 1))
        made = await (await place.ready()).append(scribe.write(THREAD, uid=uid, expected=1, micros=until))
        assert made.version == 2

    async def test_a_strangers_time_never_goes_back(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        first = (await scribe.append()).row
        scribe.clock.advance(timedelta(hours=-2))
        made = await (await place.ready()).append(scribe.write(THREAD, uid=first.uid, expected=1))
        assert made.row.updated == first.updated
        assert (await storage.entries(THREAD))[-1].micros == first.updated

    async def test_a_stale_stranger_is_refused(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        before = (await scribe.grow(THREAD, 2)).row
        with pytest.raises(VersionConflictError) as caught:
            await (await place.ready()).append(scribe.write(THREAD, uid=before.uid, expected=1))
        assert caught.value.actual == 2
        assert await storage.thread(THREAD) == before

    async def test_a_strangers_checkpoint_is_the_last_one(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        first = await scribe.append(checkpoint=scribe.mark())
        mark = scribe.mark()
        made = await (await place.ready()).append(scribe.write(THREAD, uid=first.row.uid, expected=1, checkpoint=mark))
        assert made.checkpoint is not None
        assert (made.row.last_checkpoint, made.checkpoint.parent) == (mark.id, first.row.last_checkpoint)
        assert await storage.thread(THREAD) == made.row

    async def test_a_thread_that_another_handle_deleted_is_not_written(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        made = await scribe.append()
        await storage.fork(THREAD, 1, scribe.target(OTHER))  # keeps its log, invisibly
        assert await (await place.ready()).delete(THREAD)
        with pytest.raises(NotFoundError):
            await scribe.append(THREAD, uid=made.row.uid, expected=1)
        forked = await storage.thread(OTHER)
        assert forked is not None
        assert (forked.head, forked.head_digest) == (1, made.row.head_digest)
