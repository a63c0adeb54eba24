"""A process that is killed between the question of an interrupt and the write that tells of the interrupt.

python -m tests.adapters.langgraph.asking_child URL
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from perdure.adapters.langgraph import PerdureSaver
from perdure.adapters.langgraph.interrupts import INTERRUPT
from perdure.adapters.langgraph.keeper import Keeper

HERE: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    said: str


def graph_of(saver: PerdureSaver) -> Any:
    """A graph that asks one thing."""
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"said": interrupt("Deploy?")})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def _die_before_interrupts() -> None:
    write = Keeper.put_written

    async def put_written(self: Keeper, place: Any, written: Any) -> None:
        if any(each.channel == INTERRUPT for each in written.writes):
            os.kill(os.getpid(), signal.SIGKILL)
        await write(self, place, written)

    Keeper.put_written = put_written


if __name__ == "__main__":
    _die_before_interrupts()
    with PerdureSaver.open(sys.argv[1]) as dying:
        graph_of(dying).invoke({}, HERE, durability="sync")
