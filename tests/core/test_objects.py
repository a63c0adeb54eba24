"""Objects that are recognised are saved exactly as if every one had been taken apart, whatever was done to them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from perdure.core.codec import decode, encode
from perdure.core.delta import delta
from perdure.core.document import Document
from perdure.core.objects import ObjectItems
from perdure.core.registry import register
from perdure.core.seen import Seen


class Said(BaseModel):
    text: str = ""
    extra: dict[str, Any] = {}
    calls: list[Any] = []
    number: float | int | bool | None = None


class Said2(Said):
    """Another class with the same fields."""


register(Said, tag="tests.Said")
register(Said2, tag="tests.Said2")

CHANGES = {
    "text": lambda item: setattr(item, "text", "other"),
    "in place": lambda item: item.extra.update(key="value"),
    "deep": lambda item: item.calls.append({"name": "tool", "args": {"n": 1}}),
    "type": lambda item: setattr(item, "number", True),
    "equal": lambda item: setattr(item, "number", 1.0),
    "given": lambda item: item.__pydantic_fields_set__.discard("text"),
    "nothing": lambda item: None,
}


def _items(count: int) -> list[Said]:
    return [Said(text=f"message {at}", number=1, calls=[{"n": at}]) for at in range(count)]


@given(
    turns=st.lists(
        st.tuples(st.sampled_from(sorted(CHANGES)), st.integers(0, 40), st.integers(0, 3)), min_size=1, max_size=8
    )
)
def test_a_save_after_any_change_is_what_was_given(turns: list[tuple[str, int, int]]) -> None:
    items = _items(20)
    document, seen, buffer = Document(), Seen(), bytearray()
    for change, at, more in turns:
        CHANGES[change](items[at % len(items)])
        items = [*items, *_items(more)]
        state = {"messages": items, "n": more}
        new, seen = seen.encoded(state, buffer)
        _, document = delta(document, new)
        del new  # it may be a view of the buffer
        assert document.encoded() == encode(state)
        assert decode(document.encoded())["messages"] == items


def test_objects_of_another_class_are_not_taken_for_the_same() -> None:
    items = _items(3)
    known = ObjectItems.of(items)
    assert known is not None
    assert known.grown_to(items)
    assert not known.grown_to([Said2(**vars(items[0])), *items[1:]])


@pytest.mark.parametrize("field", ["text", "extra", "calls", "number"])
def test_fields_come_back_with_which_of_them_were_given(field: str) -> None:
    said = Said.model_construct({field}, text="x", extra={}, calls=[], number=2)
    back = decode(encode(said))
    assert back == said
    assert back.model_fields_set == {field}
