"""What a prune leaves: headers, records in the place of ranges, everything that it does not name."""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import KeyReusedError, NotFoundError
from perdure.core.pruning import BLANK
from perdure.core.seams import Range, Rewind, Seams
from perdure.storage.contract import Storage
from perdure.testing.contract.prunes import derived, planned, prune, said, without
from perdure.testing.contract.rewinding import PRUNED, Diary, folded
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import MESSAGE, OTHER, THREAD, Scribe, blob_of

ALL = CheckpointQuery(limit=1000)
REQUEST = b"r" * 32


class PruneContract(Contract):
    """What goes, and what stays."""

    async def test_a_prune_empties_exactly_the_changes_of_its_ranges(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        for _ in range(4):
            await diary.add()
            await diary.say()
        before = await storage.entries(THREAD)
        await prune(diary, (2, 5), blank=(8,))  # a change, a message, a change; and another message
        storage = await place.reopen(storage)
        *found, told = await storage.entries(THREAD)
        emptied = {3, 5, 8}
        wanted = [msgspec.structs.replace(e, payload=BLANK) if e.version in emptied else e for e in before]
        assert found == wanted
        assert (told.kind, told.version) == (PRUNED, 9)

    async def test_headers_and_the_chain_stay_whole(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        before = await storage.headers(THREAD, limit=99)
        made = await prune(diary, (3, 5), base=2)
        assert (made.version, made.state_version, made.row.state_version) == (7, 0, 6)
        storage = await place.reopen(storage)
        assert (await storage.headers(THREAD, limit=99))[1:] == before
        assert verify_links("t1", 0, GENESIS, await storage.entries(THREAD)) == made.row.head_digest
        assert await storage.thread(THREAD) == made.row

    async def test_records_and_bases_come_back_as_they_were_put(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(9)
        plan = await planned(diary, (3, 5), (6, 8), base=2)
        await scribe.append(THREAD, PRUNED, pruning=plan)
        assert await storage.records(THREAD) == list(plan.records)
        storage = await place.reopen(storage)
        assert await storage.records(THREAD) == list(plan.records)
        assert await storage.seams(THREAD) == Seams([], [Range(0, 1), Range(3, 4), Range(6, 7)])

    async def test_every_version_that_stays_folds_as_before_and_the_others_are_missed(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(5)
        await diary.back(2)
        await diary.add(4)
        await prune(diary, (3, 5), (6, 9), base=2)
        await diary.add()
        wanted = without(diary, 1, 4, 7, 8)
        assert await diary.told(storage) == wanted
        storage = await place.reopen(storage)
        assert await diary.told(storage) == wanted
        assert await folded(storage, THREAD) == diary.states[-1]

    async def test_messages_between_pruned_changes_can_still_be_restored_to(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        diary = Diary(scribe)
        await diary.add(4)
        await diary.say()
        await diary.say()
        await diary.add()
        await prune(diary, (1, 4))
        assert await diary.told(storage) == without(diary, 2, 3)

    async def test_a_version_that_is_gone_cannot_be_named(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        await diary.add(5)
        await prune(diary, (1, 4))
        storage = await place.reopen(storage)
        for version in (2, 3):
            with pytest.raises(NotFoundError):
                await storage.append(scribe.write(THREAD, MESSAGE, names=version))
        for version in (1, 4, 5):
            await storage.append(scribe.write(THREAD, MESSAGE, names=version))
        assert len(await storage.entries(THREAD)) == 9

    async def test_what_comes_after_a_version_is_given_with_its_records(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(9)
        plan = await planned(diary, (1, 4), (5, 8))
        await scribe.append(THREAD, PRUNED, pruning=plan)
        for after in range(10):
            found = await storage.restore(THREAD, after=after)
            assert found is not None
            assert [entry.version for entry in found.entries] == list(range(after + 1, 11))
            assert found.records == [record for record in plan.records if record.version > after]

    async def test_a_later_prune_takes_the_place_of_older_records(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(12)
        await prune(diary, (2, 4), (5, 7), (9, 11))
        second = await planned(diary, (1, 5), (5, 7))  # around one, and the same again
        await scribe.append(THREAD, PRUNED, pruning=second)
        diary.states.append(diary.states[-1])
        found = await storage.records(THREAD)
        assert [(each.low, each.version) for each in found] == [(1, 5), (5, 7), (9, 11)]
        assert found[:2] == list(second.records)
        await prune(diary, base=9)
        storage = await place.reopen(storage)
        found = await storage.records(THREAD)
        assert [(each.low, each.version, each.whole) for each in found] == [(0, 9, True), (9, 11, False)]
        assert await diary.told(storage) == without(diary, *range(1, 9), 10)

    async def test_a_later_base_takes_the_place_of_an_earlier_one(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(8)
        for version in (2, 5, 5):
            await prune(diary, base=version)
            assert [(each.version, each.whole) for each in await storage.records(THREAD)] == [(version, True)]
        assert await diary.told(storage) == without(diary, *range(1, 5))

    async def test_whole_states_inside_a_range_go_and_others_stay(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        row = (await diary.add(9)).row
        for entry in await storage.entries(THREAD):
            await storage.put_snapshot(THREAD, row.uid, derived(diary, entry))
        await prune(diary, (4, 7), base=3)
        starts = {at: await self._start(storage, at) for at in range(10)}
        assert starts == {0: 0, 1: 0, 2: 0, 3: 3, 4: 4, 5: 4, 6: 4, 7: 7, 8: 8, 9: 9}
        storage = await place.reopen(storage)
        assert {at: await self._start(storage, at) for at in range(10)} == starts
        assert await diary.told(storage) == without(diary, 1, 2, 5, 6)

    async def _start(self, storage: Storage, at: int) -> int:
        found = await storage.restore(THREAD, at=at)
        assert found is not None
        return found.snapshot.version if found.snapshot else 0

    async def test_only_the_checkpoints_that_are_named_go(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        made = [(await diary.mark(note=str(n))).checkpoint for n in range(6)]
        before = await storage.checkpoints(THREAD, ALL)
        await prune(diary, (1, 4), unmarked=(2, 3))  # that at 4, the end of the range, stays
        storage = await place.reopen(storage)
        assert await storage.checkpoints(THREAD, ALL) == [row for row in before if row.entry not in (2, 3)]
        for row in made:
            assert row is not None
            found = await storage.checkpoint("", "alice", row.mark.id)
            assert (found is None) == (row.entry in (2, 3))
        listed = await storage.user_checkpoints("", "alice", ALL)
        assert [row.entry for row in listed] == [6, 5, 4, 1]
        assert (await storage.sizes(THREAD)).checkpoints == 4

    async def test_the_newest_checkpoint_and_those_made_later_know_their_parents(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        diary = Diary(scribe)
        rows = [(await diary.mark()).checkpoint for _ in range(3)]
        made = await prune(diary, base=2, unmarked=(1,))
        assert rows[2] is not None
        assert made.row.last_checkpoint == rows[2].mark.id
        later = (await diary.mark()).checkpoint
        assert later is not None
        assert later.parent == rows[2].mark.id

    async def test_keys_and_write_ids_of_pruned_entries_still_answer(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        write = diary.write([1], idem_key="k", request=REQUEST)
        first = await storage.append(write)
        diary.states.append([1])
        await diary.add(4)
        await prune(diary, base=4)
        storage = await place.reopen(storage)
        by_key = await storage.append(scribe.write(THREAD, idem_key="k", request=REQUEST))
        by_id = await storage.append(msgspec.structs.replace(write, idem_key=None, since=0))
        assert [(each.again, each.version) for each in (by_key, by_id)] == [(True, first.version)] * 2
        with pytest.raises(KeyReusedError):
            await storage.append(scribe.write(THREAD, idem_key="k", request=b"another"))

    async def test_a_pruned_thread_goes_on(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        uid = (await diary.add(4)).row.uid
        await prune(diary, (1, 3))
        for _ in range(2):
            await diary.add(uid=uid, expected=diary.states[-1][-1])
        made = await diary.back(3, uid=uid, expected=7)
        await diary.say()
        await prune(diary, base=7)
        storage = await place.reopen(storage)
        assert await diary.told(storage) == without(diary, *range(1, 7))
        assert await storage.seams(THREAD) == Seams([Rewind(made.version, 3)], [Range(0, 6)])

    async def test_sizes_shrink_by_what_went(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(8)
        before, entries = await storage.sizes(THREAD), await storage.entries(THREAD)
        await prune(diary, base=7)
        told = (await storage.entries(THREAD))[-1]
        after = await storage.sizes(THREAD)
        assert after.entries == before.entries + 1
        assert after.entry_bytes == len(entries[7].payload or b"") + len(told.payload or b"")
        assert after.snapshots == 1

    async def test_compacting_changes_nothing_that_is_stored(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(5)
        await diary.back(2, checkpoint=scribe.mark())
        await diary.add(3, blobs=(blob_of("x" * 70_000),))
        child = await diary.fork(8, OTHER)
        await prune(diary, (3, 5), base=2)
        before = [await said(storage, key) for key in (THREAD, OTHER)]
        assert await storage.compact() >= 0
        assert storage.compacting()
        assert [await said(storage, key) for key in (THREAD, OTHER)] == before
        storage = await place.reopen(storage)
        assert [await said(storage, key) for key in (THREAD, OTHER)] == before
        assert await diary.told(storage) == without(diary, 1, 4)
        assert await child.told(storage) == without(child, 1, 4)

    async def test_compacting_an_empty_place_is_fine(self, storage: Storage) -> None:
        assert await storage.compact() >= 0
        assert (await storage.sizes()).threads == 0
