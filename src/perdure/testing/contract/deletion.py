"""Deletion: everything goes, except what forks still need, and that goes with the last of them."""

from __future__ import annotations

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadQuery
from perdure.storage.contract import Storage
from perdure.testing.contract.forks import GRANDCHILD, lineage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, OTHER, SECOND, THREAD, Scribe


class DeletionContract(Contract):
    """Deleting threads and their parents."""

    async def test_nothing_of_a_deleted_thread_is_seen(self, storage: Storage, scribe: Scribe) -> None:
        row = await scribe.save()
        assert await storage.delete(THREAD)
        assert await storage.thread(THREAD) is None
        assert (await storage.entries(THREAD), await storage.restore(THREAD)) == ([], None)
        assert await storage.threads(ThreadQuery()) == await storage.find("", "t1") == []
        assert await storage.checkpoints(THREAD, CheckpointQuery()) == []
        assert await storage.checkpoint("", None, row.mark.id) is None

    async def test_deleting_says_whether_there_was_something(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        assert not await storage.delete(BOBS)
        assert await storage.delete(THREAD)
        assert not await storage.delete(THREAD)

    async def test_the_retry_of_a_threads_first_write_does_not_make_it_again_beside_its_forks(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        write = scribe.write(THREAD)
        await storage.append(write)
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        with pytest.raises(NotFoundError):
            await storage.append(write)
        assert await storage.thread(THREAD) is None

    async def test_other_threads_stay(self, storage: Storage, scribe: Scribe) -> None:
        rows = [(await scribe.append(key)).row for key in (THREAD, OTHER, BOBS)]
        await storage.delete(THREAD)
        assert await storage.threads(ThreadQuery()) == [rows[2], rows[1]]

    async def test_a_thread_made_again_starts_from_nothing(self, storage: Storage, scribe: Scribe) -> None:
        old = await scribe.grow(THREAD, 3)
        await storage.claim(THREAD, "me", until=SECOND, now=0)
        await storage.delete(THREAD)
        new = await scribe.append(THREAD, expected=0)
        assert (new.version, new.row.epoch, new.row.lease_owner) == (1, 0, None)
        assert new.row.uid != old.row.uid
        assert verify_links("t1", 0, GENESIS, await storage.entries(THREAD)) == new.row.head_digest

    async def test_deletion_lasts(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.append()
        await scribe.append(OTHER)
        await storage.delete(THREAD)
        storage = await place.reopen(storage)
        assert [row.key for row in await storage.threads(ThreadQuery())] == [OTHER]
        assert await storage.entries(THREAD) == []

    async def test_a_fork_outlives_its_parent(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.grow(THREAD, 4)
        await scribe.fork(THREAD, 3, OTHER)
        await scribe.append(OTHER)
        before = await storage.entries(OTHER)
        await storage.delete(THREAD)
        assert await storage.thread(THREAD) is None
        assert await storage.entries(OTHER) == before
        assert await (await place.reopen(storage)).entries(OTHER) == before

    async def test_a_fork_of_a_deleted_parent_goes_on(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        await scribe.fork(THREAD, 2, OTHER)
        await storage.delete(THREAD)
        made = await scribe.append(OTHER, expected=2)
        assert made.version == 3
        assert verify_links("t2", 0, GENESIS, await storage.entries(OTHER)) == made.row.head_digest

    async def test_a_fork_keeps_its_parents_checkpoints(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(3)]
        await scribe.fork(THREAD, 2, OTHER)
        await storage.delete(THREAD)
        found = await storage.checkpoints(OTHER, CheckpointQuery())
        assert [row.mark.id for row in found] == [made[1].mark.id, made[0].mark.id]

    async def test_a_fork_keeps_its_parents_base(self, storage: Storage, scribe: Scribe) -> None:
        base = await scribe.snapshot(await scribe.grow(THREAD, 2), base=True)
        await scribe.fork(THREAD, 2, OTHER)
        await storage.delete(THREAD)
        found = await storage.restore(OTHER)
        assert found is not None
        assert (found.snapshot, found.entries) == (base, [])

    async def test_a_grandchild_outlives_everybody(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        made = await lineage(scribe)
        before = await storage.entries(GRANDCHILD)
        await storage.delete(OTHER)
        await storage.delete(THREAD)
        storage = await place.reopen(storage)
        assert await storage.entries(GRANDCHILD) == before
        assert await storage.threads(ThreadQuery()) == [made]

    async def test_a_new_thread_in_the_place_of_a_hidden_parent_is_its_own(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.grow(THREAD, 2)
        await scribe.fork(THREAD, 2, OTHER)
        before = await storage.entries(OTHER)
        await storage.delete(THREAD)
        made = await scribe.append(THREAD, expected=0)
        assert made.version == 1
        assert len(await storage.entries(THREAD)) == 1
        assert await storage.entries(OTHER) == before
        await storage.delete(THREAD)
        assert await storage.entries(OTHER) == before

    async def test_a_deleted_parent_keeps_only_what_its_forks_need(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 9)
        await scribe.fork(THREAD, 2, OTHER)
        await scribe.fork(THREAD, 4, GRANDCHILD)
        await storage.delete(THREAD)
        assert (await storage.sizes()).entries == 4
        await storage.delete(GRANDCHILD)
        assert (await storage.sizes()).entries == 2

    async def test_the_last_fork_takes_its_deleted_parent_with_it(self, storage: Storage, scribe: Scribe) -> None:
        await lineage(scribe)
        for key in (THREAD, OTHER):
            await storage.delete(key)
            assert (await storage.sizes()).entries > 0
        await storage.delete(GRANDCHILD)
        left = await storage.sizes()
        assert (left.threads, left.entries, left.entry_bytes, left.checkpoints) == (0, 0, 0, 0)

    async def test_a_living_parent_stays_when_its_fork_goes(self, storage: Storage, scribe: Scribe) -> None:
        parent = (await scribe.grow(THREAD, 2)).row
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(OTHER)
        assert await storage.thread(THREAD) == parent
        assert len(await storage.entries(THREAD)) == 2

    async def test_a_deleted_threads_due_work_is_gone(self, storage: Storage, scribe: Scribe) -> None:
        key = ThreadKey("", "", "t")
        await scribe.append(key)
        await storage.claim(key, "me", until=1, now=0)
        await storage.delete(key)
        assert await storage.due("", scribe.clock.now()) == []
