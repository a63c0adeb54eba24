"""Rewinds, and what forks need of the threads they came from."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from perdure.core import fold
from perdure.core.codec import decode, encode
from perdure.core.delta import delta
from perdure.core.digest import GENESIS, verify_links
from perdure.core.document import Document
from perdure.core.entries import EntryKind
from perdure.core.errors import VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.ops import Op, Set
from perdure.core.payload import StateChange, encode_body
from perdure.core.seams import Rewind, Seams
from perdure.core.writes import Appended, Write
from perdure.storage.contract import Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe

THIRD = ThreadKey("", "alice", "t3")
FOURTH = ThreadKey("", "alice", "t4")
REWOUND = EntryKind.THREAD_REWOUND
PRUNED = EntryKind.RANGE_PRUNED


class Diary:
    """A thread whose state is the list of the versions that led to it, and what it was at each of them."""

    def __init__(self, scribe: Scribe, key: ThreadKey = THREAD, states: list[list[int]] | None = None) -> None:
        self.scribe = scribe
        self.key = key
        self.states: list[list[int]] = states or [[]]  # by version

    @property
    def head(self) -> int:
        return len(self.states) - 1

    def change(self, low: int, goal: list[int]) -> list[Op]:
        """What leads from the state at a version to another one."""
        if not self.states[low]:
            return [Set((), Raw(encode(goal)))]
        return delta(Document.of(encode(self.states[low])), encode(goal))[0]

    def write(self, goal: list[int], kind: EntryKind = STATE, **fields: Any) -> Write:
        """A write that leads to a state."""
        content = StateChange(self.change(self.head, goal), fields.get("checkpoint"), fields.get("back_to"))
        entry = self.scribe.entry(kind, body=encode_body(content))
        return self.scribe.write(self.key, entries=(entry,), **fields)

    async def add(self, count: int = 1, **fields: Any) -> Appended:
        """Append so many changes, and return what became of the last."""
        for _ in range(count - 1):
            await self.add(**fields)
        goal = [*self.states[-1], self.head + 1]
        made = await self.scribe.storage.append(self.write(goal, **fields))
        self.states.append(goal)
        return made

    async def mark(self, **mark: Any) -> Appended:
        """Append a change with a checkpoint."""
        return await self.add(checkpoint=self.scribe.mark(**mark))

    async def say(self, kind: EntryKind = MESSAGE, **fields: Any) -> Appended:
        """Append an entry that does not change the state."""
        made = await self.scribe.append(self.key, kind, **fields)
        self.states.append(self.states[-1])
        return made

    async def back(self, to: int, **fields: Any) -> Appended:
        """Go back to the state of a version."""
        goal = self.states[to]
        made = await self.scribe.storage.append(self.write(goal, REWOUND, back_to=to, **fields))
        self.states.append(goal)
        return made

    async def fork(self, version: int, key: ThreadKey) -> Diary:
        """Fork it."""
        await self.scribe.fork(self.key, version, key)
        return Diary(self.scribe, key, self.states[: version + 1])

    async def told(self, storage: Storage) -> list[list[int] | None]:
        """What restoring each version gives; None where that was pruned."""
        return [await folded(storage, self.key, at) for at in range(self.head + 1)]


async def folded(storage: Storage, key: ThreadKey, at: int | None = None) -> list[int] | None:
    """The state that folding a version gives, every digest checked; None where changes are missing."""
    found = await storage.restore(key, at=at)
    assert found is not None
    fold.verify(found, at)
    assert not fold.straddled(found.snapshot, found.records)
    document = fold.document_of(fold.whole_of(found.snapshot), {}) if found.snapshot else Document()
    entries = [entry for entry in found.entries if entry.changes_state]
    try:
        fold.apply(key.id, document, entries, fold.changes_in(key.id, found), {})
    except fold.Pruned:
        return None
    return [] if document.root is None else decode(document.encoded())


class RewindContract(Contract):
    """Going back: an entry like any other, and a seam that is told."""

    async def test_a_log_without_rewinds_has_no_seams(self, storage: Storage, scribe: Scribe) -> None:
        await Diary(scribe).add(3)
        assert await storage.seams(THREAD) == Seams()
        assert await storage.records(THREAD) == []
        assert await storage.forks(THREAD) == []

    async def test_an_absent_thread_has_neither_seams_nor_records_nor_forks(self, storage: Storage) -> None:
        assert await storage.seams(THREAD) == Seams()
        assert (await storage.records(THREAD), await storage.forks(THREAD)) == ([], [])

    async def test_rewinds_are_told_with_where_they_went(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        await diary.add(4)
        await diary.back(2)
        await diary.add()
        await diary.back(4)  # what the first one had left
        await diary.back(1)
        wanted = Seams([Rewind(5, 2), Rewind(7, 4), Rewind(8, 1)])
        assert await storage.seams(THREAD) == wanted
        assert await (await place.reopen(storage)).seams(THREAD) == wanted

    async def test_a_rewind_is_an_entry_that_leads_back(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        await diary.add(3)
        made = await diary.back(1, checkpoint=scribe.mark(kind="rewind"), expected=3)
        await diary.add()
        assert (made.version, made.state_version, made.before) == (4, 4, 3)
        storage = await place.reopen(storage)
        found = await storage.entries(THREAD)
        assert [entry.kind for entry in found] == [STATE, STATE, STATE, REWOUND, STATE]
        row = await storage.thread(THREAD)
        assert row is not None
        assert verify_links("t1", 0, GENESIS, found) == row.head_digest
        assert await diary.told(storage) == diary.states
        assert diary.states[-1] == [1, 5]

    async def test_only_the_last_entry_of_a_write_goes_back(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE)
        await scribe.append(THREAD, MESSAGE, REWOUND, back_to=1)
        assert await storage.seams(THREAD) == Seams([Rewind(4, 1)])

    async def test_a_stale_rewind_is_refused_and_leaves_no_seam(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(3)
        with pytest.raises(VersionConflictError):
            await storage.append(diary.write([1], REWOUND, back_to=1, expected=2))
        assert await storage.seams(THREAD) == Seams()
        assert len(await storage.entries(THREAD)) == 3

    async def test_a_rewind_whose_answer_was_lost_is_made_once(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(3)
        write = diary.write([1], REWOUND, back_to=1, expected=3, idem_key="back", request=b"r" * 32)
        first, second = await storage.append(write), await storage.append(write)
        assert (first.again, second.again, second.version) == (False, True, 4)
        assert await storage.seams(THREAD) == Seams([Rewind(4, 1)])

    async def test_a_rewind_to_a_thread_that_this_process_knows(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        uid = (await diary.add(2)).row.uid
        for version in (2, 3, 4):
            await diary.back(1, uid=uid, expected=version)
        assert await storage.seams(THREAD) == Seams([Rewind(3, 1), Rewind(4, 1), Rewind(5, 1)])

    async def test_a_fork_has_its_parents_rewinds_up_to_where_it_began(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(3)
        await diary.back(1)
        child = await diary.fork(4, OTHER)
        await diary.back(2)
        await child.add()
        await child.back(3)
        third = await child.fork(5, THIRD)
        await third.back(2)
        storage = await place.reopen(storage)
        assert await storage.seams(THREAD) == Seams([Rewind(4, 1), Rewind(5, 2)])
        assert await storage.seams(OTHER) == Seams([Rewind(4, 1), Rewind(6, 3)])
        assert await storage.seams(THIRD) == Seams([Rewind(4, 1), Rewind(6, 2)])
        for each in (diary, child, third):
            assert await each.told(storage) == each.states

    async def test_a_deleted_parents_rewinds_stay_with_its_fork(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(3)
        await diary.back(1)
        child = await diary.fork(4, OTHER)
        await diary.back(3)
        await storage.delete(THREAD)
        storage = await place.reopen(storage)
        assert await storage.seams(OTHER) == Seams([Rewind(4, 1)])
        assert await child.told(storage) == child.states

    async def test_a_thread_made_again_has_no_seams(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(2)
        await diary.back(1)
        await storage.delete(THREAD)
        await Diary(scribe).add(4)
        assert await storage.seams(THREAD) == Seams()

    async def test_a_rewound_thread_is_copied_with_its_seams(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(3)
        await source.back(1)
        child = await source.fork(4, OTHER)
        await child.back(2)
        for key in (OTHER, THREAD):  # the fork without its parent first
            await storage.put_thread(await take(source.scribe.storage, key, spare_uid=key.id))
        storage = await place.reopen(storage)
        assert await storage.seams(OTHER) == Seams([Rewind(4, 1), Rewind(5, 2)])
        assert await storage.seams(THREAD) == Seams([Rewind(4, 1)])
        assert await child.told(storage) == child.states

    async def test_a_copy_is_brought_up_to_later_rewinds(self, storage: Storage, scribe: Scribe) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(3)
        first = await storage.put_thread(await take(source.scribe.storage, THREAD))
        await source.back(1)
        rest = await take(source.scribe.storage, THREAD, after=first.head, chain=first.head_digest)
        await storage.put_thread(rest)
        assert await storage.seams(THREAD) == Seams([Rewind(4, 1)])


class NeededContract(Contract):
    """Which versions of a thread its forks need."""

    async def test_what_forks_were_made_of_is_told(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        for version, key in ((4, OTHER), (2, THIRD), (4, FOURTH)):
            await diary.fork(version, key)
        assert await storage.forks(THREAD) == [2, 4]
        assert await storage.forks(OTHER) == []
        assert await (await place.reopen(storage)).forks(THREAD) == [2, 4]

    async def test_forks_of_forks_need_their_grandparent(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        child = await diary.fork(5, OTHER)
        await child.add(3)
        await child.fork(3, THIRD)  # before where the child began
        await child.fork(7, FOURTH)
        assert await storage.forks(THREAD) == [3, 5]
        assert await storage.forks(OTHER) == [3, 7]

    async def test_a_deleted_fork_is_needed_by_its_own_forks_only(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        child = await diary.fork(5, OTHER)
        await child.fork(3, THIRD)
        await storage.delete(OTHER)
        storage = await place.reopen(storage)
        assert await storage.forks(THREAD) == [3, 5]
        await storage.delete(THIRD)
        assert await storage.forks(THREAD) == []

    async def test_where_forks_went_back_to_is_needed(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        diary = Diary(scribe)
        await diary.add(6)
        child = await diary.fork(5, OTHER)
        await child.add(2)
        await child.back(6)  # its own
        await child.back(2)
        third = await child.fork(4, THIRD)
        await third.back(1)
        assert await storage.forks(THREAD) == [1, 2, 4, 5]
        storage = await place.reopen(storage)
        assert await storage.forks(THREAD) == [1, 2, 4, 5]
        assert await storage.forks(OTHER) == [1, 4]

    async def test_a_copied_fork_needs_what_it_needed(self, storage: Storage, scribe: Scribe) -> None:
        source = Diary(Scribe(MemoryStorage(), scribe.clock, seed=2))
        await source.add(5)
        await storage.put_thread(await take(source.scribe.storage, THREAD))
        child = await source.fork(4, OTHER)
        for to in (3, 2):
            await child.back(to)
            await storage.put_thread(await take(source.scribe.storage, OTHER))
        assert await storage.forks(THREAD) == [2, 3, 4]
