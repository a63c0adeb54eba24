"""Large values of pruned threads, their copies, and their sizes."""

from __future__ import annotations

import msgspec
import pytest
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.entries import EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.payload import WholeState
from perdure.core.writes import Blob
from perdure.storage.contract import BLOB_GRACE, Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.contract.prunes import planned, prune, pruning, sealed
from perdure.testing.contract.rewinding import PRUNED, Diary
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of

QUIET = (STATE, MESSAGE, EntryKind.TOOL_FAILED, EntryKind.CHECKPOINT_CLEARED, EntryKind.PAUSE_DECIDED)

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
        record = sealed(0, 4, plan.records[0].chain, WholeState(state, [KEPT.digest]), (KEPT.digest,))
        await source.scribe.append(THREAD, PRUNED, pruning=msgspec.structs.replace(plan, records=(record,)))
        await storage.put_thread(await take(source.scribe.storage, THREAD))
        assert await storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE) == 0
        assert await self._values(storage) == [KEPT]

    async def _values(self, storage: Storage, key: ThreadKey = THREAD) -> list[Blob]:
        """Which of the values are there."""
        found = await storage.blobs(key, [blob.digest for blob in (KEPT, GONE, LATER)])
        return [blob for blob in (KEPT, GONE, LATER) if blob.digest in found]
