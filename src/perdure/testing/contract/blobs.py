"""Large values kept apart: once per user, for as long as something refers to them."""

from __future__ import annotations

from perdure.core.identity import ThreadKey
from perdure.storage.contract import BLOB_GRACE, Leftovers, Storage
from perdure.testing.clock import SeededRandomness
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, THREAD, Scribe, blob_of, snapshot_of

BLOB = blob_of("large " * 20_000)
SECOND_BLOB = blob_of(SeededRandomness(5).bytes(70_000).hex())


class BlobContract(Contract):
    """Keeping, reading and sweeping."""

    async def test_a_large_value_comes_back_whole(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.append(THREAD, blobs=(BLOB, SECOND_BLOB))
        wanted = {BLOB.digest: BLOB.payload, SECOND_BLOB.digest: SECOND_BLOB.payload}
        assert await storage.blobs(THREAD, [BLOB.digest, SECOND_BLOB.digest]) == wanted
        storage = await place.reopen(storage)
        assert await storage.blobs(THREAD, [SECOND_BLOB.digest]) == {SECOND_BLOB.digest: SECOND_BLOB.payload}

    async def test_what_is_not_there_is_missing_in_the_answer(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        assert await storage.blobs(THREAD, [SECOND_BLOB.digest, BLOB.digest]) == {BLOB.digest: BLOB.payload}
        assert await storage.blobs(THREAD, []) == {}
        assert await storage.blobs(THREAD, [b"", b"short", b"\x00" * 32]) == {}

    async def test_a_value_is_kept_once_per_user(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        once = await storage.sizes()
        await scribe.append(OTHER, blobs=(BLOB,))
        await scribe.append(THREAD, MESSAGE, blobs=(BLOB,))
        after = await storage.sizes()
        assert (after.blobs, after.blob_bytes) == (once.blobs, once.blob_bytes) == (1, len(BLOB.payload))

    async def test_a_users_threads_share_their_values(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await scribe.append(OTHER)
        assert await storage.blobs(OTHER, [BLOB.digest]) == {BLOB.digest: BLOB.payload}

    async def test_another_user_does_not_see_it(self, storage: Storage, scribe: Scribe) -> None:
        elsewhere = ThreadKey("staging", "alice", "t1")
        nobodys = ThreadKey("", "", "t1")
        await scribe.append(THREAD, blobs=(BLOB,))
        for key in (BOBS, elsewhere, nobodys):
            await scribe.append(key)
            assert await storage.blobs(key, [BLOB.digest]) == {}

    async def test_another_user_keeps_a_copy_of_his_own(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await scribe.append(BOBS, blobs=(BLOB,))
        assert (await storage.sizes()).blobs == 2
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1
        assert await storage.blobs(BOBS, [BLOB.digest]) == {BLOB.digest: BLOB.payload}

    async def test_a_value_in_use_is_never_swept(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        assert await storage.sweep_blobs(scribe.clock.now() + 99 * BLOB_GRACE) == 0
        assert await storage.blobs(THREAD, [BLOB.digest]) == {BLOB.digest: BLOB.payload}

    async def test_an_unused_value_is_swept_after_the_grace_only(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(OTHER)
        made = await scribe.append(THREAD, blobs=(BLOB, SECOND_BLOB))
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(made.row.updated + BLOB_GRACE - 1) == 0
        assert await storage.blobs(OTHER, [BLOB.digest]) == {BLOB.digest: BLOB.payload}
        assert await storage.sweep_blobs(made.row.updated + BLOB_GRACE + 1) == 2
        assert await storage.blobs(OTHER, [BLOB.digest, SECOND_BLOB.digest]) == {}
        assert (await storage.sizes()).blob_bytes == 0

    async def test_a_value_written_again_is_touched(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, blobs=(BLOB,))
        later = first.row.updated + BLOB_GRACE // 2
        await scribe.append(OTHER, blobs=(BLOB,), micros=later)
        await storage.delete(THREAD)
        await storage.delete(OTHER)
        assert await storage.sweep_blobs(first.row.updated + BLOB_GRACE + 1) == 0
        assert await storage.sweep_blobs(later + BLOB_GRACE + 1) == 1

    async def test_a_value_is_kept_while_one_of_its_threads_is(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await scribe.append(OTHER, blobs=(BLOB,))
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0
        await storage.delete(OTHER)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1

    async def test_a_fork_holds_on_to_its_parents_values(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        storage = await place.reopen(storage)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0
        assert await storage.blobs(OTHER, [BLOB.digest]) == {BLOB.digest: BLOB.payload}
        await storage.delete(OTHER)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1

    async def test_a_deleted_parent_lets_go_of_what_its_forks_do_not_need(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await scribe.append(THREAD, blobs=(SECOND_BLOB,))
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1
        assert await storage.blobs(OTHER, [BLOB.digest, SECOND_BLOB.digest]) == {BLOB.digest: BLOB.payload}

    async def test_a_base_holds_on_to_its_values(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(OTHER, blobs=(BLOB,))
        made = await scribe.append(THREAD)
        base = snapshot_of(1, base=True, blobs=(BLOB.digest,))
        await storage.put_snapshot(THREAD, made.row.uid, base)
        await storage.delete(OTHER)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1

    async def test_sweeping_nothing_is_fine(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.sweep_blobs(scribe.clock.now()) == 0


class ErasureContract(Contract):
    """What deleted threads of a user leave behind, and that it goes at once."""

    async def test_the_values_of_deleted_threads_go_however_new_they_are(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        await scribe.append(THREAD, blobs=(BLOB, SECOND_BLOB))
        await storage.delete(THREAD)
        swept = await storage.sweep_user(THREAD.namespace, THREAD.user)
        assert (swept.blobs, swept.hidden) == (2, 0)
        assert (await storage.sizes()).blobs == 0
        storage = await place.reopen(storage)
        assert await storage.sweep_user(THREAD.namespace, THREAD.user) == Leftovers()

    async def test_values_in_use_and_those_of_others_stay(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB, SECOND_BLOB))
        await scribe.append(OTHER, blobs=(BLOB,))
        await scribe.append(BOBS, blobs=(SECOND_BLOB,))
        await storage.delete(THREAD)
        await storage.delete(BOBS)
        assert await storage.sweep_user(THREAD.namespace, THREAD.user) == Leftovers(blobs=1)
        assert await storage.blobs(OTHER, [BLOB.digest]) == {BLOB.digest: BLOB.payload}
        assert await storage.blobs(BOBS, [SECOND_BLOB.digest]) == {SECOND_BLOB.digest: SECOND_BLOB.payload}

    async def test_what_forks_need_of_deleted_threads_is_counted_and_stays(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        assert await storage.sweep_user(THREAD.namespace, THREAD.user) == Leftovers(hidden=1)
        assert await storage.blobs(OTHER, [BLOB.digest]) == {BLOB.digest: BLOB.payload}
        await storage.delete(OTHER)
        assert await storage.sweep_user(THREAD.namespace, THREAD.user) == Leftovers(blobs=1)
        left = await storage.sizes()
        assert (left.threads, left.entries, left.blobs) == (0, 0, 0)

    async def test_a_value_that_is_written_again_later_is_whole(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, blobs=(BLOB,))
        await storage.delete(THREAD)
        await storage.sweep_user(THREAD.namespace, THREAD.user)
        await scribe.append(THREAD, blobs=(BLOB,))
        assert await storage.blobs(THREAD, [BLOB.digest]) == {BLOB.digest: BLOB.payload}
