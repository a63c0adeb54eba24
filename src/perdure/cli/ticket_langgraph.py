"""The same agent as a graph of LangGraph with its SqliteSaver: a node that does one step and goes on with the next.

python ticket_langgraph.py              work on the ticket, or go on where the last checkpoint is
python ticket_langgraph.py turns 300    that many turns of a conversation instead, to see how the file grows
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import argparse
import operator
from pathlib import Path
from typing import Annotated, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from ticket_world import STEPS, World, message

FOLDER = Path(__file__).parent
CONFIG = {"configurable": {"thread_id": "ticket-4711"}, "recursion_limit": 100}


class Ticket(TypedDict):
    done: Annotated[list[str], operator.add]
    results: Annotated[dict[str, str], operator.or_]


class Conversation(TypedDict):
    messages: Annotated[list[dict[str, str]], operator.add]


def work(saver: SqliteSaver, world: World, durability: str) -> None:
    mine: list[str] = []

    def step(state: Ticket) -> Ticket:
        if mine:
            world.report(mine[-1], "")  # the graph has taken it in and goes on: this is where a step ends
        name = STEPS[len(state["done"])]
        mine.append(name)
        return {"done": [name], "results": {name: world.act(name)}}

    graph = StateGraph(Ticket)
    graph.add_node("step", step)
    graph.add_edge(START, "step")
    graph.add_conditional_edges("step", lambda state: END if len(state["done"]) == len(STEPS) else "step")
    app = graph.compile(checkpointer=saver)
    begun = app.get_state(CONFIG).values
    state = app.invoke(None if begun else {"done": [], "results": {}}, CONFIG, durability=durability)
    world.report(mine[-1], "")
    print(f"{len(state['done'])} of {len(STEPS)} steps are in the last checkpoint", flush=True)


def turns(saver: SqliteSaver, count: int) -> None:
    """One run of `count` turns: one checkpoint for each, which is the least the saver writes."""
    graph = StateGraph(Conversation)
    graph.add_node("answer", lambda state: {"messages": [message(len(state["messages"]))]})
    graph.add_edge(START, "answer")
    graph.add_conditional_edges("answer", lambda state: END if len(state["messages"]) == count else "answer")
    app = graph.compile(checkpointer=saver)
    app.invoke({"messages": []}, {**CONFIG, "recursion_limit": count + 10})


def main(asked: argparse.Namespace) -> None:
    world = World(FOLDER / asked.effects, pace=asked.pace, die_after=asked.die_after)
    with SqliteSaver.from_conn_string(str(FOLDER / asked.database)) as saver:
        if asked.turns:
            turns(saver, asked.count)
        else:
            work(saver, world, asked.durability)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("turns", nargs="?", choices=["turns"])
    parser.add_argument("count", nargs="?", type=int, default=300)
    parser.add_argument("--pace", type=float, default=0.3)
    parser.add_argument("--die-after", type=int, default=0)
    parser.add_argument("--durability", default="async", choices=["sync", "async", "exit"])
    parser.add_argument("--database", default="ticket_langgraph.db")
    parser.add_argument("--effects", default="effects_langgraph.log")
    return parser.parse_args()


if __name__ == "__main__":
    main(arguments())
