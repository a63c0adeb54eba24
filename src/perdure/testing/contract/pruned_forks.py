"""Prunes of threads with forks, and forks of pruned threads."""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.errors import DamagedError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.seams import Range, Seams
from perdure.storage.contract import Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.contract.prunes import derived, prune, said, without
from perdure.testing.contract.rewinding import THIRD, Diary, folded
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import OTHER, THREAD, Scribe, blob_of


class PrunedForkContract(Contract):
    """Pruned threads, their forks, and their copies."""

    async def test_a_version_that_is_gone_cannot_be_forked(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(8)
        await prune(diary, (4, 7), base=3)
        for version in (1, 2, 5, 6):
            with pytest.raises(NotFoundError):
                await diary.fork(version, OTHER)
        assert await storage.thread(OTHER) is None
        for number, version in enumerate((0, 3, 4, 7, 8, 9)):
            child = await diary.fork(version, ThreadKey("", "alice", f"child {number}"))
            assert await folded(storage, child.key) == diary.states[version]

    async def test_a_fork_has_its_parents_records_up_to_where_it_began(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(9)
        await prune(diary, (3, 5), base=2)
        child = await diary.fork(7, OTHER)
        await prune(diary, (7, 9))
        await child.add(4)
        await prune(child, (8, 11))
        storage = await place.reopen(storage)
        assert await diary.told(storage) == without(diary, 1, 4, 8)
        assert await child.told(storage) == without(child, 1, 4, 9, 10)
        assert await storage.seams(OTHER) == Seams([], [Range(0, 1), Range(3, 4), Range(8, 10)])
        assert [each.version for each in await storage.records(OTHER)] == [2, 5, 11]
        with pytest.raises(NotFoundError):
            await storage.fork(OTHER, 4, scribe.target(THIRD))

    async def test_a_prune_of_a_fork_leaves_its_parent_alone(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        row = (await diary.mark()).row
        for entry in await storage.entries(THREAD):
            await storage.put_snapshot(THREAD, row.uid, derived(diary, entry))
        child = await diary.fork(3, OTHER)
        await child.add(4)
        before = await said(storage), await storage.sizes(THREAD)
        await prune(child, base=6)
        assert [await said(storage), (await storage.sizes(THREAD)).snapshots] == [before[0], before[1].snapshots]
        assert await diary.told(storage) == diary.states
        assert await child.told(storage) == without(child, 4, 5)

    @pytest.mark.parametrize("order", [(THREAD, OTHER, THIRD), (OTHER, THREAD, THIRD), (THREAD, THIRD, OTHER)])
    async def test_pruned_families_are_deleted_in_any_order(
        self, storage: Storage, scribe: Scribe, place: Place, order: tuple[ThreadKey, ...]
    ) -> None:
        diary = Diary(scribe)
        await diary.add(8)
        await prune(diary, (3, 5), (6, 8), base=2)
        child = await diary.fork(6, OTHER)
        await child.back(3)
        third = await child.fork(7, THIRD)
        await third.add()
        family = {each.key: each for each in (diary, child, third)}
        gone = {THREAD: (1, 4, 7), OTHER: (1, 4), THIRD: (1, 4)}
        for key in order:
            await storage.delete(key)
            del family[key]
            storage = await place.reopen(storage)
            for each in family.values():
                assert await each.told(storage) == without(each, *gone[each.key])
        sizes = await storage.sizes()
        left = (sizes.threads, sizes.entries, sizes.entry_bytes, sizes.snapshots, sizes.snapshot_bytes)
        assert left == (0, 0, 0, 0, 0)

    async def test_a_thread_made_again_is_not_pruned(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        await prune(diary, (3, 5), base=2)
        await storage.delete(THREAD)
        again = Diary(scribe)
        await again.add(6)
        assert await again.told(storage) == again.states
        assert (await storage.seams(THREAD), await storage.records(THREAD)) == (Seams(), [])

    async def test_a_copy_of_a_pruned_thread_equals_it(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.mark()
        await source.add(4)
        await source.back(2, checkpoint=source.scribe.mark())
        await source.add(3)
        await prune(source, (3, 5), (7, 9), base=2, unmarked=(1,))
        copy = await take(source.scribe.storage, THREAD)
        assert await storage.put_thread(copy) == copy.row
        assert await storage.put_thread(copy) == copy.row
        storage = await place.reopen(storage)
        assert await said(storage) == await said(source.scribe.storage)
        assert await source.told(storage) == without(source, 1, 4, 8)
        with pytest.raises(NotFoundError):
            await storage.fork(THREAD, 4, scribe.target(OTHER))

    async def test_a_pruned_thread_taken_here_equals_it_elsewhere(self, storage: Storage, scribe: Scribe) -> None:
        diary, elsewhere = Diary(scribe), MemoryStorage()
        await diary.add(5)
        await diary.back(2)
        await prune(diary, (3, 5), base=2)
        child = await diary.fork(6, OTHER)
        await child.add(3)
        await prune(child, (7, 9))
        for key in (OTHER, THREAD):  # the fork without its parent first
            copy = await take(storage, key, spare_uid=f"spare {key.id}")
            await elsewhere.put_thread(copy)
            assert (await said(elsewhere, key))[1:] == (await said(storage, key))[1:]
        assert await child.told(elsewhere) == without(child, 1, 4, 8)
        assert await diary.told(elsewhere) == without(diary, 1, 4)

    async def test_a_copied_fork_of_a_pruned_thread_brings_its_past(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(6)
        await prune(source, (3, 5), base=2)
        child = await source.fork(6, OTHER)
        await child.add(3)
        await prune(child, (7, 9))
        await storage.put_thread(await take(source.scribe.storage, OTHER))
        storage = await place.reopen(storage)
        assert (await said(storage, OTHER))[1:] == (await said(source.scribe.storage, OTHER))[1:]
        assert await child.told(storage) == without(child, 1, 4, 8)

    @pytest.mark.parametrize("again", [None, "k"])
    async def test_a_copied_fork_of_a_fork_with_a_base_keeps_what_that_stands_for(
        self, storage: Storage, scribe: Scribe, place: Place, again: str | None
    ) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(2)
        await source.add(idem_key="k")
        child = await source.fork(3, OTHER)
        await child.add()
        await child.add(idem_key=again)
        await child.add()
        await prune(child, base=6)
        third = await child.fork(7, THIRD)
        await third.add()
        await storage.put_thread(await take(source.scribe.storage, THIRD))
        storage = await place.reopen(storage)
        assert (await said(storage, THIRD))[1:] == (await said(source.scribe.storage, THIRD))[1:]
        elsewhere = MemoryStorage()
        await elsewhere.put_thread(await take(storage, THIRD))
        assert await third.told(elsewhere) == without(third, 4, 5)

    async def test_a_copied_fork_does_not_share_a_past_that_was_pruned_here(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(6)
        here = Diary(scribe, THREAD, list(source.states))
        await storage.put_thread(await take(source.scribe.storage, THREAD))
        child = await source.fork(4, OTHER)
        await child.add()
        await prune(here, (2, 6))
        await storage.put_thread(await take(source.scribe.storage, OTHER, spare_uid="spare"))
        assert await child.told(storage) == child.states
        assert await here.told(storage) == without(here, 3, 4, 5)

    async def test_a_copy_with_a_damaged_record_is_refused(self, storage: Storage, scribe: Scribe) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(8)
        await prune(source, (3, 5), base=2)
        copy = await take(source.scribe.storage, THREAD)
        for at in (0, 1):
            for bent in ({"payload": b"\x01\x00\x00else"}, {"chain": bytes(32)}):
                records = [*copy.records]
                records[at] = msgspec.structs.replace(records[at], **bent)
                with pytest.raises(DamagedError):
                    await storage.put_thread(msgspec.structs.replace(copy, records=records))
            left = [record for number, record in enumerate(copy.records) if number != at]
            with pytest.raises(DamagedError):
                await storage.put_thread(msgspec.structs.replace(copy, records=left))
        assert await storage.thread(THREAD) is None


KEPT, GONE, LATER = blob_of("kept " * 20_000), blob_of("gone " * 20_000), blob_of("later " * 20_000)
