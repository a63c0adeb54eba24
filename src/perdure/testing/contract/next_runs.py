"""A write that says which run was the newest: of two runs that are started at one moment, one stands."""

from __future__ import annotations

from typing import Any

import pytest

from perdure.core.errors import LeaseLostError, VersionConflictError
from perdure.core.writes import Appended
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.contract.runs import FINISHED, STARTED, run_of
from perdure.testing.scribe import MESSAGE, STATE, THREAD, Scribe


class NextRunContract(Contract):
    """A write that says which run was the newest."""

    async def test_after_another_run_it_is_refused_and_changes_nothing(self, storage: Storage, scribe: Scribe) -> None:
        before = (await scribe.append(THREAD, STATE, STARTED)).row
        for seen in (0, 1, 3):
            with pytest.raises(VersionConflictError) as caught:
                await scribe.append(THREAD, STARTED, after_run=seen)
            assert (caught.value.expected, caught.value.actual) == (seen, 2)
        assert await storage.thread(THREAD) == before

    async def test_after_the_run_it_knows_it_is_made(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, STARTED, after_run=0)
        await scribe.append(THREAD, MESSAGE, FINISHED)
        assert (await scribe.append(THREAD, STARTED, after_run=1)).row.run == 4

    async def test_an_absent_thread_has_no_run(self, storage: Storage, scribe: Scribe) -> None:
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, STARTED, after_run=1)
        assert await storage.thread(THREAD) is None
        assert (await scribe.append(THREAD, STARTED, after_run=0)).version == 1

    async def test_any_kind_of_write_can_say_it(self, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, STARTED)
        for kind in (MESSAGE, STATE):
            with pytest.raises(VersionConflictError):
                await scribe.append(THREAD, kind, uid=first.row.uid, after_run=0)
            assert (await scribe.append(THREAD, kind, uid=first.row.uid, after_run=1)).row.run == 1

    async def test_a_run_that_others_started_is_noticed_by_who_knew_the_thread(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        first, elsewhere = await scribe.append(), await place.ready()
        await elsewhere.append(scribe.write(THREAD, STARTED))
        fields: dict[str, Any]
        for fields in ({"expected": 1}, {"idem_key": "k"}, {}):
            with pytest.raises(VersionConflictError):
                await scribe.append(THREAD, STARTED, uid=first.row.uid, after_run=0, **fields)
        assert await run_of(storage, THREAD) == 2

    async def test_a_key_that_stands_and_a_lost_lease_are_noticed_before(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append(THREAD, STARTED, idem_key="k", after_run=0)
        assert (await scribe.append(THREAD, STARTED, idem_key="k", after_run=0)).again
        with pytest.raises(LeaseLostError):
            await scribe.append(THREAD, STARTED, epoch=7, after_run=0)

    async def test_of_several_at_once_one_is_made(
        self, storage: Storage, scribe: Scribe, place: Place, together: Together
    ) -> None:
        places = [storage, await place.ready(), await place.ready()]
        writes = [scribe.write(THREAD, STARTED, idem_key=f"k{at}", after_run=0) for at in range(9)]
        answers = await together([places[at % 3].append(write) for at, write in enumerate(writes)])
        assert sum(isinstance(answer, Appended) for answer in answers) == 1
        assert sum(isinstance(answer, VersionConflictError) for answer in answers) == 8
        assert len(await storage.entries(THREAD, kinds=[STARTED])) == 1
