"""A saver of LangGraph's interface as a child process, ours or LangGraph's own, driven alike.

    python -m benchmarks.peers.savers perdure|langgraph URL dicts|objects VARIANT TURNS

It reads one command a line and answers with one line: the seconds of the calls alone, or a number.

    open          make the saver and its layout: the seconds of it
    save N        put() after turn N of thread w
    get           get_tuple() of the newest checkpoint of w
    list N        list() of the N newest checkpoints of w
    threads N M   8 threads of one saver (LangGraph's on a pool of 8): each puts turns N to M of a thread of its own
    tasks N M     the same by 8 tasks and aput()
    mark          make the system call that the counting of syncs looks for
    close         let go of everything
"""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from functools import cached_property
from typing import Any

from langchain_core.messages import AIMessage, HumanMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from benchmarks.peers.obeying import obey
from benchmarks.savers.sides import WRITERS, Side, side_of
from benchmarks.timing import timed
from benchmarks.workload import Turn, opening_context, turns

NODE, GATE = "agent", "branch:to:agent"  # the channel that lets the node run again


class Play:
    """W for one thread, as a graph with one node that runs again and again hands it to its saver.

    After its first step a graph names `__start__` among its versions for ever, and never again among its values.
    """

    def __init__(self, saver: Any, thread: str, given: list[Turn], make: Callable[[Turn], Any], opening: Any) -> None:
        self.saver = saver
        self._turns = given
        self._make = make
        self._messages: list[Any] = []
        self._context: dict[str, str] = opening
        self._version: Any = saver.get_next_version(None, None)
        self._started: Any = None
        self.config: Any = newest(thread)

    def arguments(self, turn: int) -> tuple[Any, Any, Any, Any]:
        """The arguments of the put after a turn. Reducers make new lists and dicts, and so does this."""
        given, before = self._turns[turn], self._version
        self._messages = [*self._messages, self._make(given)]
        self._context = {**self._context, **given.changed}
        self._version = self.saver.get_next_version(before, None)
        self._started = self._started or self._version
        values = {"messages": self._messages, "context": self._context, GATE: None}
        new = dict.fromkeys(values, self._version)
        checkpoint = empty_checkpoint() | {
            "id": str(uuid6(clock_seq=turn)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": values,
            "channel_versions": {"__start__": self._started, **new},
            "versions_seen": {"__input__": {}, "__start__": {"__start__": before}, NODE: {GATE: before}},
            "updated_channels": sorted(values),
        }
        new = new if turn else {"__start__": self._started, **new}
        return self.config, checkpoint, {"source": "loop", "step": turn, "parents": {}}, new

    def put(self, turn: int) -> float:
        """Put a turn and return the seconds of the call alone."""
        given = self.arguments(turn)
        start = time.perf_counter()
        config = self.saver.put(*given)
        seconds = time.perf_counter() - start
        self.config = config
        return seconds

    async def aput(self, turn: int) -> None:
        """Put a turn by the asynchronous method."""
        self.config = await self.saver.aput(*self.arguments(turn))


def newest(thread: str) -> Any:
    """The config that asks for the newest checkpoint of a thread."""
    return {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}


def as_dict(turn: Turn) -> Any:
    """A message as a graph has it that uses plain dicts."""
    return turn.message


def as_object(turn: Turn) -> Any:
    """The same message as an object of LangChain's."""
    given = turn.message
    lesser = {name: given[name] for name in ("created_at", "tokens", "model", "latency_s")}
    if given["role"] == "user":
        return HumanMessage(given["content"], id=given["id"], additional_kwargs=lesser)
    return AIMessage(given["content"], id=given["id"], response_metadata=lesser)


MESSAGES = {"dicts": as_dict, "objects": as_object}


class Child:
    """One saver, and W through it. put_writes() is left out on both sides."""

    def __init__(self, side: Side, kind: str, variant: Any, count: int) -> None:
        self._side = side
        self._kind = kind
        self._variant = variant
        self._turns = turns(variant, count)
        self._loop = asyncio.new_event_loop()

    def open(self) -> float:
        return timed(self._side.open)

    def save(self, at: str) -> float:
        return self._play.put(int(at))

    @cached_property
    def _play(self) -> Play:
        return self._player(self._side.saver, "w")

    def _player(self, saver: Any, thread: str) -> Play:
        return Play(saver, thread, self._turns, MESSAGES[self._kind], opening_context(self._variant))

    def get(self) -> float:
        return timed(lambda: self._side.saver.get_tuple(newest("w")))

    def list(self, count: str) -> float:
        return timed(lambda: list(self._side.saver.list(newest("w"), limit=int(count))))

    def threads(self, first: str, end: str) -> float:
        hands, plays = self._hands

        def write(play: Play) -> None:
            for turn in range(int(first), int(end)):
                play.put(turn)

        return timed(lambda: list(hands.map(write, plays)))

    @cached_property
    def _hands(self) -> tuple[ThreadPoolExecutor, list[Play]]:
        saver = self._side.for_threads()
        return ThreadPoolExecutor(WRITERS), [self._player(saver, f"thread-{at}") for at in range(WRITERS)]

    def tasks(self, first: str, end: str) -> float:
        plays = self._tasks

        async def write(play: Play) -> None:
            for turn in range(int(first), int(end)):
                await play.aput(turn)

        async def write_all() -> None:
            await asyncio.gather(*map(write, plays))

        return timed(lambda: self._loop.run_until_complete(write_all()))

    @cached_property
    def _tasks(self) -> list[Play]:
        saver = self._loop.run_until_complete(self._side.for_tasks())
        return [self._player(saver, f"task-{at}") for at in range(WRITERS)]

    def mark(self) -> int:
        return os.getsid(0)

    def close(self) -> int:
        self._loop.run_until_complete(self._side.close())
        return 0


if __name__ == "__main__":
    obey(Child(side_of(sys.argv[1], sys.argv[2]), *sys.argv[3:5], int(sys.argv[5])))
