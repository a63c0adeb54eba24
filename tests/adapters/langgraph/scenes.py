"""Graphs as people build them, and what happens to each: every scene is played on two savers and compared."""

from __future__ import annotations

import operator
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.tools import tool
from langgraph.channels.delta import DeltaChannel
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command, Send, StateUpdate, interrupt

from perdure.testing.langgraph.zoo import Point
from tests.adapters.langgraph.hands import Hand

MOMENT = 0.5  # seconds in which the nodes beside one that fails are done and saved


@dataclass(frozen=True, kw_only=True)
class Scene:
    """How a graph is built for a saver, and what is done with it; what `play` returns is compared too."""

    build: Callable[[Any], Any]
    play: Callable[[Hand], Awaitable[Any]]


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    asked: str
    point: Point


def says(text: str) -> Callable[[Log], Log]:
    def node(state: Log) -> Log:
        return {"log": [text]}

    return node


def line(*names: str) -> StateGraph[Any]:
    """Nodes one after the other, each saying its name."""
    graph = StateGraph(Log)
    for name in names:
        graph.add_node(name, says(name))
    for before, after in zip((START, *names), (*names, END), strict=True):
        graph.add_edge(before, after)
    return graph


# A ReAct agent


@tool
def look(city: str) -> str:
    """The weather of a city."""
    return f"rain in {city}"


@tool
def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


class Scripted(GenericFakeChatModel):
    """A model that says what it was told to, tools or not."""

    def bind_tools(self, tools: Any, **named: Any) -> Any:
        return self


def _call(name: str, number: int, **args: Any) -> Any:
    return {"name": name, "args": args, "id": f"c{number}", "type": "tool_call"}


def agent(saver: Any) -> Any:
    said = [
        AIMessage("", tool_calls=[_call("look", 1, city="Rome"), _call("add", 2, a=1, b=2)]),
        AIMessage("", tool_calls=[_call("look", 3, city="Oslo")]),
        AIMessage("it rains, and the sum is 3"),
        AIMessage("you are welcome"),
    ]
    tools = [look, add]
    model = Scripted(messages=iter(said)).bind_tools(tools)
    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "agent")
    graph.add_conditional_edges("agent", tools_condition)
    graph.add_edge("tools", "agent")
    return graph.compile(checkpointer=saver)


async def talk_to_the_agent(hand: Hand) -> Any:
    first = await hand.invoke({"messages": [HumanMessage("weather and sum?", id="h1")]})
    second = await hand.invoke({"messages": [HumanMessage("thank you", id="h2")]})
    return first, second


# Questions to a person


def asking(saver: Any) -> Any:
    def ask(state: Log) -> Log:
        first = interrupt({"question": "go on?"})
        return {"log": [f"first {first}"], "asked": interrupt(f"sure about {first}?")}

    graph = StateGraph(Log)
    graph.add_node("before", says("before"))
    graph.add_node("ask", ask)
    graph.add_node("after", says("after"))
    graph.add_edge(START, "before")
    graph.add_edge("before", "ask")
    graph.add_edge("ask", "after")
    return graph.compile(checkpointer=saver)


async def ask_and_resume(hand: Hand) -> Any:
    told = [await hand.invoke({"log": ["go"]}), await hand.state()]
    told += [await hand.invoke(Command(resume="yes")), await hand.state()]
    return [*told, await hand.invoke(Command(resume="quite"))]


def asking_in_parallel(saver: Any) -> Any:
    graph = StateGraph(Log)
    for name in ("a", "b", "c"):
        graph.add_node(name, says(name) if name == "c" else _asker(name))
        graph.add_edge(START, name)
    return graph.compile(checkpointer=saver)


def _asker(name: str) -> Callable[[Log], Log]:
    return lambda state: {"log": [f"{name}: {interrupt(f'{name}?')}"]}


async def resume_each_by_its_id(hand: Hand) -> Any:
    await hand.invoke({"log": []})
    waiting = (await hand.state()).interrupts
    first = await hand.invoke(Command(resume={waiting[0].id: "one"}))
    return first, await hand.invoke(Command(resume={waiting[1].id: "two"}))


async def stop_before_and_after(hand: Hand) -> Any:
    told = [await hand.invoke({"log": ["go"]}, interrupt_before=["b"]), await hand.state()]
    told += [await hand.invoke(None, interrupt_after=["b"]), await hand.state()]
    return [*told, await hand.invoke(None)]


# Graphs inside graphs


def nested(saver: Any, **options: Any) -> Any:
    inner = StateGraph(Log)
    inner.add_node("deep", says("deep"))
    inner.add_node("ask", _asker("inner"))
    inner.add_edge(START, "deep")
    inner.add_edge("deep", "ask")
    middle = StateGraph(Log)
    middle.add_node("inner", inner.compile(**options))
    middle.add_edge(START, "inner")
    outer = StateGraph(Log)
    outer.add_node("first", says("first"))
    outer.add_node("child", middle.compile())
    outer.add_edge(START, "first")
    outer.add_edge("first", "child")
    return outer.compile(checkpointer=saver)


async def resume_inside(hand: Hand) -> Any:
    told: list[Any] = [await hand.invoke({"log": ["go"]}), await hand.state(subgraphs=True)]
    child: Any = told[-1].tasks[0].state
    told += [await hand.history(child.config), await hand.state(child.tasks[0].state.config)]
    await hand.update({"log": ["edited"]}, child.tasks[0].state.config)
    return [*told, await hand.invoke(Command(resume="yes")), await hand.state(subgraphs=True)]


def remembering(saver: Any) -> Any:
    """A subgraph with a memory of its own, over all calls."""
    inner = line("deep").compile(checkpointer=True)
    outer = StateGraph(Log)
    outer.add_node("child", lambda state: {"log": [str(len(inner.invoke({"log": ["x"]})["log"]))]})
    outer.add_edge(START, "child")
    return outer.compile(checkpointer=saver)


async def three_times(hand: Hand) -> Any:
    return [await hand.invoke({"log": [str(n)]}) for n in range(3)]


# Back in time


async def travel(hand: Hand) -> Any:
    await hand.invoke({"log": ["go"]})
    history = await hand.history()
    before_b = next(each for each in history if each.next == ("b",))
    told = [await hand.invoke(None, before_b.config)]  # run again from there
    forked = await hand.update({"log": ["forked"]}, before_b.config)
    told += [await hand.state(forked), await hand.invoke(None, forked)]
    told.append(await hand.invoke({"log": ["anew"]}, history[-1].config))  # new input at the oldest
    return [*told, await hand.state(before_b.config), await hand.invoke({"log": ["on"]})]


async def copy_a_checkpoint(hand: Hand) -> Any:
    """An update without values copies the checkpoint: its source is a fork."""
    await hand.invoke({"log": ["go"]})
    before_c = next(each for each in await hand.history() if each.next == ("c",))
    copied = await hand.update(None, before_c.config, as_node="__copy__")
    return await hand.state(copied), await hand.invoke(None, copied)


async def update(hand: Hand) -> Any:
    first = await hand.update({"log": ["made up"]}, as_node="a")
    told = [await hand.state(first), await hand.invoke(None)]
    await hand.update({"log": ["corrected"]})
    await hand.update({"point": Point(1, 2.0)}, as_node="b")
    told += [await hand.state(), await hand.invoke(None), await hand.update(None, as_node=END)]
    return [*told, await hand.invoke({"log": ["again"]})]


async def update_in_bulk(hand: Hand) -> Any:
    await hand.bulk(
        [
            [StateUpdate({"log": ["go"]}, "__input__")],
            [StateUpdate({"log": ["one"]}, "a")],
            [StateUpdate({"log": ["two"]}, "b")],
        ]
    )
    return await hand.state(), await hand.invoke(None)


# Many at once


def fan_out(saver: Any) -> Any:
    def spread(state: Log) -> list[Send]:
        return [Send("work", {"log": [], "asked": f"job {n}"}) for n in range(4)]

    graph = StateGraph(Log)
    graph.add_node("plan", says("plan"))
    graph.add_node("work", lambda state: {"log": [f"did {state['asked']}"]})
    graph.add_node("gather", lambda state: {"log": [f"{len(state['log'])} lines"]})
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", spread, ["work"])
    graph.add_edge("work", "gather")
    return graph.compile(checkpointer=saver)


def diamond(saver: Any) -> Any:
    graph = StateGraph(Log)
    for name in ("a", "left", "right", "end"):
        graph.add_node(name, says(name), defer=name == "end")
    graph.add_edge(START, "a")
    for side in ("left", "right"):
        graph.add_edge("a", side)
        graph.add_edge(side, "end")
    return graph.compile(checkpointer=saver)


async def twice(hand: Hand) -> Any:
    return [await hand.invoke({"log": [str(n)]}) for n in range(2)]


def failing(saver: Any) -> Any:
    """One of three fails the first time, when the others are done: they are not run again."""
    ran: list[str] = []

    def node(name: str) -> Callable[[Log], Log]:
        def run(state: Log) -> Log:
            ran.append(name)
            if name == "b" and ran.count("b") == 1:
                time.sleep(MOMENT)
                raise ValueError("the first time")
            return {"log": [f"{name} {ran.count(name)}"]}

        return run

    graph = StateGraph(Log)
    for name in ("a", "b", "c"):
        graph.add_node(name, node(name))
        graph.add_edge(START, name)
    return graph.compile(checkpointer=saver)


async def fail_and_go_on(hand: Hand) -> Any:
    with pytest.raises(ValueError, match="the first time"):
        await hand.invoke({"log": ["go"]})
    return await hand.state(), await hand.invoke(None)


# Channels that keep changes only


def extend(state: list[str], writes: Any) -> list[str]:
    return [*state, *(each for write in writes for each in write)]


class Grown(TypedDict):
    log: Annotated[list[str], DeltaChannel(extend, list, snapshot_frequency=3)]


def growing(saver: Any) -> Any:
    graph = StateGraph(Grown)
    for name in ("a", "b", "c"):
        graph.add_node(name, lambda state, name=name: {"log": [name]})
    graph.add_edge(START, "c")
    graph.add_edge("c", "a")
    graph.add_edge("c", "b")
    return graph.compile(checkpointer=saver)


async def grow_and_fork(hand: Hand) -> Any:
    told = [await hand.invoke({"log": [str(n)]}) for n in range(5)]
    middle = (await hand.history())[6]
    return [*told, await hand.invoke({"log": ["forked"]}, middle.config), await hand.invoke({"log": ["on"]})]


# The functional way


def functional(saver: Any) -> Any:
    @task
    def double(n: int) -> int:
        return 2 * n

    @entrypoint(checkpointer=saver)
    def flow(n: int, *, previous: Any = None) -> Any:
        doubled = [double(each) for each in range(n)]
        answer = interrupt("go on?")
        total = sum(each.result() for each in doubled) + (previous or 0)
        return entrypoint.final(value=f"{answer} {total}", save=total)

    return flow


async def flow_twice(hand: Hand) -> Any:
    told: list[Any] = []
    for n in (3, 4):
        told += [await hand.invoke(n), await hand.invoke(Command(resume="yes"))]
    return told


# Streams


async def stream(hand: Hand) -> Any:
    told = [
        await hand.stream({"log": [mode]}, stream_mode=mode) for mode in ("values", "updates", "tasks", "checkpoints")
    ]
    return [*told, await hand.stream({"log": ["all"]}, stream_mode=["values", "updates", "debug"])]


def chat(saver: Any) -> Any:
    model = GenericFakeChatModel(messages=iter([AIMessage("hello to you"), AIMessage("and good bye")]))
    graph = StateGraph(MessagesState)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_edge(START, "model")
    return graph.compile(checkpointer=saver)


async def stream_messages(hand: Hand) -> Any:
    said = [{"messages": [HumanMessage(text, id=text)]} for text in ("hello", "bye")]
    return [[chunk.content for chunk, _ in await hand.stream(each, stream_mode="messages")] for each in said]


async def stream_subgraphs(hand: Hand) -> Any:
    told = await hand.stream({"log": ["go"]}, stream_mode="updates", subgraphs=True)
    return [*told, await hand.stream(Command(resume="yes"), stream_mode="updates", subgraphs=True)]


def _line(saver: Any) -> Any:
    return line("a", "b", "c").compile(checkpointer=saver)


def _by(durability: str) -> Callable[[Hand], Awaitable[Any]]:
    async def play(hand: Hand) -> Any:
        return [await hand.invoke({"log": [str(n)]}, durability=durability) for n in range(2)]

    return play


SCENES = {
    "an agent with tools": Scene(build=agent, play=talk_to_the_agent),
    "interrupt and resume": Scene(build=asking, play=ask_and_resume),
    "interrupts in parallel": Scene(build=asking_in_parallel, play=resume_each_by_its_id),
    "stops before and after": Scene(build=_line, play=stop_before_and_after),
    "subgraphs": Scene(build=nested, play=resume_inside),
    "a subgraph that remembers": Scene(build=remembering, play=three_times),
    "time travel": Scene(build=_line, play=travel),
    "a copied checkpoint": Scene(build=_line, play=copy_a_checkpoint),
    "updates": Scene(build=_line, play=update),
    "updates in bulk": Scene(build=_line, play=update_in_bulk),
    "fan-out": Scene(build=fan_out, play=twice),
    "a diamond": Scene(build=diamond, play=twice),
    "a failure": Scene(build=failing, play=fail_and_go_on),
    "delta channels": Scene(build=growing, play=grow_and_fork),
    "the functional API": Scene(build=functional, play=flow_twice),
    "streams": Scene(build=_line, play=stream),
    "a stream of messages": Scene(build=chat, play=stream_messages),
    "a stream of subgraphs": Scene(build=nested, play=stream_subgraphs),
    "durability sync": Scene(build=_line, play=_by("sync")),
    "durability async": Scene(build=_line, play=_by("async")),
    "durability exit": Scene(build=_line, play=_by("exit")),
}
