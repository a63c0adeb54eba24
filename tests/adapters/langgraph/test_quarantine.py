"""A graph does not go on with what a stranger's file says that it did; its state can be looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from perdure.adapters.langgraph import PerdureSaver
from perdure.errors import QuarantinedError
from perdure.sync import Perdure

HERE: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    command: str
    said: str


def graph_of(saver: PerdureSaver, ran: list[str]) -> Any:
    def ask(state: State) -> State:
        ran.append("ask")
        return {"said": interrupt({"question": "Run it?"})}

    def shell(state: State) -> State:
        ran.append(state["command"])
        return {}

    builder = StateGraph(State)
    builder.add_node("ask", ask)
    builder.add_node("shell", shell)
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "shell")
    builder.add_edge("shell", END)
    return builder.compile(checkpointer=saver)


@pytest.fixture
def url(tmp_path: Path) -> str:
    """A store with a thread that came from a stranger: it waits before its second node."""
    with PerdureSaver.open(f"sqlite:///{tmp_path}/theirs.db") as saver:
        graph_of(saver, []).invoke({"command": "rm -rf /"}, HERE)
    with Perdure.open(f"sqlite:///{tmp_path}/theirs.db") as store:
        store.export("t", tmp_path / "t")
    with Perdure.open(f"sqlite:///{tmp_path}/ours.db") as store:
        store.import_(tmp_path / "t", user="")
    return f"sqlite:///{tmp_path}/ours.db"


GIVEN: list[Any] = [None, Command(resume="yes"), {"command": "ls"}, Command(goto="shell")]


@pytest.mark.parametrize("given", GIVEN, ids=["none", "resume", "input", "goto"])
def test_no_node_runs(url: str, given: Any) -> None:
    ran: list[str] = []
    with PerdureSaver.open(url) as saver:
        graph = graph_of(saver, ran)
        for durability in ("sync", "async", "exit"):
            with pytest.raises(QuarantinedError, match="perdure trust"):
                graph.invoke(given, HERE, durability=durability)
        with pytest.raises(QuarantinedError):
            list(graph.stream(given, HERE))
    assert ran == []


@pytest.mark.parametrize("given", GIVEN, ids=["none", "resume", "input", "goto"])
async def test_no_node_runs_asynchronously(url: str, given: Any) -> None:
    ran: list[str] = []
    async with PerdureSaver.open(url) as saver:
        graph = graph_of(saver, ran)
        with pytest.raises(QuarantinedError):
            await graph.ainvoke(given, HERE)
        with pytest.raises(QuarantinedError):
            [each async for each in graph.astream(given, HERE)]
    assert ran == []


def test_it_is_neither_resumed_nor_held(url: str) -> None:
    ran: list[str] = []
    with PerdureSaver.open(url) as saver:
        saver.graph("shells", lambda made: graph_of(made, ran))
        assert saver.list_resumable() == []
        with pytest.raises(QuarantinedError):
            saver.resume("t")
        with pytest.raises(QuarantinedError), saver.turn("t"):
            pass
    with Perdure.open(url) as store:
        (pause,) = store.pauses()
        assert pause.quarantined
        with pytest.raises(QuarantinedError):
            store.decide(pause, approved=True, by="ann")
    assert ran == []


def test_its_state_is_read_and_written(url: str) -> None:
    with PerdureSaver.open(url) as saver:
        graph = graph_of(saver, [])
        assert graph.get_state(HERE).values == {"command": "rm -rf /"}
        assert graph.get_state(HERE, subgraphs=True).next == ("ask",)
        assert len(list(graph.get_state_history(HERE))) == 2
        graph.update_state(HERE, {"command": "ls"})
        assert graph.get_state(HERE).values == {"command": "ls"}


def test_a_copy_of_it_does_not_run_either_and_trust_lets_both(url: str) -> None:
    ran: list[str] = []
    there: Any = {"configurable": {"thread_id": "copy"}}
    with PerdureSaver.open(url) as saver, Perdure.open(url) as store:
        saver.copy_thread("t", "copy")
        with pytest.raises(QuarantinedError):
            graph_of(saver, ran).invoke(None, there)
        seen = store.trust("t", by="olga", dry_run=True)
        assert [each.args for each in seen.pauses] == [{"question": "Run it?"}]
        store.trust("t", by="olga", version=seen.version)
        store.decide(store.pauses("t")[0], approved=True, answer="yes", by="olga")
        saver.graph("shells", lambda made: graph_of(made, ran))
        assert saver.resume("t")["said"] == "yes"
        assert ran == ["ask", "rm -rf /"]
