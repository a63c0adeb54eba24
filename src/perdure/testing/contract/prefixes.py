"""Entries by the beginning of their keys: exactly those, in order, the parents' of a fork among them."""

from __future__ import annotations

import pytest

from perdure.core.entries import EntryKind
from perdure.core.errors import VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import BLANK
from perdure.storage.contract import Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.contract.prunes import prune
from perdure.testing.contract.rewinding import THIRD, Diary
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, STATE, THREAD, Scribe

ELSEWHERE = ThreadKey("staging", "alice", "t1")
HOSTILE = [
    *("k", "K", " ", "k ", "a b", "%", "_", "100%", "a_b", "*", "[a-z]", "?", "?1", ":x", "$1", "%s"),
    *("\\", "back\\", "\\%", "qu'ote", "''", 'say "hi"', "`", "a'; DROP TABLE entry--", "line\n", "\t", "\x01", "\x7f"),
    *("é", "e\u0301", "ß", "\u017f", "İ", "漢", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0001f511"),
    *("a\U0010ffff", "\U0010ffff", "\U0010ffff\U0010ffff", "漢字" * 300),
]


class UnderContract(Contract):
    """Keys that begin alike."""

    async def test_entries_under_a_prefix_come_in_order_of_version(self, storage: Storage, scribe: Scribe) -> None:
        for idem_key in ("w/2", None, "w/10", "x/1", "w/1", "w", "v/9"):
            await scribe.append(THREAD, EntryKind.TASK_WRITTEN, idem_key=idem_key)
        found = await storage.under(THREAD, "w/")
        entries = await storage.entries(THREAD)
        assert found == [entries[0], entries[2], entries[4]]
        assert all(entry.payload for entry in found)
        assert await versions(storage, "w") == [1, 3, 5, 6]

    async def test_a_whole_key_is_under_a_prefix_that_is_itself(self, storage: Storage, scribe: Scribe) -> None:
        for idem_key in ("k", "k1", "k\U0010ffff\U0010ffff", "l"):
            await scribe.append(THREAD, idem_key=idem_key)
        assert await versions(storage, "k") == [1, 2, 3]
        assert await versions(storage, "k1") == [2]
        assert await versions(storage, "k12") == []

    @pytest.mark.parametrize("prefix", HOSTILE)
    async def test_keys_under_a_prefix_of_any_text_are_found_exactly(
        self, storage: Storage, scribe: Scribe, prefix: str
    ) -> None:
        keys = neighbours(prefix)
        for idem_key in keys:
            await scribe.append(THREAD, idem_key=idem_key)
        found = await storage.under(THREAD, prefix)
        assert [entry.key for entry in found] == [each for each in keys if each.startswith(prefix)]

    async def test_of_several_entries_of_a_write_the_first_is_under_a_prefix(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append()
        await scribe.append(THREAD, MESSAGE, STATE, MESSAGE, idem_key="w/1")
        await scribe.append(THREAD, MESSAGE, STATE, idem_key="w/2")
        assert await versions(storage, "w/") == [2, 5]

    async def test_nothing_is_under_a_prefix_that_no_key_has(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.under(THREAD, "w/") == []
        await scribe.append()
        assert await storage.under(THREAD, "w/") == []
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, idem_key="w/1", expected=0)
        assert await storage.under(THREAD, "w/") == []

    async def test_threads_of_one_id_are_apart_under_a_prefix(self, storage: Storage, scribe: Scribe) -> None:
        for key in (BOBS, ELSEWHERE, OTHER):
            await scribe.append(key, idem_key="w/1")
        assert await storage.under(THREAD, "w/") == []
        await scribe.grow(THREAD, 2)
        await scribe.append(THREAD, idem_key="w/1")
        for key, wanted in ((THREAD, [3]), (BOBS, [1]), (ELSEWHERE, [1]), (ThreadKey("", "", "t1"), [])):
            assert await versions(storage, "w/", key) == wanted

    async def test_a_fork_has_under_a_prefix_its_parents_up_to_the_fork(self, storage: Storage, scribe: Scribe) -> None:
        for number in range(4):
            await scribe.append(THREAD, idem_key=f"w/{number}")
        await scribe.fork(THREAD, 2, OTHER)
        assert await versions(storage, "w/", OTHER) == [1, 2]
        for number in (3, 1):  # one the parent has later, one it had before
            await scribe.append(OTHER, idem_key=f"w/{number}")
        await scribe.append(THREAD, idem_key="w/9")
        found = await storage.under(OTHER, "w/")
        assert [(entry.version, entry.key) for entry in found] == [(1, "w/0"), (2, "w/1"), (3, "w/3"), (4, "w/1")]
        assert found == await storage.entries(OTHER)
        assert await versions(storage, "w/") == [1, 2, 3, 4, 5]

    async def test_forks_of_forks_have_under_a_prefix_the_pieces_of_all(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        await family(scribe)
        for _ in range(2):
            assert await versions(storage, "w/", THIRD) == [1, 3, 5, 7]
            assert await versions(storage, "w/", OTHER) == [1, 3, 5, 6]
            assert await versions(storage, "w/") == [1, 3, 4]
            assert [entry.key for entry in await storage.under(THIRD, "w/")] == ["w/a", "w/b", "w/a", "w/a"]
            storage = await place.reopen(storage)

    async def test_a_fork_below_its_parents_own_part_has_nothing_of_it_under_a_prefix(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await family(scribe)
        low, empty = ThreadKey("", "alice", "low"), ThreadKey("", "alice", "empty")
        await scribe.fork(THIRD, 2, low)
        await scribe.fork(THREAD, 0, empty)
        assert await versions(storage, "w/", low) == [1]
        assert await versions(storage, "w/", empty) == []
        await scribe.append(empty, idem_key="w/1")
        assert await versions(storage, "w/", empty) == [1]

    async def test_a_deleted_thread_has_none_under_a_prefix_and_its_forks_keep_theirs(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await family(scribe)
        await storage.delete(THREAD)
        await storage.delete(OTHER)
        assert await storage.under(THREAD, "w/") == await storage.under(OTHER, "w/") == []
        assert await versions(storage, "w/", THIRD) == [1, 3, 5, 7]
        await scribe.append(THREAD, idem_key="w/new")
        assert await versions(storage, "w/") == [1]
        assert [entry.key for entry in await storage.under(THIRD, "w/")] == ["w/a", "w/b", "w/a", "w/a"]

    async def test_what_was_pruned_comes_empty_under_a_prefix(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        diary = Diary(scribe)
        for number in range(4):
            await diary.add(idem_key=f"w/{number}")
            await diary.say(EntryKind.TASK_WRITTEN, idem_key=f"w/task {number}")
        await prune(diary, (3, 5), base=3, blank=(6,))
        await diary.fork(7, OTHER)
        for _ in range(2):
            found = await storage.under(THREAD, "w/")
            assert found == (await storage.entries(THREAD))[:-1]
            assert [entry.version for entry in found if entry.payload == BLANK] == [1, 3, 5, 6]
            assert await storage.under(OTHER, "w/") == found[:7]
            storage = await place.reopen(storage)

    async def test_going_back_hides_nothing_under_a_prefix(self, storage: Storage, scribe: Scribe) -> None:
        diary = Diary(scribe)
        await diary.add(2)
        await diary.say(EntryKind.TASK_WRITTEN, idem_key="w/1")
        await diary.back(1)
        assert await versions(storage, "w/") == [3]

    async def test_copies_have_under_a_prefix_what_their_sources_have(self, storage: Storage, scribe: Scribe) -> None:
        source = Scribe(MemoryStorage(), scribe.clock, seed=2)
        await family(source)
        for key in (THIRD, THREAD):  # the past of the one is there alone when it comes
            await storage.put_thread(await take(source.storage, key))
            assert await storage.under(key, "w/") == await source.storage.under(key, "w/")
        assert await versions(storage, "w/", THIRD) == [1, 3, 5, 7]

    async def test_what_another_opening_wrote_is_found_under_a_prefix(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        elsewhere = await place.ready()
        await scribe.append(THREAD, idem_key="w/1")
        assert await versions(elsewhere, "w/") == [1]
        await scribe.append(THREAD, idem_key="w/2")
        assert await elsewhere.under(THREAD, "w/") == await storage.under(THREAD, "w/")


def neighbours(prefix: str) -> list[str]:
    """Keys that begin with a text, and others that stand beside them in some order or resemble them."""
    point = ord(prefix[-1])
    beside = [chr(each) for each in (point - 1, point + 1) if 0 < each < 0x110000 and not 0xD800 <= each <= 0xDFFF]
    alike = (prefix.upper(), prefix.lower(), prefix.swapcase(), prefix.strip(), prefix.replace("\\", ""), "%", "_", "a")
    under = (prefix, *(prefix + rest for rest in ("a", "B", " ", "%", "\x01", "漢", "\U0010ffff\U0010ffff")))
    others = [prefix[:-1], *(prefix[:-1] + char for char in ("%", "_", "a", *beside)), *(each + "x" for each in alike)]
    return list(dict.fromkeys(key for key in (*others, *under, "x" + prefix) if key))


async def family(scribe: Scribe) -> None:
    """Three generations: keys at 1, 3 and 4 of the first, 5 and 6 of the second (from 3), 7 of the third (from 5)."""
    for idem_key in ("w/a", "x", "w/b", "w/c"):
        await scribe.append(THREAD, idem_key=idem_key)
    await scribe.fork(THREAD, 3, OTHER)
    for idem_key in (None, "w/a", "w/c"):
        await scribe.append(OTHER, idem_key=idem_key)
    await scribe.fork(OTHER, 5, THIRD)
    for idem_key in ("x", "w/a"):
        await scribe.append(THIRD, idem_key=idem_key)


async def versions(storage: Storage, prefix: str, key: ThreadKey = THREAD) -> list[int]:
    """Which entries are found."""
    return [entry.version for entry in await storage.under(key, prefix)]
