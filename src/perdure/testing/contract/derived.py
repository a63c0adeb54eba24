"""What is kept beside a log: told as it stands, and put anew only by somebody who saw the newest entry."""

from __future__ import annotations

import msgspec

from perdure.core.derived import Derived
from perdure.core.entries import EntryKind
from perdure.core.seams import Rewind
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, OTHER, SECOND, THREAD, Scribe, blob_of


class DerivedContract(Contract):
    """Directory line, checkpoint rows, rewinds and uses of a thread."""

    async def test_what_is_derived_is_told(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        blob = blob_of("x" * 70_000)
        first = await scribe.append(THREAD, blobs=(blob,))
        await scribe.snapshot(first)
        mark = await scribe.save()
        await scribe.append(THREAD, EntryKind.THREAD_REWOUND, back_to=1)
        found = await _derived(storage)
        assert found.row == await storage.thread(THREAD)
        assert [row.mark.id for row in found.checkpoints] == [mark.mark.id]
        assert (found.rewinds, found.uses) == ([Rewind(3, 1)], {blob.digest: 1})
        assert (found.snapshots, found.beyond, found.records) == ([1], [], [])
        assert await _derived(await place.reopen(storage)) == found

    async def test_a_fork_has_only_what_is_its_own(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save()
        await scribe.fork(THREAD, 1, OTHER)
        found, line = await storage.derived(OTHER), await storage.thread(OTHER)
        assert line is not None
        assert found == Derived(row=line)

    async def test_there_is_nothing_of_a_thread_that_is_not_there(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        assert await storage.derived(BOBS) is None
        await storage.delete(THREAD)
        assert await storage.derived(THREAD) is None
        assert not await storage.reindex(made.row, Derived(row=made.row))

    async def test_the_same_put_again_changes_nothing(self, storage: Storage, scribe: Scribe) -> None:
        for _ in range(3):
            await scribe.save()
        await scribe.append(THREAD, EntryKind.THREAD_REWOUND, back_to=1, blobs=(blob_of("y" * 70_000),))
        before, log = await _derived(storage), await storage.entries(THREAD)
        assert await storage.reindex(before.row, before)
        assert (await _derived(storage), await storage.entries(THREAD)) == (before, log)
        await scribe.append()

    async def test_whoever_has_not_seen_the_newest_entry_changes_nothing(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.save()
        stale = await _derived(storage)
        await scribe.save()
        now = await _derived(storage)
        assert not await storage.reindex(stale.row, msgspec.structs.replace(stale, checkpoints=[]))
        assert await _derived(storage) == now

    async def test_a_lease_that_was_given_meanwhile_is_not_taken_back(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save()
        before = await _derived(storage)
        now = scribe.clock.now()
        await storage.claim(THREAD, "me", until=now + SECOND, now=now)
        line = await storage.thread(THREAD)
        assert await storage.reindex(before.row, before)
        assert await storage.thread(THREAD) == line

    async def test_other_threads_are_left_alone(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save(THREAD)
        await scribe.save(OTHER)
        mine, other = await _derived(storage), await storage.derived(OTHER)
        assert await storage.reindex(mine.row, mine)
        assert await storage.derived(OTHER) == other

    async def test_no_thread_is_damaged_and_nothing_is_to_mend(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.damaged() == []
        made = (await scribe.append()).row
        await scribe.fork(THREAD, 1, OTHER)
        await storage.claim(THREAD, "me", until=1, now=0)
        assert (await storage.damaged(), await storage.mend(THREAD)) == ([], [])
        await storage.delete(THREAD)
        assert (await storage.damaged(), await storage.mend(made.key)) == ([], [])

    async def test_every_entry_has_a_line_that_leads_to_it(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.save(THREAD)
        await scribe.save(BOBS)
        await scribe.fork(THREAD, 1, OTHER)
        assert await storage.strays() == {}
        await storage.delete(THREAD)  # what the fork needs of it stays, and its line too
        await storage.delete(BOBS)
        assert await storage.strays() == {}
        await storage.delete(OTHER)
        assert await storage.strays() == {}


async def _derived(storage: Storage) -> Derived:
    found = await storage.derived(THREAD)
    assert found is not None
    return found
