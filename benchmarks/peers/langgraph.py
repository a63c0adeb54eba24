"""What LangGraph's savers have in common here; imported in the environment of the peers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from benchmarks.workload import State, Turn, Variant, opening_context, turns

CHANNELS = ("messages", "context")


class Play:
    """W for one thread, as the arguments of put(): what a graph's super-step hands to its saver."""

    def __init__(self, thread: str, variant: Variant, count: int) -> None:
        self._turns: list[Turn] = turns(variant, count)
        self._state = State(opening_context(variant))
        self.config: Any = newest(thread)

    def arguments(self, turn: int) -> tuple[Any, Any, Any, Any]:
        """The arguments of the put after a turn."""
        checkpoint = _checkpoint(turn, self._state.take(self._turns[turn]))
        metadata = {"source": "loop", "step": turn, "parents": {}}
        return self.config, checkpoint, metadata, {name: checkpoint["channel_versions"][name] for name in CHANNELS}

    def put(self, put: Callable[..., Any], turn: int) -> float:
        """Put a turn and return the seconds of the call alone."""
        given = self.arguments(turn)
        start = time.perf_counter()
        config = put(*given)
        seconds = time.perf_counter() - start
        self.config = config
        return seconds


def newest(thread: str) -> Any:
    """The config that asks for the newest checkpoint of a thread."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def _checkpoint(turn: int, state: dict[str, Any]) -> Any:
    versions = dict.fromkeys(CHANNELS, f"{turn + 1:032}.{0.5:016}")
    return empty_checkpoint() | {
        "id": str(uuid6(clock_seq=turn)),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": state,
        "channel_versions": versions,
        "versions_seen": {"__input__": {}, "agent": dict(versions)},
        "updated_channels": list(CHANNELS),
    }
