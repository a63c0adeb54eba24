"""Histories that a model accepts: calls that a crash left open are closed, and nothing else is touched."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.core.history import INTERRUPTED, Mended, Orphan, mended, orphans
from perdure.core.message import Message

USER = {"role": "user", "content": "go on"}


def call(*ids: str, **more: Any) -> dict[str, Any]:
    """What OpenAI's API has."""
    calls = [{"id": id, "type": "function", "function": {"name": f"f_{id}", "arguments": "{}"}} for id in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls, **more}


def result(id: str, text: str = "done") -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "content": text}


def closed(id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id, "name": f"f_{id}", "content": INTERRUPTED}


def use(*ids: str) -> dict[str, Any]:
    """What Anthropic's API has."""
    blocks = [{"type": "tool_use", "id": id, "name": f"f_{id}", "input": {}} for id in ids]
    return {"role": "assistant", "content": [{"type": "text", "text": "let me see"}, *blocks]}


def used(*ids: str, said: str = "") -> dict[str, Any]:
    blocks = [{"type": "tool_result", "tool_use_id": id, "content": "done"} for id in ids]
    return {"role": "user", "content": [*blocks, *([{"type": "text", "text": said}] if said else [])]}


def unused(id: str) -> dict[str, Any]:
    block = {"type": "tool_result", "tool_use_id": id, "content": INTERRUPTED, "is_error": True}
    return {"role": "user", "content": [block]}


@pytest.mark.parametrize(
    "history",
    [
        [],
        [USER, {"role": "assistant", "content": "hi"}],
        [call("a"), result("a"), USER],
        [call("a", "b"), result("b"), result("a")],
        [use("a", "b"), used("a", "b", said="and?")],
        [Message("assistant", "", tools_calls=[{"id": "a"}]), Message.tool_message("a", "done")],
        ["a plain text", 5, None],
    ],
)
def test_a_history_without_open_calls_stays_as_it_is(history: list[Any]) -> None:
    assert orphans(history) == []
    assert mended(history) == Mended(history, [], [])


def test_a_call_without_a_result_is_closed_right_after_it() -> None:
    history = [USER, call("a"), USER]
    assert orphans(history) == [Orphan(1, "a", "f_a")]
    assert mended(history) == Mended([USER, call("a"), closed("a"), USER], [Orphan(1, "a", "f_a")], [closed("a")])


def test_of_parallel_calls_those_without_a_result_are_closed_behind_the_others() -> None:
    history = [call("a", "b", "c"), result("b"), USER]
    found = mended(history)
    assert found.messages == [call("a", "b", "c"), result("b"), closed("a"), closed("c"), USER]
    assert found.open_calls == [Orphan(0, "a", "f_a"), Orphan(0, "c", "f_c")]


def test_a_call_at_the_very_end_is_closed() -> None:
    assert mended([USER, call("a", "b")]).messages == [USER, call("a", "b"), closed("a"), closed("b")]


def test_several_calls_are_each_closed_in_their_place() -> None:
    history = [call("a"), USER, call("b"), result("b"), call("c")]
    assert mended(history).messages == [call("a"), closed("a"), USER, call("b"), result("b"), call("c"), closed("c")]


def test_a_result_that_comes_late_is_a_result() -> None:
    history = [call("a"), USER, result("a")]
    assert mended(history).messages == history


def test_a_result_before_its_call_answers_nothing() -> None:
    history = [result("a"), call("a")]
    assert orphans(history) == [Orphan(1, "a", "f_a")]
    assert mended(history).messages == [result("a"), call("a"), closed("a")]


def test_calls_that_are_blocks_are_closed_by_a_block() -> None:
    assert orphans([use("a"), USER]) == [Orphan(0, "a", "f_a")]
    assert mended([use("a"), USER]).messages == [use("a"), unused("a"), USER]
    assert mended([use("a", "b"), used("a")]).messages == [use("a", "b"), used("a"), unused("b")]


def test_a_block_comes_before_results_that_a_person_goes_on_from() -> None:
    """Where results and a text are one message, a result behind the text would be refused."""
    history = [use("a", "b"), used("a", said="thanks")]
    assert mended(history).messages == [use("a", "b"), unused("b"), used("a", said="thanks")]


def test_our_own_messages_are_closed_by_one_of_them() -> None:
    asked = Message("assistant", "", tools_calls=[{"id": "a", "name": "search"}, {"id": "b"}], id="m1")
    answered = Message.tool_message("b", "found")
    (made,) = mended([asked, answered, Message("user", "so?")]).results
    assert (made.role, made.content, made.id) == ("tool", INTERRUPTED, "repaired-a")
    assert made.metadata == {"tool_call_id": "a", "name": "search", "repaired": True, "is_error": True}
    assert mended([asked, answered]).messages == [asked, answered, made]


def test_a_result_has_metadata_only_where_its_call_has() -> None:
    assert "metadata" not in mended([call("a")]).results[0]
    assert mended([call("a", metadata={})]).results[0]["metadata"] == {"repaired": True, "is_error": True}


def test_a_name_is_found_where_either_api_has_it() -> None:
    calls = [{"id": "a", "name": "plain"}, {"id": "b", "function": {"name": "nested"}}, {"id": "c", "function": 5}]
    assert [each.name for each in orphans([{"role": "assistant", "tool_calls": calls}])] == ["plain", "nested", ""]


@pytest.mark.parametrize("calls", [5, "abc", {"id": "a"}, [5], [None], [{"id": 5}], [{}], True])
def test_what_is_no_call_is_passed_by(calls: Any) -> None:
    assert orphans([{"role": "assistant", "tool_calls": calls, "content": calls}]) == []


ids = st.sampled_from("abcd")
messages = st.one_of(
    st.just(USER),
    st.just("text"),
    st.lists(ids, min_size=1, max_size=3, unique=True).map(lambda each: call(*each)),
    st.lists(ids, min_size=1, max_size=3, unique=True).map(lambda each: use(*each)),
    st.lists(ids, min_size=1, max_size=2, unique=True).map(lambda each: used(*each)),
    ids.map(result),
    ids.map(lambda id: Message("assistant", "", tools_calls=[{"id": id}])),
    ids.map(lambda id: Message.tool_message(id, "done")),
)


@given(st.lists(messages, max_size=10))
def test_a_mended_history_has_no_open_calls_and_everything_that_was_said(history: list[Any]) -> None:
    found = mended(history)
    assert orphans(found.messages) == []
    assert mended(found.messages).messages == found.messages
    added = [each for each in found.messages if not any(each is old for old in history)]
    assert [each for each in found.messages if any(each is old for old in history)] == history
    assert len(added) == len(found.open_calls) == len(found.results)
    assert found.open_calls == orphans(history)
