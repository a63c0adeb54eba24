"""Snapshots: kept beside the log, dropped without loss; a base stays."""

from __future__ import annotations

from perdure.core.envelope import seal
from perdure.core.identity import ThreadKey
from perdure.core.writes import Snapshot
from perdure.storage.contract import Storage
from perdure.testing.clock import SeededRandomness
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import OTHER, THREAD, Scribe, snapshot_of


class SnapshotContract(Contract):
    """Keeping and dropping whole states."""

    async def test_a_snapshot_comes_back_whole(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        payload = seal(SeededRandomness(3).bytes(100_000))
        kept = await scribe.snapshot(await scribe.append(), payload=payload, base=True)
        assert await snapshot_at(storage, 1) == kept
        assert await snapshot_at(await place.reopen(storage), 1) == kept

    async def test_no_snapshot_is_kept_for_a_thread_that_is_gone(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        await storage.delete(THREAD)
        assert not await storage.put_snapshot(THREAD, made.row.uid, snapshot_of(1))
        assert await storage.restore(THREAD) is None

    async def test_no_snapshot_is_kept_for_a_thread_made_again(self, storage: Storage, scribe: Scribe) -> None:
        old = await scribe.append()
        await storage.delete(THREAD)
        await scribe.append()
        assert not await storage.put_snapshot(THREAD, old.row.uid, snapshot_of(1))
        assert await snapshot_at(storage, 1) is None

    async def test_a_newer_snapshot_of_a_version_replaces_the_older(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        await scribe.snapshot(made)
        second = await scribe.snapshot(made, payload=seal(b"second"))
        assert await snapshot_at(storage, 1) == second
        assert (await storage.sizes(THREAD)).snapshots == 1

    async def test_a_snapshot_changes_neither_log_nor_directory(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        await scribe.snapshot(made)
        assert await storage.thread(THREAD) == made.row
        assert len(await storage.entries(THREAD)) == 1

    async def test_only_the_named_snapshot_is_dropped(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.snapshot(await scribe.append())
        await scribe.snapshot(await scribe.append())
        await storage.drop_snapshot(THREAD, 2)
        assert await snapshot_at(storage, 2) == first
        await storage.drop_snapshot(THREAD, 7)
        assert await snapshot_at(storage, 2) == first

    async def test_a_derived_snapshot_never_replaces_a_base(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        base = await scribe.snapshot(made, base=True)
        await scribe.snapshot(made, payload=seal(b"derived"))
        assert await snapshot_at(storage, 1) == base

    async def test_a_base_is_never_dropped(self, storage: Storage, scribe: Scribe) -> None:
        base = await scribe.snapshot(await scribe.append(), base=True)
        await storage.drop_snapshot(THREAD, 1)
        assert await snapshot_at(storage, 1) == base

    async def test_a_dropped_snapshot_stays_dropped(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.snapshot(await scribe.append())
        await storage.drop_snapshot(THREAD, 1)
        assert await snapshot_at(await place.reopen(storage), 1) is None

    async def test_dropping_in_an_absent_thread_does_nothing(self, storage: Storage) -> None:
        await storage.drop_snapshot(THREAD, 1)
        assert await storage.thread(THREAD) is None

    async def test_a_parents_snapshot_can_be_dropped_through_a_fork(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.snapshot(await scribe.append())
        await scribe.fork(THREAD, 1, OTHER)
        await storage.drop_snapshot(OTHER, 1)
        assert await snapshot_at(storage, 1, OTHER) is None
        assert await snapshot_at(storage, 1) is None

    async def test_a_version_of_that_number_in_the_parents_own_future_is_not_dropped(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append()
        await scribe.fork(THREAD, 1, OTHER)
        await scribe.snapshot(await scribe.append(OTHER))
        parents = await scribe.snapshot(await scribe.append())
        await storage.drop_snapshot(OTHER, 2)
        assert await snapshot_at(storage, 2) == parents

    async def test_a_forks_snapshot_is_not_its_parents(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await scribe.fork(THREAD, 1, OTHER)
        await scribe.append()
        childs = await scribe.snapshot(await scribe.append(OTHER))
        assert await snapshot_at(storage, 2) is None
        assert await snapshot_at(storage, 2, OTHER) == childs

    async def test_the_newest_snapshot_wins_whoever_of_the_lineage_has_it(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        newest = await scribe.snapshot(await scribe.grow(THREAD, 3))
        child = await scribe.fork(THREAD, 3, OTHER)
        await storage.put_snapshot(OTHER, child.uid, snapshot_of(1))
        await scribe.append(OTHER)
        assert await snapshot_at(storage, 4, OTHER) == newest

    async def test_snapshots_go_with_their_thread(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.snapshot(await scribe.append())
        await storage.delete(THREAD)
        await scribe.append()
        assert await snapshot_at(storage, 1) is None


async def snapshot_at(storage: Storage, version: int, key: ThreadKey = THREAD) -> Snapshot | None:
    """The snapshot that restoring a version starts from."""
    found = await storage.restore(key, at=version)
    assert found is not None
    return found.snapshot
