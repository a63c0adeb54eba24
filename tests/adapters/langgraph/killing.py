"""A graph that is killed in each of its nodes, in each durability, and goes on in another process.

`python -m tests.adapters.langgraph.killing SAVER FACE ADDRESS …` prints a line of JSON per kill: what was run again.
"""

from __future__ import annotations

import asyncio
import json
import operator
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph

from tests.adapters.langgraph.savers import SAVERS

DURABILITIES = ("sync", "async", "exit")
TOGETHER = ("left", "middle", "right")
NODES = ("one", "two", *TOGETHER, "three", "four")
PACE = 0.02  # seconds that a node works: saving meanwhile has that long
MOMENT = 1.0  # seconds in which the nodes beside the one that dies are done and saved


class State(TypedDict):
    log: Annotated[list[str], operator.add]


def graph_of(ran: Path, dies_in: str | None) -> StateGraph[Any]:
    graph = StateGraph(State)
    for name in NODES:
        graph.add_node(name, _node(name, ran, dies_in))
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    for name in TOGETHER:
        graph.add_edge("two", name)
    graph.add_edge([*TOGETHER], "three")
    graph.add_edge("three", "four")
    graph.add_edge("four", END)
    return graph


def _node(name: str, ran: Path, dies_in: str | None) -> Callable[[State], State]:
    def run(state: State) -> State:
        with ran.open("a") as lines:
            lines.write(f"{name}\n")
        time.sleep(MOMENT if name == dies_in and name in TOGETHER else PACE)
        if name == dies_in:
            os.kill(os.getpid(), signal.SIGKILL)
        return {"log": [name]}

    return run


def _go_on(saver: Any, graph: StateGraph[Any], config: Any, durability: Any) -> list[str]:
    """Take the run up where it is, or begin it."""
    compiled = graph.compile(checkpointer=saver)
    begun = compiled.get_state(config).tasks  # not `next`: a node whose writes are saved is not in it any more
    return compiled.invoke(None if begun else {"log": ["go"]}, config, durability=durability)["log"]


async def _go_on_later(saver: Any, graph: StateGraph[Any], config: Any, durability: Any) -> list[str]:
    compiled = graph.compile(checkpointer=saver)
    begun = (await compiled.aget_state(config)).tasks
    return (await compiled.ainvoke(None if begun else {"log": ["go"]}, config, durability=durability))["log"]


class Campaign:
    """All kills on one database."""

    def __init__(self, name: str, face: str, address: tuple[str, ...], folder: Path) -> None:
        self._kind, self._face, self._address, self._folder = SAVERS[name], face, address, folder

    def kills(self) -> Iterator[dict[str, Any]]:
        for durability in DURABILITIES:
            for node in NODES:
                yield {"durability": durability, "killed in": node, **self._kill(durability, node)}

    def _kill(self, durability: str, node: str) -> dict[str, Any]:
        ran, end = self._folder / f"{durability}-{node}", self._folder / "end"
        end.unlink(missing_ok=True)
        killed = self._elsewhere(lambda: self._attempt(durability, ran, node, end))
        if killed != -signal.SIGKILL:
            raise RuntimeError(f"it was not killed in {node}: {killed}")
        if self._elsewhere(lambda: self._attempt(durability, ran, None, end)) != 0:
            raise RuntimeError(f"it did not go on after {node}")
        counts = Counter(ran.read_text().split())
        return {"again": [each for each in NODES if counts[each] > 1], "end": json.loads(end.read_text())}

    def _attempt(self, durability: str, ran: Path, dies_in: str | None, end: Path) -> None:
        graph, config = graph_of(ran, dies_in), {"configurable": {"thread_id": ran.name}}
        if self._face == "sync":
            with self._kind.sync(*self._address) as saver:
                end.write_text(json.dumps(_go_on(saver, graph, config, durability)))
        else:
            end.write_text(json.dumps(asyncio.run(self._attempt_later(graph, config, durability))))

    async def _attempt_later(self, graph: StateGraph[Any], config: Any, durability: str) -> list[str]:
        async with self._kind.at(*self._address).open() as saver:
            return await _go_on_later(saver, graph, config, durability)

    @staticmethod
    def _elsewhere(work: Callable[[], None]) -> int:
        """Do it in a process of its own: this one has opened nothing and has no threads, so it may be split."""
        child = os.fork()
        if child == 0:
            try:
                work()
            except BaseException as failure:
                print(repr(failure), file=sys.stderr, flush=True)
                os._exit(1)
            os._exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def main(name: str, face: str, *address: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for kill in Campaign(name, face, address, Path(folder)).kills():
            print(json.dumps(kill), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
