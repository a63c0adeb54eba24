"""A channel that has a version and no value, as `__start__` has after the first step, costs no reading of the state."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.langgraph.keeper import Keeper


def _put(saver: PerdureSaver, config: Any, versions: dict[str, int], new: list[str], **values: Any) -> Any:
    checkpoint = empty_checkpoint() | {
        "id": str(uuid6()), "channel_values": values, "channel_versions": versions, "versions_seen": {},
    }  # fmt: skip
    metadata: Any = {"source": "loop", "step": 1, "parents": {}}
    return saver.put(config, checkpoint, metadata, {name: versions[name] for name in new})


def _values(saver: PerdureSaver, config: Any) -> Any:
    found = saver.get_tuple(config)
    return found.checkpoint["channel_values"] if found else None


@pytest.mark.parametrize("url", ["memory:", "sqlite"])
def test_a_put_reads_nothing_for_channels_that_were_empty(
    url: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    start: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    with PerdureSaver.open(url if url == "memory:" else f"sqlite:///{tmp_path}/a.db") as saver:
        config = _put(saver, start, {"__start__": 2, "a": 2, "kept": 2}, ["__start__", "a", "kept"], a=[1], kept="k")
        reads: list[str] = []
        find = Keeper._document  # pyright: ignore[reportPrivateUsage]
        monkeypatch.setattr(Keeper, "_document", lambda *given: reads.append("") or find(*given))
        config = _put(saver, config, {"__start__": 2, "a": 3, "kept": 2}, ["a"], a=[1, 2], kept="k")
        assert not reads
        config = _put(saver, config, {"__start__": 2, "a": 4, "kept": 2}, ["a"], a=[1, 2, 3])  # `kept` was not given
        assert reads
        assert _values(saver, config) == {"a": [1, 2, 3], "kept": "k"}
        config = _put(saver, config, {"__start__": 5, "a": 4, "kept": 5}, ["__start__", "kept"], __start__={"b": 1})
        assert _values(saver, config) == {"a": [1, 2, 3], "__start__": {"b": 1}}
