"""The checkpoint as a value: JSON and back, copies, and fields that are read later."""

from __future__ import annotations

import copy
import json
import pickle
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure import Checkpoint, Message
from perdure.core.checkpoint import LATER, read_later
from perdure.errors import InvalidInputError, UnsupportedValueError

_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary(max_size=9)
    | st.datetimes() | st.decimals(allow_nan=False) | st.uuids(),
    lambda inner: st.lists(inner, max_size=3) | st.lists(inner, max_size=3).map(tuple)
    | st.dictionaries(st.text(max_size=4) | st.just("$tuple"), inner, max_size=3),
    max_leaves=12,
)  # fmt: skip


def made(**fields: Any) -> Checkpoint:
    eleven: dict[str, Any] = {
        "id": "chk_1", "agent_id": "a", "agent_type": "Agent", "user_id": "u", "status": "RUNNING",
        "collected_fields": {}, "required_fields": [], "context_summary": "", "parent_checkpoint_id": None,
        "timestamp": datetime(2026, 1, 1, tzinfo=UTC), "metadata": {},
    }  # fmt: skip
    return Checkpoint(**{**eleven, **fields})


@given(st.dictionaries(st.text(max_size=4), _VALUES, max_size=3), st.lists(_VALUES, max_size=3))
def test_every_checkpoint_comes_back_through_json(fields: dict[str, Any], history: list[Any]) -> None:
    """S1.12."""
    point = made(
        collected_fields=fields, metadata=fields, attributes=fields, required_fields=history,
        history=[*history, Message(role="user", content=history, metadata={"x": fields})],
    )  # fmt: skip
    again = Checkpoint.from_dict(json.loads(json.dumps(point.to_dict())))
    assert again.to_dict() == point.to_dict()
    assert (again.collected_fields, again.required_fields, again.history) == (fields, history, point.history)
    assert Checkpoint.from_dict(point.to_dict()) == again


def test_plain_values_look_as_they_are() -> None:
    data = made(collected_fields={"city": "Paris"}, history=[Message(role="user", content="hi")]).to_dict()
    assert list(data)[:11] == list(Checkpoint.__struct_fields__[:11])
    assert (data["collected_fields"], data["history"]) == ({"city": "Paris"}, [{"role": "user", "content": "hi"}])
    assert data["timestamp"] == "2026-01-01T00:00:00+00:00"


def test_a_dict_made_by_other_means_is_understood() -> None:
    fields = {"at": date(2026, 1, 1), "price": Decimal("1.5"), "$price": float("nan")}
    point = Checkpoint.from_dict(
        {"id": "c", "timestamp": "2026-01-01T12:00:00", "collected_fields": fields, "_id": "of a database"}
    )
    assert point.collected_fields is fields
    assert (point.timestamp, point.user_id, point.metadata) == (datetime(2026, 1, 1, 12), "", {})


@pytest.mark.parametrize("data", [None, [], {}, {"id": "c"}, {"id": "c", "timestamp": "soon"}, {"timestamp": "2026"}])
def test_what_is_no_checkpoint_is_refused(data: Any) -> None:
    with pytest.raises(InvalidInputError):
        Checkpoint.from_dict(data)


def test_what_cannot_be_kept_is_named() -> None:
    with pytest.raises(UnsupportedValueError, match=r"collected_fields.client: builtins.object cannot be kept"):
        made(collected_fields={"client": object()}).to_dict()


def lazy(reads: list[str]) -> tuple[Checkpoint, Checkpoint]:
    whole = made(collected_fields={"x": 1}, history=[Message(role="user", content=["hi"])])

    def read() -> dict[str, Any]:
        reads.append("read")
        return {name: getattr(whole, name) for name in LATER}

    return read_later(made(), read), whole


def test_fields_are_read_once_when_one_of_them_is_asked_for() -> None:
    reads: list[str] = []
    point, whole = lazy(reads)
    assert (point.id, point.status, repr(point)[:24]) == ("chk_1", "RUNNING", "Checkpoint(id='chk_1', a")
    assert hash(point) == hash(whole)
    assert reads == []
    assert (point.collected_fields, point.history, point == whole) == ({"x": 1}, whole.history, True)
    assert reads == ["read"]


def test_a_read_that_fails_may_be_tried_again() -> None:
    answers: list[Any] = [ConnectionError("away"), dict.fromkeys(LATER, "there")]

    def read() -> Any:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    point = read_later(made(), read)
    with pytest.raises(ConnectionError):
        _ = point.history
    assert point.history == "there"


@pytest.mark.parametrize("way", [copy.copy, copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_copies_are_whole(way: Any) -> None:
    point, whole = lazy([])
    assert way(point) == way(whole) == whole


def test_a_checkpoint_is_frozen_and_has_no_other_attributes() -> None:
    point, _ = lazy([])
    with pytest.raises(AttributeError):
        point.status = "COMPLETED"  # type: ignore[misc]
    with pytest.raises(AttributeError, match="a checkpoint has no attribute 'stat'"):
        _ = point.stat  # type: ignore[attr-defined]
    assert point != "chk_1"
