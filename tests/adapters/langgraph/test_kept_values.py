"""What graphs put into their states that no class of ours is known for, and the classes that a graph makes known."""

import operator
import subprocess
import sys
from collections import Counter, OrderedDict, defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, NamedTuple, TypedDict

import numpy
import pandas
import pytest
from langchain_core.messages import AIMessage
from langgraph.func import entrypoint, task
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel, Field

from perdure.adapters.langgraph import PerdureSaver, PerdureStore
from perdure.adapters.langgraph.schemas import answers_of
from perdure.core.registry import REGISTRY
from perdure.errors import UnsupportedValueError

HERE: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    kept: Any


class Color(StrEnum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Decision(BaseModel):
    approved: bool


@dataclass
class Verdict:
    approved: bool


def graph_of(saver: PerdureSaver, node: Any, schema: Any = State) -> Any:
    return StateGraph(schema).add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)


NINE = datetime(2026, 11, 1, 9, tzinfo=UTC)
PLAIN = [
    (AIMessage("hello").text, "hello"),
    (Color.RED, "red"),
    (Point(1, 2), (1, 2)),
    (defaultdict(list, a=[1]), {"a": [1]}),
    (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    (Counter("aab"), {"a": 2, "b": 1}),
    (numpy.float64(0.5), 0.5),
    (numpy.float32(0.5), 0.5),
    (numpy.int64(7), 7),
    (numpy.bool_(True), True),
    (numpy.str_("a"), "a"),
    (pandas.Timestamp("2026-11-01T09:00Z"), NINE),
    (pandas.Timedelta(hours=1), pandas.Timedelta(hours=1).to_pytimedelta()),
]


@pytest.mark.parametrize(("value", "plain"), PLAIN, ids=lambda value: type(value).__name__)
def test_an_object_of_a_subclass_is_kept_as_its_plain_value(value: Any, plain: Any) -> None:
    with PerdureSaver.open("memory://") as saver:
        graph = graph_of(saver, lambda state: {"kept": [value]})
        assert graph.invoke({}, HERE)["kept"] == [value]
        (kept,) = graph.get_state(HERE).values["kept"]
    assert (type(kept), kept) == (type(plain), plain)


REFUSED = [
    pandas.Timestamp("2026-11-01T09:00:00.000000001Z"),
    pandas.NaT,
    numpy.datetime64("2026-11-01T09:00"),
    numpy.longdouble("0.1"),
    numpy.zeros(2),
]


@pytest.mark.parametrize("value", REFUSED, ids=lambda value: type(value).__name__)
def test_what_a_plain_value_would_not_say_is_refused_with_its_place(value: Any) -> None:
    with PerdureSaver.open("memory://") as saver, pytest.raises(UnsupportedValueError, match=r"kept\[0\]"):
        graph_of(saver, lambda state: {"kept": [value]}).invoke({}, HERE)


def test_the_long_term_store_keeps_plain_values_too() -> None:
    with PerdureStore.open("memory://") as store:
        store.put(("notes",), "a", {"text": AIMessage("hello").text, Color.RED: Counter("aa")})
        item = store.get(("notes",), "a")
        assert item is not None
        assert (type(item.value["text"]), item.value) == (str, {"text": "hello", "red": {"a": 2}})


def test_the_thread_id_of_a_config_is_nothing_but_a_text() -> None:
    """A node may put it into the state, and code compares it by its type."""
    with PerdureSaver.open("memory://") as saver:
        graph = graph_of(saver, lambda state, config: {"kept": config["configurable"]["thread_id"]})
        graph.invoke({}, HERE)
        found = graph.get_state(HERE)
        kinds = {type(each) for each in (*found.config["configurable"].values(), found.values["kept"])}
        assert kinds == {str}


@pytest.mark.parametrize("schema", [Decision, Verdict], ids=["pydantic", "dataclass"])
def test_the_class_of_an_answer_is_known_where_an_interrupt_names_it(schema: Any) -> None:
    def asking(state: State) -> State:
        return {"kept": interrupt("deploy?", response_schema=schema)}

    with PerdureSaver.open("memory://") as saver:
        graph = graph_of(saver, asking)
        graph.invoke({}, HERE)
        graph.invoke(Command(resume={"approved": True}), HERE)
        assert graph.get_state(HERE).values == {"kept": schema(approved=True)}


def test_the_class_of_an_answer_is_known_in_a_task_and_in_a_function_that_a_node_calls() -> None:
    class Asked(BaseModel):
        yes: bool

    def ask() -> Any:
        return interrupt("yes?", response_schema=Asked)

    @task
    def asking() -> Any:
        return ask()

    with PerdureSaver.open("memory://") as saver:

        @entrypoint(checkpointer=saver)
        def flow(given: str) -> Any:
            return asking().result()

        flow.invoke("go", HERE)
        assert flow.invoke(Command(resume={"yes": True}), HERE) == Asked(yes=True)


def test_classes_that_only_stand_in_code_are_not_known() -> None:
    class Secret(BaseModel):
        text: str

    def node(state: State) -> State:
        return {"kept": Secret(text="a")}

    assert answers_of([node]) == []
    with PerdureSaver.open("memory://") as saver:
        with pytest.raises(UnsupportedValueError, match=r"Secret cannot be kept"):
            graph_of(saver, node).invoke({}, HERE)
        assert REGISTRY.of(Secret) is None


def test_classes_inside_of_a_function_are_known_when_they_stand_in_a_schema() -> None:
    class Inner(BaseModel):
        n: int

    class Input(BaseModel):
        inner: Inner

    class Local(Input):
        said: Annotated[list[str], operator.add] = Field(default_factory=list)

    def node(state: Local) -> Any:
        return {"said": [str(interrupt("go on?"))]}

    with PerdureSaver.open("memory://") as saver:
        builder = StateGraph(Local, input_schema=Input)
        graph = builder.add_node("node", node).add_edge(START, "node").compile(checkpointer=saver)
        graph.invoke(Input(inner=Inner(n=1)), HERE)
        assert graph.get_state(HERE).values["inner"] == Inner(n=1)
        assert graph.invoke(Command(resume="yes"), HERE)["said"] == ["yes"]


PROGRAM = """
import sys
from typing import Any, TypedDict
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt
from pydantic import BaseModel
from perdure.adapters.langgraph import PerdureSaver

class Decision(BaseModel):
    approved: bool

class State(TypedDict, total=False):
    answer: Any

def ask(state):
    return {"answer": interrupt("deploy?", response_schema=Decision)}

here = {"configurable": {"thread_id": "t"}}
with PerdureSaver.open(sys.argv[1]) as saver:
    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").compile(checkpointer=saver)
    if sys.argv[2] == "ask":
        graph.invoke({}, here)
        graph.invoke(Command(resume={"approved": True}), here)
    else:
        print(repr(graph.get_state(here).values["answer"]))
"""


def test_another_process_with_the_same_graph_reads_the_answer_of_its_class(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    url = f"sqlite:///{tmp_path}/graph.db"
    runs = [_run(tmp_path, url, each) for each in ("ask", "read")]
    assert [each.stderr for each in runs] == ["", ""]
    assert runs[1].stdout == "Decision(approved=True)\n"


def _run(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "program.py", *words]
    return subprocess.run(given, cwd=folder, capture_output=True, text=True, timeout=120, check=False)


def test_a_fork_has_nothing_of_a_branch_that_it_leaves(tmp_path: Path) -> None:
    """The same version of a channel is another value on another branch, and one that has none there has none here."""
    with PerdureSaver.open("memory://") as saver:
        root = _put(saver, HERE, "a", {"x": 1}, {"x": "one"})
        _put(saver, root, "b", {"x": 1, "y": 2}, {"x": "one", "y": "of the first branch"})
        fork = _put(saver, root, "c", {"x": 1, "y": 2}, {"x": "one"}, source="update")
        beside = _put(saver, HERE, "d", {"x": 1, "y": 2}, {}, source="input")
        read = [saver.get_tuple(each) for each in (fork, beside)]
    assert [each.checkpoint["channel_values"] for each in read if each] == [{"x": "one"}, {}]


def _put(saver: PerdureSaver, parent: Any, name: str, versions: Any, values: Any, source: Any = "loop") -> Any:
    checkpoint: Any = {
        "v": 4, "id": f"1f1e464b-fd47-61f1-bfff-63ccffca{name * 4}", "ts": "2026-11-01T09:00:00+00:00",
        "channel_values": values, "channel_versions": versions, "versions_seen": {}, "updated_channels": None,
    }  # fmt: skip
    given = {"configurable": {"checkpoint_ns": "", **parent["configurable"]}}
    return saver.put(given, checkpoint, {"source": source, "step": 0, "parents": {}}, {})


def test_a_run_that_asks_for_an_old_checkpoint_branches_and_one_that_read_the_newest_does_not() -> None:
    with PerdureSaver.open("memory://") as saver:
        builder = (
            StateGraph(State).add_node("a", lambda state: {"kept": "a"}).add_node("b", lambda state: {"kept": "b"})
        )
        graph = builder.add_edge(START, "a").add_edge("a", "b").add_edge("b", END).compile(checkpointer=saver)
        graph.invoke({}, HERE)
        old = list(graph.get_state_history(HERE))[1].config
        assert graph.invoke({"kept": "again"}, old, durability="exit")["kept"] == "b"
        assert len(list(graph.get_state_history(HERE))) > 4


def test_a_node_that_makes_an_attribute_for_every_name_is_looked_at_to_an_end() -> None:
    from unittest.mock import Mock

    add_one = Mock(side_effect=lambda _: 1)
    builder = StateGraph(Annotated[int, operator.add])
    builder.add_node("add_one", add_one)
    builder.add_edge(START, "add_one")
    with PerdureSaver.open("memory://") as saver:
        graph = builder.compile(checkpointer=saver)
        assert graph.invoke(1, {"configurable": {"thread_id": "t"}}) == 2
