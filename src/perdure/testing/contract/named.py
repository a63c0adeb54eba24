"""One checkpoint of a thread by its id: exactly that one, if the thread has it."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.identity import ThreadKey
from perdure.storage.contract import Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.contract.prunes import prune
from perdure.testing.contract.rewinding import THIRD, Diary
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, OTHER, THREAD, Scribe

HOSTILE = [
    *("k", "K", "k ", " k", "%", "_", "é", "e\u0301", "a'; DROP TABLE checkpoint--", "back\\", 'say "hi"', "漢" * 200),
]


class NamedCheckpointContract(Contract):
    """Lists with an id."""

    async def test_one_of_many_is_found_by_its_id(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(metadata={"n": n}) for n in range(5)]
        for row in made:
            assert await named(storage, row) == [row]
            assert await named(storage, row, limit=1) == [row]
        assert await named(storage, made[0], limit=0) == []
        assert await storage.checkpoints(THREAD, CheckpointQuery(id="chk_unknown")) == []
        assert await storage.checkpoints(THREAD, CheckpointQuery(id="")) == []

    async def test_one_is_found_by_its_id_exactly(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(id=each) for each in HOSTILE]
        for row in made:
            assert await named(storage, row) == [row]
            assert await storage.user_checkpoints("", "alice", CheckpointQuery(id=row.mark.id)) == [row]

    async def test_one_found_by_its_id_meets_the_other_conditions(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.save(kind="a", status="ok", agent="bot", metadata={"x": 1})
        second = await scribe.save()
        fitting: list[dict[str, Any]] = [
            *({"kind": "a"}, {"status": "ok"}, {"agent": "bot"}, {"metadata": {"x": 1}}),
            *({"since": first.micros}, {"until": first.micros + 1}, {"before": second.mark.id}, {"present": True}),
        ]
        others: list[dict[str, Any]] = [
            *({"kind": "b"}, {"status": "no"}, {"agent": "x"}, {"metadata": {"x": 2}}),
            *({"since": first.micros + 1}, {"until": first.micros}, {"before": first.mark.id}, {"before": "unknown"}),
        ]
        assert [await named(storage, first, **each) for each in fitting] == [[first]] * 8
        assert [await named(storage, first, **each) for each in others] == [[]] * 8

    async def test_another_threads_is_not_found_by_its_id(self, storage: Storage, scribe: Scribe) -> None:
        made = {key: await scribe.save(key) for key in (THREAD, OTHER, BOBS, ThreadKey("staging", "alice", "t1"))}
        for key in made:
            assert [row for row in made.values() if await named(storage, row, key)] == [made[key]]

    async def test_a_fork_finds_its_parents_by_its_id_up_to_the_fork(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        parents = [await scribe.save() for _ in range(4)]
        await scribe.fork(THREAD, 3, OTHER)
        children = [await scribe.save(OTHER) for _ in range(3)]
        await scribe.fork(OTHER, 5, THIRD)
        last = await scribe.save(THIRD)
        everything = [*parents, *children, last]
        for _ in range(2):
            for key, wanted in ((OTHER, [*parents[:3], *children]), (THIRD, [*parents[:3], *children[:2], last])):
                assert [row for row in everything if await named(storage, row, key)] == wanted
            (seen,) = await named(storage, parents[0], THIRD)
            assert (seen.thread_id, seen.user, seen.mark.id, seen.entry) == ("t3", "alice", parents[0].mark.id, 1)
            storage = await place.reopen(storage)

    async def test_a_deleted_threads_is_found_by_its_id_in_its_forks_only(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        shared, later = await scribe.save(), await scribe.save()
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        await scribe.append(THREAD)
        assert await named(storage, shared) == []
        assert len(await named(storage, shared, OTHER)) == 1
        assert await named(storage, later, OTHER) == []

    async def test_one_that_was_pruned_is_not_found_by_its_id(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        made = [(await diary.mark()).checkpoint for _ in range(5)]
        await prune(diary, (2, 4), unmarked=(3,))
        for _ in range(2):
            assert [bool(row and await named(storage, row)) for row in made] == [True, True, False, True, True]
            storage = await place.reopen(storage)

    async def test_one_that_a_rewind_left_behind_is_not_present_by_its_id(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        diary = Diary(scribe)
        made = [(await diary.mark()).checkpoint for _ in range(3)]
        await diary.back(1)
        found = [(await named(storage, row), await named(storage, row, present=True)) for row in made if row]
        assert found == [([made[0]], [made[0]]), ([made[1]], []), ([made[2]], [])]

    async def test_a_copied_one_is_found_by_its_id(self, storage: Storage, scribe: Scribe) -> None:
        source = Scribe(MemoryStorage(), scribe.clock, seed=2)
        made = [await source.save() for _ in range(3)]
        await source.fork(THREAD, 2, OTHER)
        for key in (OTHER, THREAD):
            await storage.put_thread(await take(source.storage, key, spare_uid=source.uid()))
        assert [len(await named(storage, row, OTHER)) for row in made] == [1, 1, 0]
        assert [await named(storage, row) for row in made] == [[row] for row in made]

    @pytest.mark.parametrize("user", ["alice", None])
    async def test_one_in_the_list_of_a_user_is_found_by_its_id(
        self, storage: Storage, scribe: Scribe, user: str | None
    ) -> None:
        first, other, bobs = [await scribe.save(key) for key in (THREAD, OTHER, BOBS)]
        found = [await storage.user_checkpoints("", user, CheckpointQuery(id=row.mark.id)) for row in (first, other)]
        assert found == [[first], [other]]
        theirs = await storage.user_checkpoints("", user, CheckpointQuery(id=bobs.mark.id))
        assert theirs == ([] if user else [bobs])


async def named(storage: Storage, row: CheckpointRow, key: ThreadKey = THREAD, **query: Any) -> list[CheckpointRow]:
    """What a thread gives for the id of a checkpoint."""
    return await storage.checkpoints(key, CheckpointQuery(id=row.mark.id, **query))
