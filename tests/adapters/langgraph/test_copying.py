"""A copy of a thread is whole, or is not made."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint

from perdure.adapters.langgraph import PerdureSaver
from perdure.core.errors import ThreadExistsError


def _put(saver: PerdureSaver, thread: str, ns: str = "") -> None:
    config: Any = {"configurable": {"thread_id": thread, "checkpoint_ns": ns}}
    saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})


def _count(saver: PerdureSaver, thread: str) -> int:
    return len(list(saver.list({"configurable": {"thread_id": thread}})))


@pytest.mark.parametrize("ns", ["", "child:1"], ids=["its graph", "only its subgraph"])
def test_a_copy_onto_a_thread_that_exists_is_refused_before_anything_is_copied(ns: str) -> None:
    with PerdureSaver.open("memory:") as saver:
        for place in ("", "child:1"):
            _put(saver, "from", place)
        _put(saver, "to", ns)
        with pytest.raises(ThreadExistsError, match="'to' exists already; choose another id or delete it first"):
            saver.copy_thread("from", "to")
        assert _count(saver, "to") == 1
        saver.delete_thread("to")
        saver.copy_thread("from", "to")
        assert _count(saver, "to") == 2
