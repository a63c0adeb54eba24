"""A conversation through Agentflow's PgCheckpointer, as a child process.

    python -m benchmarks.peers.agentflow_sessions URL REDIS VARIANT TURNS

It reads one command a line and answers with one line: the seconds of the calls alone, or a number.

    save N    turn N: aput_checkpoint() and aput_state_cache(), as its own graph calls them
    apart N   turn N: aput_state() and aput_messages()
    read      aget_state_cache()
    close     let go of everything
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Coroutine
from typing import Any

from agentflow.core.state import AgentState
from agentflow.storage.checkpointer import PgCheckpointer

from benchmarks.peers.agentflow_postgres import message_of
from benchmarks.peers.obeying import obey
from benchmarks.workload import conversation


class Conversation:
    """One message a turn, in the state's context and in the chronicle."""

    def __init__(self, url: str, redis: str, variant: Any, count: int) -> None:
        self._loop = asyncio.new_event_loop()
        self._checkpointer: Any = PgCheckpointer(
            postgres_dsn=url, redis_url=redis, pool_config={"min_size": 1, "max_size": 1}
        )
        self._timed(self._checkpointer.asetup())
        self._turns = conversation(variant, count)
        self._state = AgentState()
        self._config: dict[str, Any] = {"thread_id": "w", "user_id": "bench"}

    def save(self, at: str) -> float:
        return self._timed(self._together(self._next(at)))

    def apart(self, at: str) -> float:
        return self._timed(self._apart(self._next(at)))

    def _next(self, at: str) -> Any:
        message = message_of(self._turns[int(at)])
        self._state.context.append(message)
        return message

    async def _together(self, message: Any) -> None:
        await self._checkpointer.aput_checkpoint(self._config, self._state, [message])
        await self._checkpointer.aput_state_cache(self._config, self._state)

    async def _apart(self, message: Any) -> None:
        await self._checkpointer.aput_state(self._config, self._state)
        await self._checkpointer.aput_messages(self._config, [message])

    def read(self) -> float:
        return self._timed(self._checkpointer.aget_state_cache(self._config))

    def close(self) -> int:
        self._timed(self._checkpointer.arelease())
        return 0

    def _timed(self, work: Coroutine[Any, Any, Any]) -> float:
        async def measured() -> float:
            start = time.perf_counter()
            await work
            return time.perf_counter() - start

        return self._loop.run_until_complete(measured())


if __name__ == "__main__":
    obey(Conversation(*sys.argv[1:4], int(sys.argv[4])))
