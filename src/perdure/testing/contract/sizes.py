"""Sizes: what a thread takes, and what it gives back."""

from __future__ import annotations

from perdure.storage.contract import BLOB_GRACE, Storage
from perdure.testing.contract.running import Contract
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of


class SizeContract(Contract):
    """Counting bytes."""

    async def test_an_empty_place_takes_nothing(self, storage: Storage) -> None:
        sizes = await storage.sizes()
        assert (sizes.threads, sizes.entries, sizes.entry_bytes, sizes.snapshots) == (0, 0, 0, 0)
        assert (sizes.snapshot_bytes, sizes.checkpoints, sizes.blobs, sizes.blob_bytes) == (0, 0, 0, 0)

    async def test_a_thread_is_counted(self, storage: Storage, scribe: Scribe) -> None:
        write = scribe.write(THREAD, STATE, MESSAGE, checkpoint=scribe.mark())
        snapshot = await scribe.snapshot(await storage.append(write))
        await scribe.append(OTHER)
        sizes = await storage.sizes(THREAD)
        assert (sizes.threads, sizes.entries, sizes.snapshots, sizes.checkpoints) == (1, 2, 1, 1)
        assert sizes.entry_bytes == sum(len(entry.payload) for entry in write.entries)
        assert sizes.snapshot_bytes == len(snapshot.payload)

    async def test_everything_is_the_sum_of_its_threads(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        await scribe.save(OTHER)
        one, other, both = await storage.sizes(THREAD), await storage.sizes(OTHER), await storage.sizes()
        assert (both.threads, both.entries) == (2, one.entries + other.entries)
        assert both.entry_bytes == one.entry_bytes + other.entry_bytes
        assert both.checkpoints == 1

    async def test_a_fork_takes_only_what_it_added(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 5)
        await scribe.fork(THREAD, 5, OTHER)
        await scribe.append(OTHER)
        assert (await storage.sizes(OTHER)).entries == 1
        assert (await storage.sizes(THREAD)).entries == 5

    async def test_an_absent_thread_takes_nothing(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        sizes = await storage.sizes(OTHER)
        assert (sizes.threads, sizes.entries, sizes.entry_bytes) == (0, 0, 0)

    async def test_sizes_grow_with_writes_and_shrink_with_deletion(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(OTHER)
        before = await storage.sizes()
        await scribe.snapshot(await scribe.append(THREAD, blobs=(blob_of("x" * 99),), checkpoint=scribe.mark()))
        grown = await storage.sizes()
        assert grown.entry_bytes > before.entry_bytes
        assert (grown.snapshots, grown.checkpoints, grown.blobs) == (1, 1, 1)
        await storage.delete(THREAD)
        await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE)
        after = await storage.sizes()
        assert (after.entry_bytes, after.snapshots, after.checkpoints, after.blobs) == (before.entry_bytes, 0, 0, 0)

    async def test_dropping_a_snapshot_gives_its_bytes_back(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.snapshot(await scribe.append())
        await storage.drop_snapshot(THREAD, 1)
        sizes = await storage.sizes(THREAD)
        assert (sizes.snapshots, sizes.snapshot_bytes) == (0, 0)
