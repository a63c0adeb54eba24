"""Plans that came too late, prunes that are tried again, and prunes of what was pruned before."""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.digest import GENESIS, verify_links
from perdure.core.entries import EntryKind
from perdure.core.errors import NotFoundError, PlanOutdatedError
from perdure.core.identity import ThreadKey
from perdure.core.writes import Appended
from perdure.storage.contract import Storage
from perdure.testing.contract.prunes import prune, pruning, said, without
from perdure.testing.contract.rewinding import FOURTH, PRUNED, REWOUND, THIRD, Diary, folded
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe

REQUEST = b"r" * 32
ROUNDS = 8
NAMING = (EntryKind.CHECKPOINT_TAGGED, EntryKind.CHECKPOINT_SAVED, EntryKind.PAUSE_OPENED, REWOUND, PRUNED)
QUIET = (STATE, MESSAGE, EntryKind.TOOL_FAILED, EntryKind.CHECKPOINT_CLEARED, EntryKind.PAUSE_DECIDED)


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

    async def test_nobody_goes_back_to_a_version_that_was_pruned(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        child = await diary.fork(6, OTHER)
        await child.add(2)
        late = [each.write([3], REWOUND, back_to=3) for each in (child, diary)]  # planned before the prune
        await storage.append(await pruning(diary, (1, 5)))
        for write in late:
            before = await storage.thread(write.key)
            with pytest.raises(NotFoundError, match="it was pruned"):
                await storage.append(write)
            assert await storage.thread(write.key) == before
        await child.back(5)
        assert await child.told(storage) == without(child, 2, 3, 4)

    async def test_of_a_prune_and_a_rewind_of_a_fork_to_what_it_drops_one_is_made(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        for number in range(ROUNDS):
            diary = Diary(scribe, ThreadKey("", "alice", f"p{number}"))
            await diary.add(6)
            child = await diary.fork(6, ThreadKey("", "alice", f"c{number}"))
            plan, back = await pruning(diary, (1, 5)), child.write([3], REWOUND, back_to=3)
            answers = await together([storage.append(back), storage.append(plan)][:: 1 if number % 2 else -1])
            made = [type(answer) for answer in answers]
            assert made.count(Appended) == 1, made
            assert set(made) & {NotFoundError, PlanOutdatedError}

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
