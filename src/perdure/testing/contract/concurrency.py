"""Many writers at once: versions without gaps or doubles, and exactly what was acknowledged."""

from __future__ import annotations

from typing import Any

from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.writes import Appended
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import MESSAGE, STATE, THREAD, Scribe

WRITERS = 64


class ConcurrencyContract(Contract):
    """Threads in sync mode, tasks in async mode."""

    async def test_every_acknowledged_write_is_there_once(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        writes = [scribe.write(THREAD, STATE, MESSAGE) for _ in range(WRITERS)]
        answers = await together([storage.append(write) for write in writes])
        found = await storage.entries(THREAD)
        assert [entry.version for entry in found] == list(range(1, 2 * WRITERS + 1))
        at = {entry.version: entry.write_id for entry in found}
        assert [at[made.version] for made in answers] == [write.write_id for write in writes]
        assert verify_links("t1", 0, GENESIS, found) == found[-1].chain

    async def test_of_many_writers_that_expect_the_same_one_wins(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        await scribe.append()
        works = [storage.append(scribe.write(THREAD, expected=1)) for _ in range(WRITERS)]
        answers = await together(works)
        assert sum(isinstance(answer, Appended) for answer in answers) == 1
        assert sum(isinstance(answer, VersionConflictError) for answer in answers) == WRITERS - 1
        assert len(await storage.entries(THREAD)) == 2

    async def test_of_many_writers_with_one_key_one_writes(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        works = [storage.append(scribe.write(THREAD, idem_key="k", request=b"r")) for _ in range(WRITERS)]
        answers: Any = await together(works)
        assert {made.version for made in answers} == {1}
        assert sorted(made.again for made in answers) == [False] + [True] * (WRITERS - 1)
        assert len(await storage.entries(THREAD)) == 1

    async def test_refused_writers_do_not_disturb_others_at_their_side(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        await scribe.append()
        kinds = [{"expected": 99}, {"commutes": True}, {"epoch": 5}, {}]
        works = [storage.append(scribe.write(THREAD, **kinds[n % 4])) for n in range(WRITERS)]
        answers = await together(works)
        landed = [made.version for made in answers if isinstance(made, Appended)]
        assert sorted(landed) == list(range(2, WRITERS // 2 + 2))
        assert len(await storage.entries(THREAD)) == len(landed) + 1

    async def test_writers_of_different_threads_do_not_meet(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        keys = [ThreadKey("", "alice", f"t{n % 8}") for n in range(WRITERS)]
        answers: Any = await together([storage.append(scribe.write(key)) for key in keys])
        assert sorted(made.version for made in answers) == sorted(list(range(1, 9)) * 8)
        for key in set(keys):
            assert [entry.version for entry in await storage.entries(key)] == list(range(1, 9))

    async def test_only_one_of_many_makes_the_thread(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        works = [storage.append(scribe.write(THREAD, expected=0)) for _ in range(WRITERS)]
        answers = await together(works)
        (made,) = [answer for answer in answers if isinstance(answer, Appended)]
        assert await storage.thread(THREAD) == made.row

    async def test_writers_of_two_openings_take_turns(
        self, storage: Storage, scribe: Scribe, place: Place, together: Together
    ) -> None:
        second = await place.ready()
        works = [(storage, second)[n % 2].append(scribe.write(THREAD)) for n in range(32)]
        answers: Any = await together(works)
        assert sorted(made.version for made in answers) == list(range(1, 33))
        assert await storage.entries(THREAD) == await second.entries(THREAD)

    async def test_readers_see_whole_writes_only(self, storage: Storage, scribe: Scribe, together: Together) -> None:
        await scribe.append(THREAD, STATE, MESSAGE)
        writes = [storage.append(scribe.write(THREAD, STATE, MESSAGE)) for _ in range(16)]
        reads = [storage.restore(THREAD) for _ in range(16)]
        answers: Any = await together([work for pair in zip(writes, reads, strict=True) for work in pair])
        for found in answers[1::2]:
            assert len(found.entries) % 2 == 0
            assert verify_links("t1", 0, GENESIS, found.entries) == found.row.head_digest
