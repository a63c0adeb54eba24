"""Headers: finding a point of a log without reading what stands there."""

from __future__ import annotations

from perdure.core.entries import Entry, EntryKind
from perdure.storage.contract import Storage
from perdure.testing.contract.forks import GRANDCHILD, lineage
from perdure.testing.contract.running import Contract
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe


class HeaderContract(Contract):
    """Entries without payload, newest first."""

    async def test_a_header_is_an_entry_without_its_payload(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE, idem_key="k", request=b"r")
        whole = await storage.entries(THREAD)
        found = await storage.headers(THREAD, limit=9)
        assert [entry.payload for entry in found] == [None, None]
        assert [entry.chain for entry in found] == [entry.chain for entry in reversed(whole)]
        assert (found[1].key, found[1].request, found[1].write_id) == ("k", b"r", whole[0].write_id)

    async def test_the_newest_header_comes_unless_more_are_asked_for(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 4)
        assert versions(await storage.headers(THREAD)) == [4]
        assert versions(await storage.headers(THREAD, limit=3)) == [4, 3, 2]
        assert versions(await storage.headers(THREAD, limit=0)) == []

    async def test_headers_up_to_a_version(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 4)
        assert versions(await storage.headers(THREAD, at=3, limit=2)) == [3, 2]
        assert versions(await storage.headers(THREAD, at=0, limit=2)) == []
        assert versions(await storage.headers(THREAD, at=99)) == [4]

    async def test_headers_up_to_a_time_include_it(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.append() for _ in range(4)]
        until = made[1].row.updated
        assert versions(await storage.headers(THREAD, until=until, limit=9)) == [2, 1]
        assert versions(await storage.headers(THREAD, until=until - 1)) == [1]
        assert versions(await storage.headers(THREAD, until=0)) == []

    async def test_headers_of_chosen_kinds_count_towards_the_limit(self, storage: Storage, scribe: Scribe) -> None:
        for _ in range(3):
            await scribe.append(THREAD, STATE, MESSAGE)
        assert versions(await storage.headers(THREAD, kinds=[STATE], limit=2)) == [5, 3]
        assert versions(await storage.headers(THREAD, kinds=[EntryKind.RUN_FAILED])) == []
        assert versions(await storage.headers(THREAD, kinds=[], limit=9)) == []

    async def test_a_rare_kind_is_found_far_back(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, EntryKind.RUN_FAILED)
        await scribe.append(THREAD, *[MESSAGE] * 450)
        assert versions(await storage.headers(THREAD, kinds=[EntryKind.RUN_FAILED])) == [1]

    async def test_conditions_hold_together(self, storage: Storage, scribe: Scribe) -> None:
        made = [await scribe.append(THREAD, STATE, MESSAGE) for _ in range(4)]
        until = made[2].row.updated
        assert versions(await storage.headers(THREAD, at=5, until=until, kinds=[MESSAGE], limit=9)) == [4, 2]

    async def test_headers_reach_through_forks(self, storage: Storage, scribe: Scribe) -> None:
        await lineage(scribe)
        assert versions(await storage.headers(GRANDCHILD, limit=99)) == [7, 6, 5, 4, 3, 2, 1]
        assert versions(await storage.headers(GRANDCHILD, at=5, limit=4)) == [5, 4, 3, 2]
        found = await storage.headers(GRANDCHILD, at=4)
        assert found[0].chain == (await storage.entries(OTHER))[3].chain

    async def test_an_absent_thread_has_no_headers(self, storage: Storage) -> None:
        assert await storage.headers(THREAD, limit=5) == []


def versions(entries: list[Entry]) -> list[int]:
    """Which entries these are."""
    return [entry.version for entry in entries]
