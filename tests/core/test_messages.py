"""What a line says of a message of whatever class, and which lines answer a query."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.envelope import unseal
from perdure.core.message import Message
from perdure.core.messages import (
    MessageQuery,
    MessageRow,
    Said,
    Tally,
    asks,
    message_id,
    row_of,
    said_of,
    tallied,
)
from perdure.core.registry import register


class Reply(BaseModel):
    """A message of somebody else's making."""

    id: str
    role: str
    content: list[dict[str, Any]]
    metadata: dict[str, Any] = {}


@dataclass
class Note:
    role: str
    content: str
    metadata: dict[str, Any] = field(default_factory=dict)


for each in (Reply, Note):
    register(each, tag=f"tests.core.messages.{each.__name__}")


def said(message: Any) -> Said:
    return said_of(encode(message))


@pytest.mark.parametrize(
    "message",
    [
        {"id": "m1", "role": "user", "content": "hello there", "metadata": {"node": "n", "run_id": "r"}},
        Message("user", "hello there", metadata={"node": "n", "run_id": "r"}, id="m1"),
        Reply(id="m1", role="user", content=[{"text": "hello there"}], metadata={"node": "n", "run_id": "r"}),
    ],
    ids=["mapping", "message", "model"],
)
def test_a_message_of_any_class_says_the_same(message: Any) -> None:
    found = said(message)
    assert (found.id, found.role, found.node, found.run, found.text) == ("m1", "user", "n", "r", "hello there")


def test_an_object_is_read_without_its_class() -> None:
    body = encode(Note("assistant", "done", {"node": "writer"}))
    assert (said_of(body).role, said_of(body).text, said_of(body).node) == ("assistant", "done", "writer")


def test_a_plain_text_is_what_it_says_and_anything_else_says_its_texts() -> None:
    assert (said("hi").text, said("hi").role, said("hi").id) == ("hi", "", None)
    assert said(["a", ["b"], {"text": "c"}]).text == "a\nb\nc"
    assert said(5).text == said(None).text == said({}).text == ""


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ([{"type": "text", "text": "one"}, {"type": "text", "text": "two"}], "one\ntwo"),
        ([{"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text", "text": "inner"}]}], "inner"),
        ([{"type": "tool_result", "output": "42"}], "42"),
        ([{"type": "image", "source": {"data": "iVBORw0KGgo" * 100}}], ""),
        ([{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}, "and words"], "and words"),
        ({"answer": "yes", "steps": ["a", "b"]}, "yes\na\nb"),
        (None, ""),
        (17, ""),
    ],
)
def test_the_texts_of_blocks_are_found_and_pictures_are_not(content: Any, text: str) -> None:
    assert said({"role": "user", "content": content}).text == text
    assert Message("user", content).text() == text


@pytest.mark.parametrize(
    ("id", "kept"),
    [
        ("m1", "m1"), (7, "7"), (-7, "-7"), (True, None), (1.5, None), ("", None), (None, None), ("x" * 512, "x" * 512),
        ("x" * 513, None), ("a\0b", None), ("\ud800", None), (["a"], None), ("é", "é"), (1 << 70, str(1 << 70)),
    ],
)  # fmt: skip
def test_an_id_is_a_text_that_an_index_can_keep_or_a_whole_number(id: Any, kept: str | None) -> None:
    body = encode({"id": id, "content": "x"})
    assert said_of(body).id == message_id(body) == kept


def test_a_role_that_is_none_is_empty() -> None:
    assert [said({"role": role}).role for role in (None, 5, "x" * 600, ["user"])] == ["", "5", "", ""]


@pytest.mark.parametrize(
    ("message", "calls"),
    [
        ({"tools_calls": [{"id": 1}, {"id": 2}]}, 2),
        ({"tool_calls": [{"id": 1}]}, 1),
        (Message("assistant", "", tools_calls=[{"id": "a"}]), 1),
        ({"content": [{"type": "text", "text": "x"}, {"type": "tool_use", "id": "a"}, {"type": "tool_call"}]}, 2),
        ({"tools_calls": 5}, 0),
        ({"tools_calls": {"a": 1}}, 0),
        ({"content": "tool_use"}, 0),
    ],
)
def test_tool_calls_are_counted_beside_the_content_and_in_it(message: Any, calls: int) -> None:
    assert said(message).tool_calls == calls


@pytest.mark.parametrize(
    ("message", "error"),
    [
        ({"is_error": True}, True),
        ({"status": "error"}, True),
        ({"error": "boom"}, True),
        ({"metadata": {"is_error": True}}, True),
        ({"metadata": {"error": {"code": 1}}}, True),
        (Message.tool_message("c1", "boom", is_error=True), True),
        ({"content": [{"type": "tool_result", "is_error": True}]}, True),
        ({"is_error": 1, "status": "ok", "error": None, "metadata": {"error": ""}}, False),
        ({"content": "error"}, False),
    ],
)
def test_a_message_tells_of_a_failure_itself_or_in_a_block(message: Any, error: bool) -> None:
    assert said(message).error is error


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        ({"usages": {"total_tokens": 7}}, 7),
        ({"usage": {"total_tokens": 7}}, 7),
        ({"metadata": {"usage": {"total_tokens": 7}}}, 7),
        ({"metadata": {"tokens": 7}}, 7),
        ({"usages": {"total_tokens": 1}, "metadata": {"tokens": 2}}, 1),
        ({"usages": {"total_tokens": -1}}, 0),
        ({"usages": {"total_tokens": 1 << 63}}, 0),
        ({"usages": {"total_tokens": True}}, 0),
        ({"usages": {"total_tokens": 1.5}}, 0),
        ({"usages": [7]}, 0),
    ],
)
def test_tokens_are_taken_where_a_message_tells_them_as_a_whole_number(message: Any, tokens: int) -> None:
    assert said(message).tokens == tokens


@pytest.mark.parametrize(
    ("duration", "micros"),
    [(1.5, 1_500_000), (2, 2_000_000), (0, 0), (-1, 0), (float("nan"), 0), (float("inf"), 0), (1e12, 0), (True, 0),
     ("3", 0), (Decimal("1"), 0)],
)  # fmt: skip
def test_a_duration_is_in_seconds(duration: Any, micros: int) -> None:
    assert said({"metadata": {"duration": duration}}).duration == micros


hostile = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | st.binary(max_size=5)
    | st.just(datetime(2026, 1, 1, tzinfo=UTC)) | st.just(timedelta(1)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    | st.tuples(inner, inner),
    max_leaves=8,
)  # fmt: skip
FIELDS = (
    "id",
    "role",
    "content",
    "metadata",
    "tools_calls",
    "tool_calls",
    "usage",
    "usages",
    "error",
    "status",
    "text",
)


@given(hostile | st.dictionaries(st.sampled_from(FIELDS), hostile))
def test_no_message_is_too_strange_to_be_listed(message: Any) -> None:
    row = row_of(1, 5, encode(message), b"", None)
    assert row.payload is not None
    assert all(0 <= each < 1 << 63 for each in (row.tokens, row.duration, row.tool_calls))
    assert len(row.id or "") <= 512


@given(st.binary(max_size=40))
def test_bytes_that_are_no_message_say_nothing(body: bytes) -> None:
    assert isinstance(said_of(body), Said)


def test_a_deeply_nested_content_ends_somewhere() -> None:
    content: Any = "deep"
    for _ in range(30):
        content = [content]
    assert said({"content": content}).text == ""


def test_a_line_keeps_its_payload_unless_an_entry_does() -> None:
    body = encode({"id": "a", "role": "user", "content": "Hello hello World"})
    own, held = row_of(3, 9, body, digest_of(body), None), row_of(3, 9, body, digest_of(body), 12)
    assert unseal(own.payload or b"") == body
    assert (held.payload, held.version, own.version) == (None, 12, None)
    assert (held.number, held.micros, held.words, held.digest) == (3, 9, "hello world", digest_of(body))


ROW = MessageRow(
    number=5, micros=100, id="m5", role="user", node="n", run="r", words="hello world", thread_id="t", uid="u"
)


@pytest.mark.parametrize(
    ("query", "answers"),
    [
        ({}, True),
        ({"ids": ("m4", "m5")}, True), ({"ids": ("m4",)}, False), ({"ids": ()}, False),
        ({"roles": ("user", "tool")}, True), ({"roles": ("tool",)}, False), ({"roles": ()}, False),
        ({"node": "n"}, True), ({"node": "m"}, False),
        ({"run": "r"}, True), ({"run": "s"}, False),
        ({"since": 100}, True), ({"since": 101}, False),
        ({"until": 101}, True), ({"until": 100}, False),
        ({"before": 6}, True), ({"before": 5}, False),
        ({"after": 4}, True), ({"after": 5}, False),
        ({"beyond": (100, "u", 6)}, True), ({"beyond": (100, "u", 5)}, False), ({"beyond": (101, "a", 0)}, True),
        ({"beyond": (100, "t", 9)}, False),
        ({"words": ("world", "hello")}, True), ({"words": ("hello", "wor")}, False),
        ({"roles": ("user",), "node": "m"}, False),
    ],
)  # fmt: skip
def test_a_line_answers_when_every_condition_holds(query: dict[str, Any], answers: bool) -> None:
    assert asks(ROW, MessageQuery(**query)) is answers


def test_lines_add_up_by_role_in_order() -> None:
    lines = [
        msgspec.structs.replace(ROW, role="user", micros=5, tokens=2, duration=3),
        msgspec.structs.replace(ROW, role="assistant", micros=7, tool_calls=2, error=True),
        msgspec.structs.replace(ROW, role="user", micros=1, tokens=4),
    ]
    assert tallied(lines) == [
        Tally(role="assistant", messages=1, tool_calls=2, errors=1, first=7, last=7),
        Tally(role="user", messages=2, tokens=6, duration=3, first=1, last=5),
    ]
    assert tallied([]) == []
