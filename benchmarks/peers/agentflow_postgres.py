"""Agentflow's PgCheckpointer as a child process.

    python -m benchmarks.peers.agentflow_postgres URL REDIS VARIANT TURNS

It reads one command a line and answers with one line: the seconds of the call alone, or a number.

    save N    aput_state() after turn N; what it puts into Redis besides is left out, in its favour
    close     let go of everything
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

from agentflow.core.state import AgentState, Message
from agentflow.core.state.message_block import TextBlock
from agentflow.storage.checkpointer import PgCheckpointer
from pydantic import Field

from benchmarks.peers.obeying import obey
from benchmarks.workload import Turn, opening_context, turns


class Working(AgentState):
    """The state of W: messages in `context`, as Agentflow has them, and the dict that changes."""

    facts: dict[str, str] = Field(default_factory=dict)


class Checkpointer:
    """W through aput_state()."""

    def __init__(self, url: str, redis: str, variant: Any, count: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._checkpointer: Any = PgCheckpointer(
            postgres_dsn=url, redis_url=redis, pool_config={"min_size": 1, "max_size": 1}
        )
        self._checkpointer.bind_state_type(Working)
        self._timed(self._checkpointer.asetup())
        self._turns = turns(variant, count)
        self._state = Working(facts=opening_context(variant))
        self._config: dict[str, Any] = {"thread_id": "w", "user_id": "bench"}

    def save(self, at: str) -> float:
        turn = self._turns[int(at)]
        self._state.context.append(message_of(turn))
        self._state.facts.update(turn.changed)
        return self._timed(self._checkpointer.aput_state(self._config, self._state))

    def close(self) -> int:
        self._timed(self._checkpointer.arelease())
        return 0

    def _timed(self, work: Coroutine[Any, Any, Any]) -> float:
        async def measured() -> float:
            start = time.perf_counter()
            await work
            return time.perf_counter() - start

        return self._loop.run_until_complete(measured())


def message_of(turn: Turn) -> Message:
    """A turn's message as Agentflow has it."""
    given = turn.message
    lesser = {name: given[name] for name in ("tokens", "model", "latency_s")}
    return Message(
        message_id=given["id"],
        role=given["role"],
        content=[TextBlock(text=given["content"])],
        timestamp=float(given["created_at"]),
        metadata=lesser,
    )


if __name__ == "__main__":
    obey(Checkpointer(*sys.argv[1:4], int(sys.argv[4])))
