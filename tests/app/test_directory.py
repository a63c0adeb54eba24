"""What a store knows across threads: lists, search, numbers; and what a thread says of itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import Analytics
from perdure.core.codec import decode_tagged
from perdure.core.digest import body_of
from perdure.core.errors import InvalidFilterError, InvalidIdError, InvalidInputError, NotFoundError
from perdure.testing.clock import START, ManualClock
from tests.app.conversing import MINUTE, clock, kinds, store, talk, texts, thread, told

__all__ = ["clock", "store", "thread"]


def ids(threads: list[Any]) -> list[str]:
    return [each.id for each in threads]


async def four(store: Any, clock: ManualClock) -> None:
    """Four threads, each a minute newer than the one before."""
    for id, user, fields in [
        ("a", "alice", {"agent": "writer", "name": "The Müller Case", "tags": ["urgent"]}),
        ("b", "bob", {"agent": "writer", "name": "Plans"}),
        ("c", "alice", {"agent": "reader", "tags": ["urgent", "old"]}),
        ("d", None, {}),
    ]:
        clock.advance(MINUTE)
        thread = store.thread(id, user=user, **fields)
        await thread.add_messages(told(f"hello from {id}", id="m1", node="n"))
        await thread.save({"n": 1})


# ── lists of threads ──────────────────────────────────────────────────────────────────────────────────────────────────


async def test_threads_are_listed_newest_first_in_pages(store: Any, clock: ManualClock) -> None:
    await four(store, clock)
    assert ids(await store.threads()) == ["d", "c", "b", "a"]
    assert ids(await store.threads(2)) == ["d", "c"]
    assert ids(await store.threads(2, offset=1)) == ["c", "b"]
    assert ids(await store.threads(2, offset=9)) == await store.threads(0) == []
    (listed,) = await store.threads(1, user="bob")
    assert (listed.user, listed.name, listed.agent, listed.version, listed.sizes) == ("bob", "Plans", "writer", 2, None)


async def test_threads_are_listed_by_what_they_are(store: Any, clock: ManualClock) -> None:
    await four(store, clock)
    await store.thread("b", user="bob").change(status="done", metadata={"n": 1, "project": "x"})
    assert ids(await store.threads(user="alice")) == ["c", "a"]
    assert ids(await store.threads(agent="writer")) == ["b", "a"]
    assert ids(await store.threads(tag="urgent", agent="reader")) == ["c"]
    assert ids(await store.threads(status="done")) == ["b"]
    assert ids(await store.threads(metadata={"project": "x"})) == ["b"]
    assert ids(await store.threads(metadata={"project": "x", "n": 1})) == ["b"]
    assert ids(await store.threads(metadata={"n": 1.0})) == ids(await store.threads(metadata={"n": True})) == []
    assert ids(await store.threads(search="müller")) == ids(await store.threads(search="case")) == ["a"]
    assert ids(await store.threads(search="C")) == ["c", "a"]
    assert ids(await store.threads(1, search="a", offset=1)) == ["a"]
    assert await store.threads(user="nobody") == []


async def test_what_cannot_be_asked_of_threads_is_named(store: Any) -> None:
    for bad in ({"limit": -1}, {"limit": "5"}, {"offset": -1}, {"offset": True}):
        with pytest.raises(InvalidFilterError, match=next(iter(bad))):
            await store.threads(**bad)
    for bad in ({"agent": 5}, {"status": b""}, {"tag": ["a"]}, {"search": 5}, {"metadata": [1]}):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            await store.threads(**bad)
    with pytest.raises(InvalidIdError):
        await store.threads(user=5)


# ── search and numbers across threads ─────────────────────────────────────────────────────────────────────────────────


async def test_a_search_across_threads_finds_newest_first_and_only_ones_own(store: Any, clock: ManualClock) -> None:
    await four(store, clock)
    found = await store.search("HELLO from")
    assert [(line.thread_id, line.user, line.number, line.id) for line in found] == [
        ("d", None, 1, "m1"), ("c", "alice", 1, "m1"), ("b", "bob", 1, "m1"), ("a", "alice", 1, "m1"),
    ]  # fmt: skip
    assert texts([line.message for line in await store.search("hello", user="bob")]) == ["hello from b"]
    assert len(await store.search("hello", limit=2)) == 2
    assert [line.thread_id for line in await store.search("hello", since=START + 3 * MINUTE)] == ["d", "c"]
    assert len(await store.search("hello", role="user", node="n")) == 4
    assert await store.search("hello", role="tool") == await store.search("nothing") == []
    assert len(await store.search("")) == 4


async def test_a_search_finds_what_was_written_a_moment_ago(store: Any, thread: Any) -> None:
    for n in range(3):
        await thread.append("messages", f"needle {n}")
        assert [line.message for line in await store.search("needle")] == [f"needle {at}" for at in range(n, -1, -1)]
    await thread.delete()
    assert await store.search("needle") == []


async def test_what_cannot_be_searched_for_is_named(store: Any) -> None:
    for bad in (None, 5, b"x"):
        with pytest.raises(InvalidFilterError, match="search takes a str"):
            await store.search(bad)
    with pytest.raises(InvalidFilterError, match="limit"):
        await store.search("x", limit=-1)
    with pytest.raises(TypeError, match="'before'"):
        await store.search("x", before=3)


async def test_messages_add_up(store: Any, thread: Any, clock: ManualClock) -> None:
    await talk(thread, clock)
    more = {"tokens": 70, "duration": 1.5}
    asked = {"role": "assistant", "tool_calls": [{"id": "c1"}, {"id": "c2"}], "metadata": more}
    await thread.add_messages(asked, {"role": "tool", "is_error": True, "metadata": more})
    assert await thread.analytics() == Analytics(
        conversations=1, messages=7, by_role={"assistant": 3, "tool": 2, "user": 2}, tool_calls=2, errors=1, tokens=140,
        duration=timedelta(seconds=3), first=START, last=START + 4 * MINUTE,
    )  # fmt: skip
    assert (await thread.analytics(role="tool")).by_role == {"tool": 2}
    assert (await thread.analytics(since=START + MINUTE, node="chat")).messages == 1
    with pytest.raises(InvalidFilterError, match="metadata"):
        await thread.analytics(metadata={"n": 1})


async def test_messages_of_a_store_add_up(store: Any, clock: ManualClock) -> None:
    assert (await store.analytics()).first is None
    await four(store, clock)
    everybody, alices = await store.analytics(), await store.analytics(user="alice")
    assert (everybody.conversations, everybody.messages, everybody.by_role) == (4, 4, {"user": 4})
    assert (alices.conversations, alices.messages, alices.last) == (2, 2, START + 3 * MINUTE)
    assert (await store.analytics(user="nobody")).conversations == 0


async def test_topics_are_counted_by_whoever_can_tell(store: Any, thread: Any, clock: ManualClock) -> None:
    await talk(thread, clock)

    def topics(text: str) -> list[str]:
        return [word for word in ("anna", "report") if word in text.lower()]

    found = await thread.analytics(topics=topics)
    assert (found.topics, found.messages) == ({"anna": 2, "report": 2}, 5)
    assert (await store.analytics(topics=topics, role="user")).topics == {"anna": 1, "report": 1}
    assert (await thread.analytics()).topics == {}


# ── the line of a thread ──────────────────────────────────────────────────────────────────────────────────────────────


async def test_a_thread_is_named_and_an_entry_tells_of_it(thread: Any) -> None:
    await thread.save({"n": 1})
    assert await thread.rename("A name") == 2
    assert await thread.change(tags=["a", "b"], status="done", agent="writer", metadata={"k": (1, 2)}) == 3
    info = await thread.info()
    assert (info.name, info.tags, info.status, info.agent, info.metadata) == (
        "A name", ("a", "b"), "done", "writer", {"k": (1, 2)},
    )  # fmt: skip
    assert await kinds(thread) == ["state.saved", "thread.changed", "thread.changed"]
    told = [decode_tagged(body_of("t", entry)) for entry in (await thread.entries())[1:]]
    assert told == [
        {"name": "A name"},
        {"status": "done", "agent": "writer", "tags": ("a", "b"), "metadata": {"k": (1, 2)}},
    ]
    assert (await thread.verify()).ok


async def test_what_is_not_given_stays_and_metadata_is_replaced(thread: Any) -> None:
    await thread.change(name="one", tags=["a"], metadata={"a": 1, "b": 2})
    await thread.change(metadata={"c": 3})
    info = await thread.info()
    assert (info.name, info.tags, info.metadata) == ("one", ("a",), {"c": 3})
    await thread.change(tags=[], metadata={})
    info = await thread.info()
    assert (info.tags, info.metadata) == ((), {})
    with pytest.raises(NotFoundError):
        await thread.load()


async def test_a_thread_that_is_made_by_a_change_has_what_its_handle_says(store: Any) -> None:
    thread = store.thread("new", agent="writer", name="by its handle", tags=["a"])
    await thread.change(name="another")
    info = await thread.info()
    assert (info.agent, info.name, info.tags) == ("writer", "another", ("a",))


async def test_a_fork_has_the_metadata_of_its_parent(thread: Any) -> None:
    await thread.save({"n": 1})
    await thread.change(metadata={"project": "x"}, name="one")
    fork = await thread.fork(to="fork")
    assert ((await fork.info()).metadata, (await fork.info()).name) == ({"project": "x"}, "one")


async def test_what_a_thread_cannot_be_called_is_named(thread: Any) -> None:
    for bad in ({"name": 5}, {"name": "a\0b"}, {"status": b"x"}, {"agent": ["a"]}, {"metadata": [1]}, {"tags": 5}):
        with pytest.raises(InvalidInputError, match=next(iter(bad))):
            await thread.change(**bad)
    for tags in ("abc", [""], [5]):
        with pytest.raises(InvalidInputError, match="tag"):
            await thread.change(tags=tags)
    with pytest.raises(InvalidInputError, match=r"metadata\.a"):
        await thread.change(metadata={"a": object()})
    with pytest.raises(NotFoundError):
        await thread.info()


async def test_a_store_can_be_set_up_before_it_is_used(store: Any) -> None:
    await store.setup()
    await store.setup()
    assert await store.threads() == []
