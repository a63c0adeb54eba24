"""Lines of messages: put by whoever read the log, listed by number, found by their words and told in sums."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.entries import EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projected, Projection, Tallies, asks, row_of, tallied
from perdure.core.pruning import Pruning
from perdure.core.search import search_of, words_of
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Together
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, STATE, THREAD, Scribe

ALL = MessageQuery(limit=None)
ALICE = Owner("", "alice")
RICH = {
    "id": "m1", "role": "assistant", "content": "The Müller report is done", "tools_calls": [{"id": 1}, {"id": 2}],
    "metadata": {"node": "writer", "run_id": "r1", "duration": 1.5, "error": "late"}, "usages": {"total_tokens": 77},
}  # fmt: skip


class MessageContract(Contract):
    """Lines of one thread."""

    async def test_a_line_is_given_back_with_the_payload_of_its_entry(self, storage: Storage, scribe: Scribe) -> None:
        (line,) = await said(scribe, RICH)
        (listed,) = await storage.messages(THREAD, ALL)
        assert listed == given(line)
        assert (listed.id, listed.role, listed.node, listed.run) == ("m1", "assistant", "writer", "r1")
        assert (listed.tool_calls, listed.error, listed.tokens, listed.duration) == (2, True, 77, 1_500_000)

    async def test_a_line_without_an_entry_keeps_its_payload(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append(THREAD, STATE)
        body = encode({"role": "user", "content": "hello"})
        row = row_of(1, made.row.updated, body, digest_of(body), None)
        await put(storage, rows=[row], count=1)
        (listed,) = await storage.messages(THREAD, MessageQuery(words=("hello",)))
        assert listed == given(msgspec.structs.replace(row, thread_id="t1", user="alice", uid=made.row.uid))

    async def test_a_line_takes_the_place_of_the_one_of_its_number(self, storage: Storage, scribe: Scribe) -> None:
        lines = await said(scribe, "one", "two", "three")
        made = await scribe.append(THREAD, entries=(scribe.entry(MESSAGE, encode("zwei")),))
        again = line_at(made.row, 2, "zwei", made.version)
        await put(storage, rows=[again])
        assert await numbers(storage) == [3, 2, 1]
        (listed,) = await storage.messages(THREAD, MessageQuery(before=3, limit=1))
        assert (listed.version, listed.digest, listed.micros) == (4, again.digest, made.row.updated)
        assert (await found(storage, "two"), await found(storage, "zwei")) == ([], [2])
        assert await found(storage, "one") == [lines[0].number]

    async def test_lines_are_taken_away_with_their_words(self, storage: Storage, scribe: Scribe) -> None:
        await said(scribe, *(f"same w{number}" for number in range(1, 8)))
        await put(storage, gone=[2, 3, 5, 7, 99])
        assert await numbers(storage) == await found(storage, "same") == [6, 4, 1]
        assert await found(storage, "w5") == []

    async def test_reading_anew_takes_away_everything_first(self, storage: Storage, scribe: Scribe) -> None:
        lines = await said(scribe, "one same", "two same", "three same")
        await put(storage, rows=[lines[0]], count=1, anew=True)
        assert await numbers(storage) == await found(storage, "same") == [1]
        assert await found(storage, "three") == []
        await put(storage, rows=lines[1:], count=3)
        assert await numbers(storage) == await found(storage, "same") == [3, 2, 1]

    async def test_how_far_a_log_was_read_is_told(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.projection(THREAD) is None
        made = await scribe.append(THREAD, STATE, MESSAGE)
        assert await storage.projection(THREAD) == Projection(row=made.row)
        await put(storage, version=1, count=0)
        assert await storage.projection(THREAD) == Projection(row=made.row, version=1)
        later = await scribe.append()
        assert await storage.projection(THREAD) == Projection(row=later.row, version=1)

    async def test_lines_are_current_when_their_log_was_read_to_its_end(self, storage: Storage, scribe: Scribe) -> None:
        asked = (ALL, *(MessageQuery(words=(word,)) for word in ("one", "nowhere", "no word")), MessageQuery(limit=0))
        assert [await storage.current(THREAD, query) for query in asked] == [[]] * len(asked)
        await said(scribe, "one", "two")
        for query in asked:
            assert await storage.current(THREAD, query) == await storage.messages(THREAD, query), query
        made = await scribe.append(THREAD, MESSAGE)
        assert [await storage.current(THREAD, query) for query in asked] == [None] * len(asked)
        await put(storage, version=made.version)
        assert await storage.current(THREAD, ALL) == await storage.messages(THREAD, ALL) != []
        fork = await scribe.fork(THREAD, 1, OTHER)
        assert (await storage.current(OTHER, ALL), await storage.current(THREAD, ALL) is None) == (None, False)
        await put(storage, fork.key, version=1)
        assert await storage.current(OTHER, ALL) == []

    async def test_whoever_read_on_from_elsewhere_puts_nothing(self, storage: Storage, scribe: Scribe) -> None:
        lines = await said(scribe, "one", "two")
        seen = await seen_of(storage)
        other = msgspec.structs.replace(seen.row, uid=scribe.uid())
        for changed in ({"version": 1}, {"count": 1}, {"version": 0, "count": 0}, {"row": other}):
            stale = msgspec.structs.replace(seen, **changed)
            assert not await storage.project(Projected(seen=stale, version=9, count=9, rows=lines[:1], anew=True))
        assert await numbers(storage) == await found(storage, "two", "one", every=False) == [2, 1]
        assert await seen_of(storage) == seen

    async def test_of_many_who_read_the_same_one_puts_its_lines(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        made = await scribe.append(THREAD, MESSAGE, MESSAGE)
        seen = await seen_of(storage)
        rows = [[line_at(made.row, at, f"by{who} x{at}", at) for at in (1, 2)] for who in range(16)]
        works = [storage.project(Projected(seen=seen, version=2, count=2, rows=each)) for each in rows]
        answers = await together(works)
        assert sorted(answers) == [False] * 15 + [True]
        assert await found(storage, f"by{answers.index(True)}") == await numbers(storage) == [2, 1]

    async def test_a_thread_of_the_same_id_has_no_lines_of_the_one_before(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        lines = await said(scribe, "before one", "before two")
        seen = await seen_of(storage)
        await storage.delete(THREAD)
        assert await storage.messages(THREAD, ALL) == await storage.messages(ALICE, ALL) == []
        assert not await storage.project(Projected(seen=seen, version=2, count=2, rows=lines))
        made = await scribe.append(THREAD, MESSAGE)
        assert await storage.projection(THREAD) == Projection(row=made.row)
        assert await numbers(storage) == await found(storage, "before") == []
        assert not await storage.project(Projected(seen=seen, version=2, count=2, rows=lines))
        await said(scribe, "after")
        assert (await found(storage, "before"), await found(storage, "after")) == ([], [1])

    async def test_an_absent_thread_has_no_messages(self, storage: Storage, scribe: Scribe) -> None:
        await said(scribe, "one")
        for key in (OTHER, BOBS, ThreadKey("staging", "alice", "t1")):
            assert await storage.projection(key) is None
            assert await storage.messages(key, ALL) == []
            assert await storage.tally(key, ALL) == Tallies(threads=0, roles=[])

    async def test_a_page_goes_on_before_or_after_a_number(self, storage: Storage, scribe: Scribe) -> None:
        await said(scribe, *(f"word{number % 2} all" for number in range(1, 8)))
        assert await numbers(storage, limit=3) == [7, 6, 5]
        assert await numbers(storage, limit=3, before=5) == [4, 3, 2]
        assert await numbers(storage, limit=3, after=0) == [1, 2, 3]
        assert await numbers(storage, limit=3, after=5) == [6, 7]
        assert await numbers(storage, after=2, before=5, limit=None) == [3, 4]
        assert await numbers(storage, words=("word1", "all"), before=6, limit=2) == [5, 3]
        assert await numbers(storage, words=("word1",), after=1, limit=2) == [3, 5]
        assert (
            await numbers(storage, limit=0) == await numbers(storage, before=1) == await numbers(storage, after=7) == []
        )

    async def test_each_filter_lets_through_what_answers_it(self, storage: Storage, scribe: Scribe) -> None:
        lines = await conversation(scribe)
        for query in QUERIES:
            expected = [line.number for line in lines if asks(line, query)]
            listed = [line.number for line in await storage.messages(THREAD, query)]
            assert listed == (expected if query.after is not None else expected[::-1]), query

    async def test_a_word_is_found_as_a_whole_and_nothing_is_too_short(self, storage: Storage, scribe: Scribe) -> None:
        texts = ["a the of and not or near", "aa there", "snake_case _x __y 2 22", "Größe 漢字 x" + "y" * 60, "AND a-b"]
        await said(scribe, *texts)
        for word in [
            "a",
            "the",
            "not",
            "near",
            "aa",
            "snake_case",
            "snake",
            "_x",
            "x",
            "__y",
            "2",
            "22",
            "Größe",
            "漢",
        ]:
            await _only_whole(storage, texts, word)
        for word in ["x" + "y" * 60, "x" + "y" * 59, "and", "b", "zza", "ther"]:
            await _only_whole(storage, texts, word)
        assert await found(storage, "the", "a") == [1]
        assert await found(storage, "a", "b") == [5]

    async def test_what_is_no_word_is_found_nowhere(self, storage: Storage, scribe: Scribe) -> None:
        await said(scribe, "one two", "three")
        for word in ['"', "*", "one*", "o_e", "(", "one OR three", "-one", "one two", "\0", "\ud800", "é", "'; --", ""]:
            assert await found(storage, "one", word) == [], word
        for label in ("\0", "\ud800", "'", "%"):
            query = MessageQuery(ids=(label,), roles=(label,), node=label, run=label)
            assert await storage.messages(THREAD, query) == await storage.messages(ALICE, query) == []

    async def test_a_word_alone_is_found_among_many(self, storage: Storage, scribe: Scribe) -> None:
        await said(scribe, *(f"common n{number} {'rare' if number % 100 == 7 else ''}" for number in range(1, 301)))
        assert await found(storage, "rare") == [207, 107, 7]
        assert len(await found(storage, "common")) == 300
        query = MessageQuery(words=("common",), before=208, limit=2)
        assert [line.number for line in await storage.messages(THREAD, query)] == [207, 206]
        assert [line.number for line in await storage.messages(ALICE, MessageQuery(words=("rare",), limit=2))] == [
            207,
            107,
        ]

    async def test_a_fork_lists_messages_of_its_parents_when_they_are_gone(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        third = ThreadKey("", "alice", "t3")
        lines = await said(scribe, "one", "two", "three")
        await scribe.fork(THREAD, 2, OTHER)
        lines[2:] = await said(scribe, "four", key=OTHER, rows=lines[:2])
        await scribe.fork(OTHER, 3, third)
        lines += await said(scribe, "five", key=third, rows=lines)
        for gone in (None, THREAD, OTHER):
            assert gone is None or await storage.delete(gone)
            listed = await storage.messages(third, ALL)
            assert [(line.number, line.version, line.payload) for line in reversed(listed)] == [
                (line.number, line.version, line.payload) for line in lines
            ]
            assert {line.thread_id for line in listed} == {"t3"}

    async def test_a_message_that_was_emptied_is_empty(self, storage: Storage, scribe: Scribe) -> None:
        lines = await said(scribe, "one", "two")
        row = (await seen_of(storage)).row
        plan = Pruning(seen=row.head, records=(), blank=(1,))
        await scribe.append(THREAD, EntryKind.RANGE_PRUNED, pruning=plan)
        listed = await storage.messages(THREAD, ALL)
        assert [(line.payload, line.digest) for line in listed] == [
            (lines[1].payload, lines[1].digest),
            (b"", lines[0].digest),
        ]

    async def test_messages_add_up_by_role(self, storage: Storage, scribe: Scribe) -> None:
        lines = await conversation(scribe)
        for query in QUERIES:
            roles = tallied(line for line in lines if asks(line, query))
            expected = Tallies(threads=int(bool(roles)), roles=roles)
            assert await storage.tally(THREAD, query) == await storage.tally(ALICE, query) == expected, query
        assert await storage.tally(THREAD, MessageQuery(limit=1)) == Tallies(threads=1, roles=tallied(lines))

    async def test_sums_may_be_larger_than_a_database_counts(self, storage: Storage, scribe: Scribe) -> None:
        most = {"role": "tool", "metadata": {"tokens": (1 << 63) - 1, "duration": 999_999_999.0}}
        lines = await said(scribe, most, most, most)
        assert await storage.tally(ALICE, ALL) == Tallies(threads=1, roles=tallied(lines))


QUERIES = [
    ALL,
    MessageQuery(ids=("m2",), limit=None),
    MessageQuery(ids=("m3", "m9", "m3", "nobody", "4"), limit=None),
    MessageQuery(ids=(), limit=None),
    MessageQuery(roles=("user", "tool"), limit=None),
    MessageQuery(roles=("",), limit=None),
    MessageQuery(node="n1", limit=None),
    MessageQuery(run="r2", limit=None),
    MessageQuery(since=1_767_225_605_000_000, limit=None),
    MessageQuery(until=1_767_225_604_000_000, limit=None),
    MessageQuery(words=("shared",), limit=None),
    MessageQuery(words=("shared", "odd"), limit=None),
    MessageQuery(words=("odd",), roles=("user",), limit=None),
    MessageQuery(words=("shared",), ids=tuple(f"m{number}" for number in range(5, 30)), limit=None),
    MessageQuery(words=("odd",), node="n1", run="r0", limit=None),
    MessageQuery(words=("shared",), before=8, after=2, roles=("user", "assistant"), limit=None),
    MessageQuery(words=("absent",), limit=None),
    MessageQuery(node="n0", run="r1", since=1, until=1 << 60, limit=None),
]


async def conversation(scribe: Scribe) -> list[MessageRow]:
    """A dozen different messages, a second apart, in order."""
    lines: list[MessageRow] = []
    for number in range(1, 13):
        message = {
            "id": number if number == 4 else f"m{number}",
            "role": ("user", "assistant", "tool", "")[number % 4],
            "content": f"shared {'odd' if number % 2 else 'even'} n{number}",
            "tool_calls": [{}] * (number % 3),
            "metadata": {"node": f"n{number % 3}", "run_id": f"r{number % 5}", "tokens": number, "error": number == 7},
        }
        lines += await said(scribe, message)
    return lines


async def said(
    scribe: Scribe, *messages: Any, key: ThreadKey = THREAD, rows: Any = (), **fields: Any
) -> list[MessageRow]:
    """Append messages, each an entry of its own, and put their lines after `rows`; returns the new ones with words."""
    storage = scribe.storage
    entries = tuple(scribe.entry(MESSAGE, encode(message)) for message in messages)
    made = await scribe.append(key, entries=entries, **fields)
    seen = await seen_of(storage, key)
    first, count = made.version - len(messages) + 1, seen.count + len(rows)
    lines = [line_at(made.row, count + at + 1, message, first + at) for at, message in enumerate(messages)]
    await put(storage, key, rows=[*rows, *lines], count=count + len(lines), version=made.version)
    sealed = {entry.version: entry.payload for entry in await storage.entries(key, after=first - 1)}
    return [msgspec.structs.replace(line, payload=sealed[line.version or 0]) for line in lines]


def line_at(row: ThreadRow, number: int, message: Any, version: int) -> MessageRow:
    """The line of a message that was added last."""
    body = encode(message)
    line = row_of(number, row.updated, body, digest_of(body), version)
    return msgspec.structs.replace(line, thread_id=row.key.id, user=row.key.user, uid=row.uid)


async def put(storage: Storage, key: ThreadKey = THREAD, **fields: Any) -> None:
    """Read on from where a thread was read to."""
    seen = await seen_of(storage, key)
    usual: dict[str, Any] = {"seen": seen, "version": seen.version, "count": seen.count}
    rows = [msgspec.structs.replace(row, payload=None) if row.version else row for row in fields.pop("rows", ())]
    assert await storage.project(Projected(**(usual | fields), rows=rows))


async def seen_of(storage: Storage, key: ThreadKey = THREAD) -> Projection:
    """How far a thread was read."""
    seen = await storage.projection(key)
    assert seen is not None
    return seen


def given(line: MessageRow) -> MessageRow:
    """A line as it is given back."""
    return msgspec.structs.replace(line, words="")


async def numbers(storage: Storage, **fields: Any) -> list[int]:
    """The numbers of the messages that are listed."""
    return [line.number for line in await storage.messages(THREAD, MessageQuery(**fields))]


async def found(storage: Storage, *words: str, every: bool = True) -> list[int]:
    """The numbers of the messages that have these words, or one of them."""
    asked = [words] if every else [(word,) for word in words]
    queries = [MessageQuery(words=each, limit=None) for each in asked]
    return [line.number for query in queries for line in await storage.messages(THREAD, query)]


async def _only_whole(storage: Storage, texts: list[str], word: str) -> None:
    words = search_of(word).words
    expected = [at + 1 for at, text in enumerate(texts) if set(words) <= set(words_of(text))]
    assert await found(storage, *words) == expected[::-1], word
