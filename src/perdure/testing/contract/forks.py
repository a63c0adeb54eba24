"""Forks: a history shared up to a version, and a life of their own after it."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import NotFoundError, ThreadExistsError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import MESSAGE, OTHER, SECOND, STATE, THREAD, Scribe

GRANDCHILD = ThreadKey("", "alice", "t3")


class ForkContract(Contract):
    """Forking and what comes after."""

    async def test_a_fork_stands_where_its_parent_stood(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE)
        await scribe.grow(THREAD, 2)
        parent = await storage.thread(THREAD)
        target = scribe.target(OTHER, name="what if", agent="bot", tags=("x",))
        child = await storage.fork(THREAD, 2, target)
        chain = (await storage.entries(THREAD))[1].chain
        assert parent is not None
        assert child == ThreadRow(
            **fields_of(target), head=2, state_version=1, head_digest=chain, parent_uid=parent.uid, parent_version=2
        )
        assert await storage.thread(OTHER) == child

    async def test_a_fork_shares_its_parents_history(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 4)
        await scribe.fork(THREAD, 3, OTHER)
        assert await storage.entries(OTHER) == (await storage.entries(THREAD))[:3]

    async def test_a_fork_copies_nothing(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.snapshot(await scribe.grow(THREAD, 5))
        before = await storage.sizes()
        await scribe.fork(THREAD, 5, OTHER)
        after = await storage.sizes()
        assert (after.entries, after.entry_bytes) == (before.entries, before.entry_bytes)
        assert (after.snapshots, after.snapshot_bytes) == (before.snapshots, before.snapshot_bytes)
        assert after.threads == before.threads + 1

    async def test_a_forks_versions_go_on(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 4)
        await scribe.fork(THREAD, 2, OTHER)
        made = await scribe.append(OTHER, STATE, MESSAGE, expected=2)
        assert (made.version, made.before) == (4, 2)
        assert [entry.version for entry in await storage.entries(OTHER)] == [1, 2, 3, 4]

    async def test_a_fork_knows_the_version_it_is_at(self, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 4)
        await scribe.fork(THREAD, 2, OTHER)
        with pytest.raises(VersionConflictError) as caught:
            await scribe.append(OTHER, expected=4)
        assert caught.value.actual == 2

    async def test_a_fork_does_not_see_what_its_parent_does_later(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        child = await scribe.fork(THREAD, 2, OTHER)
        before = await storage.entries(OTHER)
        await scribe.snapshot(await scribe.append(THREAD, checkpoint=scribe.mark()))
        assert await storage.entries(OTHER) == before
        assert await storage.thread(OTHER) == child

    async def test_a_parent_does_not_see_what_its_fork_does(self, storage: Storage, scribe: Scribe) -> None:
        parent = (await scribe.grow(THREAD, 2)).row
        await scribe.fork(THREAD, 1, OTHER)
        await scribe.append(OTHER, checkpoint=scribe.mark())
        assert await storage.thread(THREAD) == parent
        assert len(await storage.entries(THREAD)) == 2

    async def test_the_chain_of_a_fork_leads_through_its_parents(self, storage: Storage, scribe: Scribe) -> None:
        made = await lineage(scribe)
        found = await storage.entries(GRANDCHILD)
        assert [entry.version for entry in found] == list(range(1, 8))
        assert verify_links("t3", 0, GENESIS, found) == made.head_digest

    async def test_ranges_of_a_fork_reach_into_its_parents(self, storage: Storage, scribe: Scribe) -> None:
        await lineage(scribe)
        for after in range(8):
            found = await storage.entries(GRANDCHILD, after=after, limit=3)
            assert [entry.version for entry in found] == list(range(after + 1, 8))[:3]

    async def test_kinds_are_chosen_through_forks(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE, STATE)
        await scribe.fork(THREAD, 3, OTHER)
        await scribe.append(OTHER, MESSAGE, STATE)
        found = await storage.entries(OTHER, kinds=[MESSAGE])
        assert [entry.version for entry in found] == [2, 4]
        assert [entry.version for entry in await storage.entries(OTHER, kinds=[MESSAGE], limit=1)] == [2]

    async def test_a_grandchild_forked_before_its_parent_began(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 4)
        await scribe.fork(THREAD, 4, OTHER)
        await scribe.append(OTHER)
        child = await scribe.fork(OTHER, 2, GRANDCHILD)
        made = await scribe.append(GRANDCHILD)
        assert (child.head, made.version) == (2, 3)
        assert (await storage.entries(GRANDCHILD))[:2] == (await storage.entries(THREAD))[:2]
        assert verify_links("t3", 0, GENESIS, await storage.entries(GRANDCHILD)) == made.row.head_digest

    async def test_a_fork_at_a_message_knows_the_state_before_it(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, MESSAGE)
        await scribe.append(THREAD, STATE, MESSAGE, MESSAGE)
        first = await scribe.fork(THREAD, 1, OTHER)
        second = await scribe.fork(THREAD, 4, GRANDCHILD)
        assert (first.state_version, second.state_version) == (0, 2)

    async def test_a_fork_of_a_fork_takes_nothing_of_a_history_that_is_not_its_own(self, scribe: Scribe) -> None:
        first = await scribe.save()
        await scribe.save()
        await scribe.save()
        await scribe.fork(THREAD, 1, OTHER)
        await scribe.append(OTHER, MESSAGE, MESSAGE)
        child = await scribe.fork(OTHER, 3, GRANDCHILD)
        assert (child.state_version, child.last_checkpoint) == (1, first.mark.id)

    async def test_a_fork_of_nothing_starts_empty(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        child = await scribe.fork(THREAD, 0, OTHER)
        assert (child.head, child.head_digest) == (0, GENESIS)
        assert await storage.entries(OTHER) == []
        assert (await scribe.append(OTHER, expected=0)).version == 1

    async def test_an_unknown_version_cannot_be_forked(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        for version in (3, 99, -1):
            with pytest.raises(NotFoundError):
                await scribe.fork(THREAD, version, OTHER)
        assert await storage.thread(OTHER) is None

    async def test_an_unknown_thread_cannot_be_forked(self, storage: Storage, scribe: Scribe) -> None:
        with pytest.raises(NotFoundError):
            await scribe.fork(THREAD, 1, OTHER)
        assert await storage.thread(OTHER) is None

    async def test_a_fork_never_replaces_a_thread(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        made = await scribe.append(OTHER)
        with pytest.raises(ThreadExistsError):
            await scribe.fork(THREAD, 1, OTHER)
        with pytest.raises(ThreadExistsError):
            await scribe.fork(THREAD, 1, THREAD)
        assert await storage.thread(OTHER) == made.row

    async def test_a_fork_whose_answer_was_lost_can_be_asked_for_again(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        target = scribe.target(OTHER, name="what if")
        child = await storage.fork(THREAD, 2, target)
        await scribe.append(THREAD)
        assert await storage.fork(THREAD, 2, target) == child
        made = await scribe.append(OTHER)
        assert await storage.fork(THREAD, 2, target) == made.row
        assert len(await storage.entries(OTHER)) == 3

    async def test_another_fork_to_the_same_id_is_refused(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        await scribe.grow(GRANDCHILD, 3)
        target = scribe.target(OTHER)
        child = await storage.fork(THREAD, 2, target)
        for source, version, other in ((THREAD, 1, target), (GRANDCHILD, 2, target), (THREAD, 2, scribe.target(OTHER))):
            with pytest.raises(ThreadExistsError):
                await storage.fork(source, version, other)
        assert await storage.thread(OTHER) == child

    async def test_of_many_tries_of_one_fork_all_have_the_same_answer(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        await scribe.grow(THREAD, 3)
        target = scribe.target(OTHER)
        answers = await together([storage.fork(THREAD, 2, target) for _ in range(16)])
        assert list(answers) == [await storage.thread(OTHER)] * 16

    async def test_a_fork_has_no_lease(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=scribe.clock.now() + 99 * SECOND, now=scribe.clock.now())
        child = await scribe.fork(THREAD, 1, OTHER)
        assert (child.epoch, child.lease_owner, child.status) == (0, None, "idle")
        assert (await scribe.append(OTHER)).version == 2

    async def test_a_forks_time_does_not_go_back_either(self, storage: Storage, scribe: Scribe) -> None:
        parent = await scribe.append()
        scribe.clock.advance(timedelta(hours=-1))
        child = await scribe.fork(THREAD, 1, OTHER)
        made = await scribe.append(OTHER)
        assert child.updated == made.row.updated == parent.row.updated

    async def test_forks_are_there_after_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        made = await lineage(scribe)
        before = await storage.entries(GRANDCHILD)
        storage = await place.reopen(storage)
        assert await storage.entries(GRANDCHILD) == before
        assert await storage.thread(GRANDCHILD) == made


async def lineage(scribe: Scribe) -> ThreadRow:
    """Three generations: versions 1-3 are the first's, 4-5 the second's, 6-7 the third's, whose row is returned."""
    await scribe.grow(THREAD, 5)
    await scribe.fork(THREAD, 3, OTHER)
    await scribe.grow(OTHER, 4)
    await scribe.fork(OTHER, 5, GRANDCHILD)
    return (await scribe.grow(GRANDCHILD, 2)).row


def fields_of(target: ThreadRow) -> dict[str, Any]:
    """What a fork takes from its target; it was last changed when it was made."""
    names = ("key", "uid", "name", "agent", "tags", "created")
    return {name: getattr(target, name) for name in names} | {"updated": target.created}
