"""Where the newest run began: a number of the directory line that follows from the log."""

from __future__ import annotations

import msgspec

from perdure.core.entries import EntryKind
from perdure.core.identity import ThreadKey
from perdure.storage.contract import Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import MESSAGE, OTHER, SECOND, STATE, THREAD, Scribe

STARTED, FINISHED = EntryKind.RUN_STARTED, EntryKind.RUN_FINISHED


class RunContract(Contract):
    """The newest run of a thread."""

    async def test_a_thread_without_runs_has_none(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append(THREAD, STATE, MESSAGE)
        assert made.row.run == 0
        assert await run_of(storage, THREAD) == 0

    async def test_a_thread_may_begin_with_a_run(self, storage: Storage, scribe: Scribe) -> None:
        assert (await scribe.append(THREAD, STARTED)).row.run == 1
        assert await run_of(storage, THREAD) == 1

    async def test_the_line_tells_where_the_newest_run_began(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        runs = [(await scribe.append(THREAD, *kinds)).row.run for kinds in ((STATE,), (STARTED,), (STATE, FINISHED))]
        made = await scribe.append(THREAD, MESSAGE, STARTED)
        assert (*runs, made.row.run) == (0, 2, 2, 6)
        storage = await place.reopen(storage)
        assert await storage.thread(THREAD) == made.row

    async def test_of_several_runs_of_one_write_the_last_counts(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        made = await scribe.append(THREAD, STARTED, FINISHED, STARTED, STATE)
        assert made.row.run == 4
        assert await storage.thread(THREAD) == made.row

    async def test_writes_inside_a_run_know_where_it_began(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        now = scribe.clock.now()
        lease = await storage.claim(THREAD, "me", until=now + 99 * SECOND, now=now)
        began = await scribe.append(THREAD, STARTED, epoch=lease.epoch, uid=first.row.uid)
        known = await scribe.append(THREAD, STATE, epoch=lease.epoch, uid=first.row.uid, expected=1)
        assert (began.row.run, known.row.run) == (2, 2)
        await storage.release(THREAD, lease.epoch)
        assert await run_of(storage, THREAD) == 2

    async def test_a_run_is_known_to_whoever_builds_on_it(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        first, elsewhere = await scribe.append(), await place.ready()
        await elsewhere.append(scribe.write(THREAD, STARTED))
        made = await scribe.append(THREAD, uid=first.row.uid, expected=1)
        assert (made.version, made.row.run) == (3, 2)
        started = await scribe.append(THREAD, STATE, STARTED, uid=first.row.uid, expected=3)
        assert await elsewhere.thread(THREAD) == started.row
        assert started.row.run == 5

    async def test_a_write_that_stands_already_starts_no_run(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STARTED, idem_key="k")
        await scribe.append(THREAD, FINISHED)
        again = await scribe.append(THREAD, STARTED, idem_key="k")
        assert (again.again, again.row.run) == (True, 1)
        assert await run_of(storage, THREAD) == 1

    async def test_a_fork_has_no_run_of_its_parents(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STARTED, STATE)
        assert (await scribe.fork(THREAD, 2, OTHER)).run == 0
        assert (await scribe.append(OTHER)).row.run == 0
        assert (await scribe.append(OTHER, STARTED)).row.run == 4
        assert (await run_of(storage, THREAD), await run_of(storage, OTHER)) == (1, 4)

    async def test_lists_tell_of_the_run_too(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append(THREAD, STARTED)
        await storage.claim(THREAD, "me", until=1, now=0)
        found = [*await storage.find("", "t1"), *await storage.due("", scribe.clock.now())]
        assert [row.run for row in found] == [1, 1]
        derived = await storage.derived(THREAD)
        assert derived is not None
        assert (derived.row.run, derived.row.head) == (1, made.version)

    async def test_what_is_made_again_from_the_log_has_the_run(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append(THREAD, STARTED, STATE)
        found = await storage.derived(THREAD)
        assert found is not None
        assert await storage.reindex(made.row, found)
        assert await storage.thread(THREAD) == made.row


class CopiedRunContract(Contract):
    """The newest run of a thread that was copied."""

    async def test_a_copy_has_the_run(self, storage: Storage, clock: ManualClock, place: Place) -> None:
        copy = await take((await _ran(clock)).storage, THREAD)
        assert (await storage.put_thread(copy)).run == 2
        assert await run_of(await place.reopen(storage), THREAD) == 2

    async def test_a_copy_that_grows_keeps_its_run_until_a_newer_one(
        self, storage: Storage, clock: ManualClock, place: Place
    ) -> None:
        source = await _ran(clock)
        made = await storage.put_thread(await take(source.storage, THREAD))
        for kind, run in ((STATE, 2), (STARTED, 5)):
            await source.append(THREAD, kind)
            rest = await take(source.storage, THREAD, after=made.head, chain=made.head_digest)
            made = await storage.put_thread(rest)
            assert made.run == run
        assert await run_of(await place.reopen(storage), THREAD) == 5

    async def test_what_a_copy_says_of_its_run_is_looked_up_in_its_log(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        copy = await take((await _ran(clock)).storage, THREAD)
        bent = msgspec.structs.replace(copy, row=msgspec.structs.replace(copy.row, run=99))
        assert (await storage.put_thread(bent)).run == 2
        assert await run_of(storage, THREAD) == 2

    async def test_a_copied_fork_has_no_run_of_its_parents(self, storage: Storage, clock: ManualClock) -> None:
        source = await _ran(clock)
        await source.fork(THREAD, 3, OTHER)
        made = await storage.put_thread(await take(source.storage, OTHER))
        assert (made.run, await run_of(storage, OTHER)) == (0, 0)
        await source.append(OTHER, STATE, STARTED)
        rest = await take(source.storage, OTHER, after=3, chain=made.head_digest)
        assert (await storage.put_thread(rest)).run == 5


async def _ran(clock: ManualClock) -> Scribe:
    """A storage in memory with a thread of three versions, whose run began with the second."""
    source = Scribe(MemoryStorage(), clock, seed=2)
    for kind in (STATE, STARTED, STATE):
        await source.append(THREAD, kind)
    return source


async def run_of(storage: Storage, key: ThreadKey) -> int:
    """Where the newest run of a thread began."""
    row = await storage.thread(key)
    assert row is not None
    return row.run
