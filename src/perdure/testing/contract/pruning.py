"""Prunes: exactly what a plan names goes, in one write, and everything that stays is as it was."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.checkpoint import CheckpointQuery
from perdure.core.codec import encode
from perdure.core.digest import GENESIS, snapshot_digest, verify_links
from perdure.core.entries import Entry, EntryKind
from perdure.core.envelope import seal, seal_packed
from perdure.core.errors import DamagedError, KeyReusedError, NotFoundError, PlanOutdatedError
from perdure.core.identity import ThreadKey
from perdure.core.payload import WholeState, encode_body
from perdure.core.pruning import BLANK, Composed, Pruning, Record
from perdure.core.seams import Range, Rewind, Seams
from perdure.core.writes import Appended, Blob, Snapshot, Write
from perdure.storage.contract import BLOB_GRACE, Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.contract.rewinding import FOURTH, PRUNED, REWOUND, THIRD, Diary, folded
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of

ALL = CheckpointQuery(limit=1000)
REQUEST = b"r" * 32
NAMING = (EntryKind.CHECKPOINT_TAGGED, EntryKind.CHECKPOINT_SAVED, EntryKind.PAUSE_OPENED, REWOUND, PRUNED)
QUIET = (STATE, MESSAGE, EntryKind.TOOL_FAILED, EntryKind.CHECKPOINT_CLEARED, EntryKind.PAUSE_DECIDED)


async def planned(
    diary: Diary, *ranges: tuple[int, int], base: int | None = None, blobs: tuple[bytes, ...] = (), **fields: Any
) -> Pruning:
    """A plan that makes one change of each range, and a base at `base`."""
    storage, key = diary.scribe.storage, diary.key
    row = await storage.thread(key)
    assert row is not None
    chains = {0: GENESIS} | {entry.version: entry.chain for entry in await storage.entries(key)}
    records = [_record(diary, low, high, chains, blobs) for low, high in ranges]
    if base is not None:
        whole = WholeState(Raw(encode(diary.states[base])))
        records.insert(0, _sealed(row.parent_version, base, chains[base], whole, blobs))
    usual: dict[str, Any] = {"seen": row.head, "records": tuple(records)}
    return Pruning(**(usual | fields))


def _record(diary: Diary, low: int, high: int, chains: dict[int, bytes], blobs: tuple[bytes, ...]) -> Record:
    content = Composed(low, chains[low], diary.change(low, diary.states[high]))
    return _sealed(low, high, chains[high], content, blobs)


def _sealed(
    low: int, version: int, chain: bytes, content: Composed | WholeState, blobs: tuple[bytes, ...] = ()
) -> Record:
    payload = seal_packed(encode_body(content))
    whole, digest = isinstance(content, WholeState), snapshot_digest(chain, payload)
    return Record(low=low, version=version, chain=chain, digest=digest, payload=payload, whole=whole, blobs=blobs)


async def pruning(diary: Diary, *ranges: tuple[int, int], base: int | None = None, **fields: Any) -> Write:
    """The write that prunes these ranges."""
    plan = await planned(diary, *ranges, base=base, **fields)
    return diary.scribe.write(diary.key, PRUNED, pruning=plan)


async def prune(diary: Diary, *ranges: tuple[int, int], **fields: Any) -> Appended:
    """Prune them."""
    made = await diary.scribe.storage.append(await pruning(diary, *ranges, **fields))
    diary.states.append(diary.states[-1])
    return made


def without(diary: Diary, *gone: int) -> list[list[int] | None]:
    """What the versions restore to when these are gone."""
    return [None if version in gone else state for version, state in enumerate(diary.states)]


async def said(storage: Storage, key: ThreadKey = THREAD) -> list[object]:
    """What a storage says of a thread that is not derived."""
    return [
        await storage.thread(key),
        await storage.entries(key),
        await storage.seams(key),
        [msgspec.structs.replace(record, blobs=()) for record in await storage.records(key)],
        await storage.checkpoints(key, ALL),
    ]


def derived(diary: Diary, entry: Entry) -> Snapshot:
    """A true whole state of the version of an entry."""
    payload = seal(encode_body(WholeState(Raw(encode(diary.states[entry.version])))))
    digest = snapshot_digest(entry.chain, payload)
    return Snapshot(version=entry.version, chain=entry.chain, digest=digest, payload=payload)


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


class PlanContract(Contract):
    """Plans that others made outdated, and writes whose answers were lost."""

    @pytest.mark.parametrize("kind", NAMING)
    async def test_a_plan_older_than_a_point_that_was_named_changes_nothing(
        self, storage: Storage, scribe: Scribe, place: Place, kind: EntryKind
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        write = await pruning(diary, (1, 4), unmarked=(2,), blank=(5,))
        await scribe.append(THREAD, kind, back_to=2 if kind is REWOUND else None)
        before = await said(storage)
        with pytest.raises(PlanOutdatedError):
            await storage.append(write)
        assert await said(storage) == before
        assert await said(await place.reopen(storage)) == before

    @pytest.mark.parametrize("kind", QUIET)
    async def test_what_names_no_point_makes_no_plan_outdated(
        self, storage: Storage, scribe: Scribe, kind: EntryKind
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        write = await pruning(diary, (1, 4))
        await scribe.append(THREAD, kind)
        assert (await storage.append(write)).version == 8
        assert await folded(storage, THREAD, 6) == diary.states[6]
        assert await folded(storage, THREAD, 3) is None

    async def test_a_plan_that_drops_what_was_forked_from_changes_nothing(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        write = await pruning(diary, (1, 4), base=1)
        child = await diary.fork(3, OTHER)
        before = await said(storage)
        with pytest.raises(PlanOutdatedError):
            await storage.append(write)
        assert await said(storage) == before
        assert await child.told(storage) == child.states
        await storage.delete(OTHER)
        assert not (await storage.append(write)).again

    async def test_a_plan_that_drops_what_a_fork_went_back_to_changes_nothing(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        child = await diary.fork(5, OTHER)
        write = await pruning(diary, (1, 5))
        await child.back(3)
        third = await child.fork(6, THIRD)
        await third.back(2)
        for key in (OTHER, THIRD):
            with pytest.raises(PlanOutdatedError):
                await storage.append(write)
            await storage.delete(key)
        assert not (await storage.append(write)).again
        assert await diary.told(storage) == [*diary.states[:2], None, None, None, *diary.states[5:]]

    async def test_a_fork_at_the_end_of_a_range_or_outside_hinders_nobody(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        plan = await pruning(diary, (1, 4))
        children = [await diary.fork(version, key) for version, key in ((4, OTHER), (1, THIRD), (6, FOURTH))]
        await storage.append(plan)
        for child in children:
            await child.add()
            assert await child.told(storage) == without(child, *(() if child.key is THIRD else (2, 3)))

    async def test_a_prune_by_key_whose_answer_was_lost_is_done_once(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        write = msgspec.structs.replace(await pruning(diary, (1, 4)), idem_key="prune", request=REQUEST)
        assert not (await storage.append(write)).again
        before = await said(storage)
        for _ in range(2):
            again = await storage.append(write)
            assert (again.again, again.version) == (True, 7)
            assert await said(storage) == before
            storage = await place.reopen(storage)

    async def test_a_prune_sent_again_is_found_by_its_write_id(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        write = msgspec.structs.replace(await pruning(diary, (1, 4)), since=6)
        assert not (await storage.append(write)).again
        await scribe.append(THREAD, EntryKind.CHECKPOINT_TAGGED)
        before = await said(storage)
        assert (await storage.append(write)).again
        assert await said(storage) == before

    async def test_of_many_tries_of_one_prune_one_is_made(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        write = msgspec.structs.replace(await pruning(diary, (1, 4)), since=6)
        answers = await together([storage.append(write) for _ in range(8)])
        assert sorted(answer.again for answer in answers) == [False] + [True] * 7
        assert {answer.version for answer in answers} == {7}

    async def test_writers_and_readers_beside_a_prune_see_a_whole_log(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        diary = Diary(scribe)
        await diary.add(30)
        prunes = [await pruning(diary, (low, low + 5)) for low in (2, 10, 18)]
        writes = [scribe.write(THREAD, MESSAGE) for _ in range(8)]
        reads = [folded(storage, THREAD) for _ in range(8)]
        works = [work for row in zip(map(storage.append, writes), reads, strict=True) for work in row]
        answers = await together([*works[:6], *map(storage.append, prunes), *works[6:]])
        seen = [answer for answer in answers if isinstance(answer, list)]
        refused = [answer for answer in answers if isinstance(answer, Exception)]
        assert seen == [diary.states[-1]] * 8
        assert [type(each) for each in refused] == [PlanOutdatedError] * 2  # another prune came first
        assert len(await storage.entries(THREAD)) == 30 + 8 + 1

    async def test_another_handle_sees_a_prune_at_once(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary, other = Diary(scribe), await place.ready()
        uid = (await diary.add(5)).row.uid
        assert await diary.told(other) == diary.states
        await prune(diary, (1, 4))
        assert await diary.told(other) == without(diary, 2, 3)
        assert await said(other) == await said(storage)
        made = await other.append(scribe.write(THREAD, MESSAGE, uid=uid))
        assert made.version == 7
        assert verify_links("t1", 0, GENESIS, await storage.entries(THREAD)) == made.row.head_digest


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


class PrunedValueContract(Contract):
    """Large values of pruned threads."""

    async def test_values_that_nothing_refers_to_any_more_are_swept_and_no_others(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(blobs=(KEPT, GONE))
        await diary.add(3)
        await diary.add(blobs=(LATER,))
        await prune(diary, base=4, uses={KEPT.digest: 4, LATER.digest: 5})
        storage = await place.reopen(storage)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1
        assert await self._values(storage) == [KEPT, LATER]

    async def test_values_are_let_go_of_after_the_grace_only(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        made = await diary.add(blobs=(GONE,))
        await diary.add(3)
        await prune(diary, base=3, uses={})
        assert await storage.sweep_blobs(made.row.updated + BLOB_GRACE - 1) == 0
        assert await storage.sweep_blobs(made.row.updated + BLOB_GRACE + 1) == 1

    async def test_values_that_the_records_refer_to_are_held(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(blobs=(KEPT, GONE))
        await diary.add(4)
        plan = await planned(diary, (2, 4), base=2, blobs=(KEPT.digest, LATER.digest), uses={})
        await scribe.append(THREAD, PRUNED, pruning=plan, blobs=(LATER,))  # one that is new with a record
        storage = await place.reopen(storage)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 1
        assert await self._values(storage) == [KEPT, LATER]
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 2

    async def test_a_fork_holds_what_its_parents_records_refer_to(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(blobs=(KEPT, GONE))
        await diary.add(4)
        await diary.add(blobs=(LATER,))
        await prune(diary, (2, 4), base=2, blobs=(KEPT.digest,), uses={LATER.digest: 6})
        await diary.fork(4, OTHER)
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 2
        assert await self._values(storage, OTHER) == [KEPT]

    @pytest.mark.parametrize("kind", QUIET[:2])
    async def test_nothing_is_let_go_of_when_something_was_written_since(
        self, storage: Storage, scribe: Scribe, kind: EntryKind
    ) -> None:
        diary = Diary(scribe)
        await diary.add(blobs=(GONE,))
        await diary.add(4)
        write = await pruning(diary, base=4, uses={})
        await scribe.append(THREAD, kind, blobs=(LATER,))  # it may refer to any
        await storage.append(write)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0
        assert await self._values(storage) == [GONE, LATER]

    async def test_a_plan_that_says_nothing_of_values_lets_go_of_none(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(blobs=(GONE,))
        await diary.add(4)
        await prune(diary, base=4)
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0

    async def test_what_another_thread_refers_to_stays(self, storage: Storage, scribe: Scribe) -> None:
        diary, other = Diary(scribe), Diary(scribe, OTHER)
        await diary.add(blobs=(KEPT,))
        await other.add(blobs=(KEPT,))
        await diary.add(4)
        await prune(diary, base=4, uses={})
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0

    async def test_a_copy_brings_the_values_of_its_records(self, storage: Storage, scribe: Scribe) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(blobs=(KEPT, GONE))
        await source.add(4)
        state = Raw(msgspec.msgpack.encode([Ext(zoo.BLOB, KEPT.digest)]))
        plan = await planned(source, base=4, uses={})
        record = _sealed(0, 4, plan.records[0].chain, WholeState(state, [KEPT.digest]), (KEPT.digest,))
        await source.scribe.append(THREAD, PRUNED, pruning=msgspec.structs.replace(plan, records=(record,)))
        await storage.put_thread(await take(source.scribe.storage, THREAD))
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0
        assert await self._values(storage) == [KEPT]

    async def _values(self, storage: Storage, key: ThreadKey = THREAD) -> list[Blob]:
        """Which of the values are there."""
        found = await storage.blobs(key, [blob.digest for blob in (KEPT, GONE, LATER)])
        return [blob for blob in (KEPT, GONE, LATER) if blob.digest in found]
