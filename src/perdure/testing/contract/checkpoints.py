"""The checkpoint index: newest first, page by page, and never another user's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.entries import EntryKind
from perdure.core.errors import VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, STATE, THREAD, Scribe

ALL = CheckpointQuery()
ELSEWHERE = ThreadKey("staging", "alice", "t1")


class CheckpointContract(Contract):
    """Checkpoints of one thread."""

    async def test_a_checkpoint_rides_on_the_last_entry(self, storage: Storage, scribe: Scribe) -> None:
        mark = scribe.mark(kind="pre_operation", status="ok", note="Ünï", agent="bot", metadata={"a": 1})
        made = await scribe.append(THREAD, STATE, MESSAGE, checkpoint=mark)
        assert made.checkpoint == CheckpointRow(
            mark=mark, thread_id="t1", user="alice", version=2, entry=2, parent=None, micros=made.row.updated
        )
        assert await storage.checkpoints(THREAD, ALL) == [made.checkpoint]
        assert made.row.last_checkpoint == mark.id

    async def test_checkpoints_come_newest_first(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(4)]
        assert await storage.checkpoints(THREAD, ALL) == made[::-1]

    async def test_order_is_by_version_when_the_clock_goes_back(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(), await scribe.save()]
        scribe.clock.advance(timedelta(days=-1))
        made += [await scribe.save(id="chk_0"), await scribe.save(id="chk_1")]
        assert await storage.checkpoints(THREAD, ALL) == made[::-1]
        older = await storage.checkpoints(THREAD, CheckpointQuery(before="chk_1"))
        assert older == made[2::-1]

    async def test_each_checkpoint_follows_the_one_before(self, scribe: Scribe) -> None:
        first, second = await scribe.save(), await scribe.save()
        await scribe.append()
        third = await scribe.save(parent=first.mark.id)
        assert (first.parent, second.parent, third.parent) == (None, first.mark.id, first.mark.id)

    async def test_a_checkpoint_can_mark_an_earlier_version(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        mark = scribe.mark(version=2)
        await scribe.append(THREAD, EntryKind.CHECKPOINT_SAVED, checkpoint=mark)
        (row,) = await storage.checkpoints(THREAD, ALL)
        assert (row.version, row.entry) == (2, 4)

    async def test_a_refused_write_marks_nothing(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        mark = scribe.mark()
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, expected=0, checkpoint=mark)
        assert await storage.checkpoints(THREAD, ALL) == []
        assert await storage.checkpoint("", None, mark.id) is None

    async def test_a_limit_takes_the_newest(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(4)]
        assert await storage.checkpoints(THREAD, CheckpointQuery(limit=2)) == made[:1:-1]
        assert await storage.checkpoints(THREAD, CheckpointQuery(limit=0)) == []

    async def test_paging_meets_each_checkpoint_once(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(7)]
        found = await paged(lambda query: storage.checkpoints(THREAD, query), 3)
        assert found == made[::-1]

    async def test_paging_is_not_disturbed_by_newer_ones(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(4)]
        await scribe.save()
        found = await storage.checkpoints(THREAD, CheckpointQuery(before=made[2].mark.id))
        assert found == made[1::-1]

    async def test_an_absent_thread_has_no_checkpoints(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save()
        assert await storage.checkpoints(OTHER, ALL) == []
        assert await storage.checkpoints(BOBS, ALL) == []

    async def test_the_index_is_there_after_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        made = [await scribe.save(metadata={"n": n}, note="a\nb") for n in range(3)]
        storage = await place.reopen(storage)
        assert await storage.checkpoints(THREAD, ALL) == made[::-1]
        assert await storage.checkpoint("", "alice", made[0].mark.id) == made[0]

    async def test_a_fork_lists_its_parents_up_to_the_fork(self, storage: Storage, scribe: Scribe) -> None:
        parents = [await scribe.save() for _ in range(4)]
        child = await scribe.fork(THREAD, 2, OTHER)
        own = await scribe.save(OTHER)
        found = await storage.checkpoints(OTHER, ALL)
        assert ids(found) == ids([own, parents[1], parents[0]])
        assert (child.last_checkpoint, own.parent) == (parents[1].mark.id, parents[1].mark.id)
        assert ids(await storage.checkpoints(THREAD, ALL)) == ids(parents[::-1])

    async def test_a_forks_list_names_the_fork(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save()
        await scribe.fork(THREAD, 1, OTHER)
        await scribe.save(OTHER)
        found = await storage.checkpoints(OTHER, ALL)
        assert [(row.thread_id, row.user) for row in found] == [("t2", "alice")] * 2

    async def test_paging_through_forks_has_no_gaps_or_doubles(self, storage: Storage, scribe: Scribe) -> None:
        third = ThreadKey("", "alice", "t3")
        made = [await scribe.save() for _ in range(4)]
        await scribe.fork(THREAD, 3, OTHER)
        made[3:] = [await scribe.save(OTHER) for _ in range(3)]
        await scribe.fork(OTHER, 5, third)
        made[5:] = [await scribe.save(third) for _ in range(2)]
        for size in (1, 2, 3):
            found = await paged(lambda query: storage.checkpoints(third, query), size)
            assert ids(found) == ids(made[::-1])


class UserCheckpointContract(Contract):
    """Checkpoints across threads."""

    async def test_a_users_checkpoints_come_newest_first(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(key) for key in (THREAD, OTHER, THREAD, OTHER)]
        assert await storage.user_checkpoints("", "alice", ALL) == made[::-1]

    async def test_another_users_checkpoints_are_not_shown(self, storage: Storage, scribe: Scribe) -> None:
        alices, bobs = await scribe.save(), await scribe.save(BOBS)
        assert await storage.user_checkpoints("", "alice", ALL) == [alices]
        assert await storage.user_checkpoints("", "bob", ALL) == [bobs]
        assert await storage.user_checkpoints("", "carol", ALL) == []

    async def test_a_caller_who_names_no_user_sees_all_of_them(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(key) for key in (THREAD, BOBS, ThreadKey("", "", "t1"))]
        assert await storage.user_checkpoints("", None, ALL) == made[::-1]
        assert await storage.user_checkpoints("", "", ALL) == made[2:]

    async def test_checkpoints_of_namespaces_are_apart(self, storage: Storage, scribe: Scribe) -> None:
        here, there = await scribe.save(), await scribe.save(ELSEWHERE)
        assert await storage.user_checkpoints("", None, ALL) == [here]
        assert await storage.user_checkpoints("staging", "alice", ALL) == [there]
        assert await storage.checkpoint("", None, there.mark.id) is None
        assert await storage.checkpoint("staging", "alice", there.mark.id) == there

    async def test_one_checkpoint_is_found_by_its_owner_only(self, storage: Storage, scribe: Scribe) -> None:
        row = await scribe.save()
        assert await storage.checkpoint("", "alice", row.mark.id) == row
        assert await storage.checkpoint("", None, row.mark.id) == row
        assert await storage.checkpoint("", "bob", row.mark.id) is None
        assert await storage.checkpoint("", "", row.mark.id) is None
        assert await storage.checkpoint("", "alice", "chk_unknown") is None

    async def test_paging_over_threads_meets_each_once(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(key) for key in (THREAD, OTHER, OTHER, THREAD, OTHER)]
        await scribe.save(BOBS)
        found = await paged(lambda query: storage.user_checkpoints("", "alice", query), 2)
        assert found == made[::-1]

    async def test_paging_goes_on_when_the_cursors_thread_is_gone(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save(key) for key in (OTHER, OTHER, THREAD, OTHER)]
        await storage.delete(THREAD)
        found = await storage.user_checkpoints("", "alice", CheckpointQuery(before=made[2].mark.id))
        assert found == made[1::-1]

    async def test_a_checkpoint_shared_by_a_fork_is_listed_once(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.save() for _ in range(2)]
        await scribe.fork(THREAD, 2, OTHER)
        made.append(await scribe.save(OTHER))
        assert ids(await storage.user_checkpoints("", "alice", ALL)) == ids(made[::-1])

    async def test_checkpoints_go_with_their_thread(self, storage: Storage, scribe: Scribe) -> None:
        gone, kept = await scribe.save(), await scribe.save(OTHER)
        await storage.delete(THREAD)
        assert await storage.user_checkpoints("", "alice", ALL) == [kept]
        assert await storage.checkpoint("", "alice", gone.mark.id) is None


def ids(rows: list[CheckpointRow]) -> list[str]:
    """Which checkpoints these are."""
    return [row.mark.id for row in rows]


async def paged(
    list_page: Callable[[CheckpointQuery], Awaitable[list[CheckpointRow]]], size: int
) -> list[CheckpointRow]:
    """Everything a listing gives, page by page."""
    found: list[CheckpointRow] = []
    page = await list_page(CheckpointQuery(limit=size))
    while page and len(found) < 100:
        found += page
        page = await list_page(CheckpointQuery(limit=size, before=page[-1].mark.id))
    return found
