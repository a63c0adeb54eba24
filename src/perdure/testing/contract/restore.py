"""Restoring: a starting point and what came after it, read at once."""

from __future__ import annotations

from perdure.core.writes import Restored
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe


class RestoreContract(Contract):
    """What folding needs."""

    async def test_an_absent_thread_restores_to_nothing(self, storage: Storage) -> None:
        assert await storage.restore(THREAD) is None

    async def test_without_a_snapshot_the_whole_log_comes(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.grow(THREAD, 3)
        found = await restored(storage)
        assert (found.row, found.snapshot) == (made.row, None)
        assert found.entries == await storage.entries(THREAD)

    async def test_entries_that_do_not_change_the_state_come_without_payload(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append(THREAD, STATE, MESSAGE)
        found = await restored(storage)
        assert [(entry.kind, entry.payload is None) for entry in found.entries] == [(STATE, False), (MESSAGE, True)]
        whole = await storage.entries(THREAD)
        assert [entry.chain for entry in found.entries] == [entry.chain for entry in whole]
        assert [entry.digest for entry in found.entries] == [entry.digest for entry in whole]

    async def test_a_snapshot_shortens_the_way(self, storage: Storage, scribe: Scribe) -> None:
        snapshot = await scribe.snapshot(await scribe.grow(THREAD, 3))
        await scribe.grow(THREAD, 2)
        found = await restored(storage)
        assert found.snapshot == snapshot
        assert versions(found) == [4, 5]

    async def test_the_newest_snapshot_wins(self, storage: Storage, scribe: Scribe) -> None:
        kept = [await scribe.snapshot(await scribe.grow(THREAD, 2)) for _ in range(3)]
        found = await restored(storage)
        assert (found.snapshot, versions(found)) == (kept[-1], [])

    async def test_a_version_is_restored_from_what_was_before_it(self, storage: Storage, scribe: Scribe) -> None:
        snapshots = [await scribe.snapshot(await scribe.grow(THREAD, 3)) for _ in range(3)]
        found = await restored(storage, at=8)
        assert (found.snapshot, versions(found)) == (snapshots[1], [7, 8])
        assert found.row.head == 9

    async def test_a_snapshot_of_exactly_that_version_is_enough(self, storage: Storage, scribe: Scribe) -> None:
        snapshot = await scribe.snapshot(await scribe.grow(THREAD, 3))
        await scribe.append()
        found = await restored(storage, at=3)
        assert (found.snapshot, versions(found)) == (snapshot, [])

    async def test_a_version_before_every_snapshot_is_restored_from_the_start(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.snapshot(await scribe.grow(THREAD, 3))
        found = await restored(storage, at=2)
        assert (found.snapshot, versions(found)) == (None, [1, 2])
        nothing = await restored(storage, at=0)
        assert (nothing.snapshot, versions(nothing)) == (None, [])

    async def test_a_version_after_the_head_is_the_head(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        assert versions(await restored(storage, at=99)) == [1, 2]

    async def test_with_after_only_what_is_new_comes(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        await scribe.snapshot(await scribe.grow(THREAD, 3))
        found = await restored(storage, after=2)
        assert (found.snapshot, versions(found)) == (None, [3, 4, 5, 6])
        assert versions(await restored(storage, after=6)) == []

    async def test_after_and_at_bound_a_range(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 6)
        assert versions(await restored(storage, after=2, at=4)) == [3, 4]

    async def test_a_fork_is_restored_through_its_parent(self, storage: Storage, scribe: Scribe) -> None:
        snapshot = await scribe.snapshot(await scribe.grow(THREAD, 2))
        await scribe.snapshot(await scribe.grow(THREAD, 3))
        await scribe.fork(THREAD, 4, OTHER)
        made = await scribe.append(OTHER)
        found = await storage.restore(OTHER)
        assert found is not None
        assert (found.row, found.snapshot, versions(found)) == (made.row, snapshot, [3, 4, 5])

    async def test_an_old_version_of_a_fork_is_its_parents(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        await scribe.fork(THREAD, 3, OTHER)
        await scribe.snapshot(await scribe.grow(OTHER, 2))
        found = await storage.restore(OTHER, at=2)
        assert found is not None
        assert (found.snapshot, versions(found)) == (None, [1, 2])
        assert found.entries == (await storage.entries(THREAD))[:2]


async def restored(storage: Storage, *, at: int | None = None, after: int | None = None) -> Restored:
    """Restore the thread, which is there."""
    found = await storage.restore(THREAD, at=at, after=after)
    assert found is not None
    return found


def versions(found: Restored) -> list[int]:
    """The versions of the entries that came."""
    return [entry.version for entry in found.entries]
