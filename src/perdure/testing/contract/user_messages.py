"""Messages across threads: by time, page by page, and never another user's."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Tallies, asks, tallied
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage
from perdure.testing.contract.messages import ALICE, ALL, given, put, said
from perdure.testing.contract.running import Contract
from perdure.testing.scribe import BOBS, OTHER, STATE, THREAD, Scribe

NOBODYS = ThreadKey("", "", "t1")
ELSEWHERE = ThreadKey("staging", "alice", "t1")
EVERYBODY = Owner("", None)


class UserMessageContract(Contract):
    """Lines of all threads of a user, or of everybody."""

    async def test_messages_of_a_user_come_newest_first(self, storage: Storage, scribe: Scribe) -> None:
        lines = await spread(scribe, THREAD, OTHER, THREAD, OTHER, THREAD)
        assert await storage.messages(ALICE, ALL) == expected(lines, ALL)
        assert await storage.messages(ALICE, MessageQuery(limit=2)) == expected(lines, ALL)[:2]
        assert await storage.messages(ALICE, MessageQuery(limit=0)) == []

    async def test_messages_of_others_are_not_shown(self, storage: Storage, scribe: Scribe) -> None:
        lines = await spread(scribe, THREAD, BOBS, NOBODYS, ELSEWHERE, OTHER)
        owners = [(ALICE, [0, 4]), (Owner("", "bob"), [1]), (Owner("", ""), [2]), (Owner("staging", "alice"), [3])]
        owners += [
            (EVERYBODY, [0, 1, 2, 4]),
            (Owner("staging", None), [3]),
            (Owner("", "carol"), []),
            (Owner("x", None), []),
        ]
        for owner, whose in owners:
            own = [lines[at] for at in whose]
            for query in (ALL, MessageQuery(), MessageQuery(words=("all",)), MessageQuery(words=("all",), limit=None)):
                assert await storage.messages(owner, query) == expected(own, query), owner
            tallies = Tallies(threads=len({line.uid for line in own}), roles=tallied(own))
            assert await storage.tally(owner, ALL) == tallies
            assert await storage.tally(owner, MessageQuery(words=("all",))) == tallies

    async def test_a_page_over_threads_goes_on_beyond_its_last_line(self, storage: Storage, scribe: Scribe) -> None:
        lines = await at_once(scribe, 3, THREAD, OTHER, ThreadKey("", "alice", "t3"))
        lines += await spread(scribe, THREAD, OTHER, THREAD)
        found = {"words": ("all",)}
        asked: list[dict[str, Any]] = [{}, found, {"words": ("all", "n2")}, {**found, "roles": ("user",)}]
        for fields in asked:
            whole = expected(lines, MessageQuery(**fields))
            for size in (1, 2, 3, 4):
                assert await paged(storage, ALICE, size, **fields) == whole, (fields, size)

    async def test_lines_of_the_same_time_come_by_thread_and_number(self, storage: Storage, scribe: Scribe) -> None:
        lines = await at_once(scribe, 30, THREAD, OTHER, BOBS)
        for query in (ALL, MessageQuery(words=("all",), limit=None)):
            assert await storage.messages(EVERYBODY, query) == expected(lines, query)
            top = msgspec.structs.replace(query, limit=7)
            assert await storage.messages(EVERYBODY, top) == expected(lines, query)[:7]

    async def test_lines_out_of_the_order_of_time_are_found_by_their_time(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        lines = await said(scribe, *(f"all n{number}" for number in range(40)))
        lines += await said(scribe, *(f"all n{number}" for number in range(40)), key=OTHER)
        moved = [
            msgspec.structs.replace(line, micros=line.micros + (line.number * 37 % 40 - 20) * 400_000) for line in lines
        ]
        for key in (THREAD, OTHER):
            await put(storage, key, rows=[line for line in moved if line.thread_id == key.id])
        for query in (MessageQuery(limit=9), MessageQuery(words=("all",), limit=9), MessageQuery(words=("n7",))):
            assert await storage.messages(ALICE, query) == expected(moved, query)
            assert await paged(storage, ALICE, 9, words=query.words) == expected(
                moved, msgspec.structs.replace(query, limit=None)
            )

    async def test_common_and_rare_words_are_found_alike(self, storage: Storage, scribe: Scribe) -> None:
        texts = [f"all {' '.join(f'in{each}' for each in (2, 7, 30, 90) if at % each == 1)}" for at in range(330)]
        lines = await said(scribe, *texts[:260]) + await said(scribe, *texts[260:], key=OTHER)
        for word in ("all", "in2", "in7", "in30", "in90", "never"):
            for words in ((word,), (word, "in2")):
                query = MessageQuery(words=words, limit=20)
                assert await storage.messages(ALICE, query) == expected(lines, query), words
                mine = [line for line in lines if line.thread_id == "t1"]
                assert await storage.messages(THREAD, query) == expected(mine, query), words
            assert await paged(storage, ALICE, 20, words=(word,)) == expected(
                lines, MessageQuery(words=(word,), limit=None)
            )

    async def test_filters_hold_over_threads(self, storage: Storage, scribe: Scribe) -> None:
        lines = await spread(scribe, *[THREAD, OTHER, BOBS] * 5)
        alices = [line for line in lines if line.user == "alice"]
        middle = lines[7].micros
        asked: list[dict[str, Any]] = [
            {"ids": ("m2", "m4", "m3")},
            {"roles": ("user",)},
            {"node": "n1"},
            {"run": "r1", "since": middle},
            {"until": middle},
            {"words": ("n2",), "roles": ("user", "tool"), "since": middle},
            {"words": ("all",), "until": middle, "limit": 2},
            {"words": ("all",), "before": 4, "after": 1},
        ]
        for fields in asked:
            given: dict[str, Any] = {"limit": None, **fields}
            query = MessageQuery(**given)
            assert await storage.messages(ALICE, query) == expected(alices, query), fields
            assert await storage.messages(EVERYBODY, query) == expected(lines, query), fields

    async def test_messages_of_a_deleted_thread_are_gone(self, storage: Storage, scribe: Scribe) -> None:
        lines = await spread(scribe, THREAD, OTHER, THREAD)
        await scribe.fork(THREAD, 1, ThreadKey("", "alice", "t3"))
        await storage.delete(THREAD)
        kept = [line for line in lines if line.thread_id == "t2"]
        for query in (ALL, MessageQuery(words=("all",))):
            assert (
                await storage.messages(ALICE, query) == await storage.messages(EVERYBODY, query) == expected(kept, ALL)
            )
            assert await storage.tally(ALICE, query) == Tallies(threads=1, roles=tallied(kept))

    async def test_threads_that_were_not_read_to_their_end_are_told(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.unprojected(ALICE) == []
        await spread(scribe, THREAD, OTHER, BOBS, NOBODYS)
        assert await storage.unprojected(EVERYBODY) == []
        behind = [(await scribe.append(key, STATE)).row for key in (THREAD, BOBS, NOBODYS)]
        assert by_uid(await storage.unprojected(EVERYBODY)) == by_uid(behind)
        assert await storage.unprojected(ALICE) == behind[:1]
        assert await storage.unprojected(Owner("", "")) == behind[2:]
        assert await storage.unprojected(Owner("staging", None)) == []
        fork = await scribe.fork(OTHER, 1, ThreadKey("", "alice", "t3"))
        assert by_uid(await storage.unprojected(ALICE)) == by_uid([behind[0], fork])
        assert len(await storage.unprojected(EVERYBODY, 2)) == 2
        await put(storage, THREAD, version=behind[0].head)
        await put(storage, fork.key, version=1)
        assert await storage.unprojected(ALICE) == []

    async def test_lines_of_a_user_are_current_when_all_logs_were_read(self, storage: Storage, scribe: Scribe) -> None:
        limits, words = (None, 2, 50), ("all", "n1", "nowhere")
        searches = [MessageQuery(words=(word,), limit=limit) for word in words for limit in limits]
        asked = [ALL, MessageQuery(), MessageQuery(limit=0), MessageQuery(words=("no word",)), *searches]
        assert [await storage.current(ALICE, query) for query in asked] == [[]] * len(asked)
        await spread(scribe, *[THREAD, OTHER, THREAD, BOBS] * 4)
        behind = [await scribe.append(key, STATE) for key in (BOBS, ELSEWHERE)]
        for query in asked:
            assert await storage.current(ALICE, query) == await storage.messages(ALICE, query), query
            assert await storage.current(EVERYBODY, query) is await storage.current(Owner("", "bob"), query) is None
        await put(storage, BOBS, version=behind[0].version)
        assert await storage.current(EVERYBODY, ALL) == await storage.messages(EVERYBODY, ALL)
        await scribe.append(OTHER, STATE)
        assert [await storage.current(ALICE, query) for query in asked] == [None] * len(asked)
        await storage.delete(OTHER)
        assert await storage.current(ALICE, ALL) == await storage.messages(ALICE, ALL) != []


async def spread(scribe: Scribe, *keys: ThreadKey) -> list[MessageRow]:
    """A message in each of these threads, a second apart."""
    lines: list[MessageRow] = []
    for key in keys:
        number = 1 + sum(line.thread_id == key.id and line.user == key.user for line in lines)
        role = ("user", "tool")[number % 2]
        message: dict[str, Any] = {"id": f"m{number}", "role": role, "content": f"all n{number % 3}"}
        message["metadata"] = {"node": f"n{number % 2}", "run_id": f"r{number % 3}", "tokens": number}
        lines += await said(scribe, message, key=key)
    return lines


async def at_once(scribe: Scribe, count: int, *keys: ThreadKey) -> list[MessageRow]:
    """So many messages in each of these threads, all of the same time."""
    now, lines = scribe.clock.now(), list[MessageRow]()
    for key in keys:
        texts = [{"role": "user", "content": f"all n{number}"} for number in range(count)]
        lines += await said(scribe, *texts, key=key, micros=now)
    return lines


def expected(lines: list[MessageRow], query: MessageQuery) -> list[MessageRow]:
    """The lines as a list over threads gives them back."""
    ordered = sorted(lines, key=lambda line: (line.micros, line.uid, line.number), reverse=True)
    return [given(line) for line in ordered if asks(line, query)][: query.limit]


async def paged(storage: Storage, owner: Owner, size: int, **fields: Any) -> list[MessageRow]:
    """Everything a list gives, page by page."""
    found: list[MessageRow] = []
    page = await storage.messages(owner, MessageQuery(limit=size, **fields))
    while page and len(found) < 1000:
        found += page
        last = (page[-1].micros, page[-1].uid, page[-1].number)
        page = await storage.messages(owner, MessageQuery(limit=size, beyond=last, **fields))
    return found


def by_uid(rows: list[ThreadRow]) -> list[ThreadRow]:
    """Lines of threads in one order."""
    return sorted(rows, key=lambda row: row.uid)
