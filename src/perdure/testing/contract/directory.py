"""The directory: which threads there are, whose they are, and which id is which."""

from __future__ import annotations

import random
from typing import Any

import pytest

from perdure.core.identity import MAX_ID, ThreadKey
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, OTHER, SECOND, THREAD, Scribe

ALL = ThreadQuery()
LOOKALIKES = [
    *(
        "Straße",
        "straße",
        "STRASSE",
        "é",
        "e\u0301",
        "x",
        "x ",
        " x",
        "X",
        "x%",
        "x_",
        "a/b",
        "a\\b",
        "..",
        ".",
        "~",
        "*",
    ),
    *("漢" * 512, "漢" * 511 + "字", "\u202eabc", "a'b", 'a"b', "-x", "con", "nul.txt", "\U0001f600", "\x7f", "a\nb"),
]


class DirectoryContract(Contract):
    """Listing threads."""

    async def test_threads_come_with_the_last_written_first(self, storage: Storage, scribe: Scribe) -> None:
        rows = [(await scribe.append(key)).row for key in (THREAD, OTHER, BOBS)]
        assert await storage.threads(ALL) == rows[::-1]
        rows[0] = (await scribe.append(THREAD)).row
        assert await storage.threads(ALL) == [rows[0], rows[2], rows[1]]

    async def test_threads_of_the_same_moment_are_ordered_by_uid(self, storage: Storage, scribe: Scribe) -> None:
        for name in ("b", "d", "a", "c"):
            await scribe.append(ThreadKey("", "", name), new_uid=name, micros=SECOND)
        assert [row.uid for row in await storage.threads(ALL)] == ["d", "c", "b", "a"]
        later = await storage.threads(ThreadQuery(before=(SECOND, "c")))
        assert [row.uid for row in later] == ["b", "a"]

    @pytest.mark.parametrize("size", [1, 2, 3])
    async def test_paging_meets_each_thread_once(self, storage: Storage, scribe: Scribe, size: int) -> None:
        for n in range(7):
            await scribe.append(ThreadKey("", "", f"t{n}"), micros=SECOND * (n // 3))
        whole = await storage.threads(ALL)
        assert await paged(storage, size) == whole
        assert len(whole) == 7

    async def test_a_filter_chooses_by_user(self, storage: Storage, scribe: Scribe) -> None:
        for key in (THREAD, BOBS, ThreadKey("", "", "t1")):
            await scribe.append(key)
        assert [row.key for row in await storage.threads(ThreadQuery(user="alice"))] == [THREAD]
        assert [row.key.user for row in await storage.threads(ThreadQuery(user=""))] == [""]
        assert await storage.threads(ThreadQuery(user="ali")) == []

    @pytest.mark.parametrize("field", ["agent", "status"])
    async def test_a_filter_chooses_by_field(self, storage: Storage, scribe: Scribe, field: str) -> None:
        small: dict[str, Any] = {field: "x"}
        large: dict[str, Any] = {field: "X"}
        await scribe.append(THREAD, patch=ThreadPatch(**small))
        await scribe.append(OTHER, patch=ThreadPatch(**large))
        await scribe.append(BOBS)
        found = await storage.threads(ThreadQuery(**small))
        assert [row.key for row in found] == [THREAD]

    async def test_a_filter_chooses_by_tag(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, patch=ThreadPatch(tags=("red", "big")))
        await scribe.append(OTHER, patch=ThreadPatch(tags=("bigger", 'b"i', "Red")))
        for tag, keys in {"big": [THREAD], "red": [THREAD], 'b"i': [OTHER], "i": [], "%": []}.items():
            assert [row.key for row in await storage.threads(ThreadQuery(tag=tag))] == keys

    async def test_filters_cursor_and_limit_work_together(self, storage: Storage, scribe: Scribe) -> None:
        keys = [ThreadKey("", "alice", f"t{n}") for n in range(6)]
        for n, key in enumerate(keys):
            await scribe.append(key, patch=ThreadPatch(tags=("even",) if n % 2 == 0 else ("odd",), agent="bot"))
        first = await storage.threads(ThreadQuery(user="alice", agent="bot", tag="even", limit=2))
        cursor = (first[-1].updated, first[-1].uid)
        rest = await storage.threads(ThreadQuery(user="alice", agent="bot", tag="even", limit=2, before=cursor))
        assert [row.key for row in first + rest] == [keys[4], keys[2], keys[0]]

    async def test_namespaces_are_apart(self, storage: Storage, scribe: Scribe) -> None:
        there = ThreadKey("staging", "alice", "t1")
        await scribe.append(THREAD)
        made = await scribe.append(there)
        assert [row.key for row in await storage.threads(ALL)] == [THREAD]
        assert await storage.threads(ThreadQuery(namespace="staging")) == [made.row]
        assert await storage.find("staging", "t1") == [made.row]

    async def test_finding_an_id_shows_every_owner(self, storage: Storage, scribe: Scribe) -> None:
        for key in (THREAD, BOBS, OTHER):
            await scribe.append(key)
        assert {row.key for row in await storage.find("", "t1")} == {THREAD, BOBS}
        assert await storage.find("", "T1") == []

    async def test_names_as_long_as_they_may_be_are_found_in_every_way(self, storage: Storage, scribe: Scribe) -> None:
        """Characters of four bytes each, in no order that could be packed."""
        rng = random.Random(1)
        key = ThreadKey(*("".join(chr(rng.randrange(0x10000, 0x1FFFF)) for _ in range(MAX_ID)) for _ in range(3)))
        other = ThreadKey(key.namespace, key.user, f"{key.id[:-1]}x")
        rows = [(await scribe.append(each)).row for each in (key, other)]
        assert await storage.find(key.namespace, key.id) == rows[:1]
        assert await storage.threads(ThreadQuery(namespace=key.namespace, user=key.user)) == rows[::-1]
        assert [await storage.thread(each) for each in (key, other)] == rows

    async def test_a_uid_leads_to_its_line_whoever_owns_it(self, storage: Storage, scribe: Scribe) -> None:
        for key in (THREAD, BOBS, ThreadKey("staging", "", "t1")):
            made = await scribe.append(key, patch=ThreadPatch(name="n", tags=("x",)))
            assert await storage.line(made.row.uid) == made.row
        assert await storage.line(made.row.uid + "x") is None
        assert await storage.line("") is None

    async def test_a_line_is_as_the_thread_is_now(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        uid, elsewhere = (await scribe.append()).row.uid, await place.ready()
        await storage.claim(THREAD, "me", until=5, now=0)
        newest = await scribe.append(THREAD, epoch=1)
        assert newest.row.lease_owner == "me"
        assert await elsewhere.line(uid) == newest.row
        assert await (await place.reopen(storage)).line(uid) == newest.row

    async def test_a_deleted_thread_has_no_line_though_forks_need_it(self, storage: Storage, scribe: Scribe) -> None:
        parent, gone = (await scribe.append()).row, (await scribe.append(BOBS)).row
        child = await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        await storage.delete(BOBS)
        later = (await scribe.append(THREAD)).row
        assert [await storage.line(row.uid) for row in (parent, gone, child, later)] == [None, None, child, later]

    async def test_a_limit_of_none_at_all_gives_none(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        assert await storage.threads(ThreadQuery(limit=0)) == []

    async def test_the_directory_is_there_after_opening_again(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        for key in (THREAD, OTHER, BOBS):
            await scribe.append(key, patch=ThreadPatch(name=key.id, tags=("x",)))
        before = await storage.threads(ALL)
        assert await (await place.reopen(storage)).threads(ALL) == before


class IdentityContract(Contract):
    """Which thread is which."""

    async def test_the_same_id_of_two_users_is_two_threads(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        await scribe.append(BOBS)
        assert len(await storage.entries(THREAD)) == 2
        assert len(await storage.entries(BOBS)) == 1
        await storage.delete(THREAD)
        assert len(await storage.entries(BOBS)) == 1

    @pytest.mark.parametrize("field", ["namespace", "user", "id"])
    async def test_names_that_look_alike_are_different(self, storage: Storage, scribe: Scribe, field: str) -> None:
        keys = [ThreadKey(**({"namespace": "n", "user": "u", "id": "i"} | {field: text})) for text in LOOKALIKES]
        made = {key: await scribe.append(key) for key in keys}
        assert len(made) == len(LOOKALIKES)
        for key in keys:
            assert await storage.thread(key) == made[key].row
            assert made[key].version == 1

    async def test_parts_of_a_key_do_not_run_together(self, storage: Storage, scribe: Scribe) -> None:
        keys = [ThreadKey("a", "b", "c"), ThreadKey("ab", "", "c"), ThreadKey("", "ab", "c"), ThreadKey("a", "", "bc")]
        for key in keys:
            assert (await scribe.append(key)).version == 1
        assert len({(await scribe.append(key)).row.uid for key in keys}) == 4

    async def test_lookalikes_stay_apart_after_opening_again(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        rows = [(await scribe.append(ThreadKey("", "", text))).row for text in LOOKALIKES]
        storage = await place.reopen(storage)
        assert [await storage.thread(row.key) for row in rows] == rows
        assert await storage.threads(ThreadQuery(limit=100)) == rows[::-1]


async def paged(storage: Storage, size: int) -> list[ThreadRow]:
    """The whole directory, page by page."""
    found: list[ThreadRow] = []
    page = await storage.threads(ThreadQuery(limit=size))
    while page and len(found) < 100:
        found += page
        page = await storage.threads(ThreadQuery(limit=size, before=(page[-1].updated, page[-1].uid)))
    return found
