"""Threads of graphs from a shell: listed, shown, their interrupts answered, the graph resumed by what a hint says."""

from __future__ import annotations

import json
import shlex
from importlib import import_module
from pathlib import Path

import pytest

from perdure.adapters.langgraph import PerdureSaver
from tests.cli.golden_store import Told, call, placed

GRAPHS = """\
from typing import Any, TypedDict
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt


class State(TypedDict, total=False):
    said: Any
    again: Any


def build(saver):
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"said": interrupt({"question": "Deploy?", "env": "prod"})})
    builder.add_node("sure", lambda state: {"again": interrupt("Sure?")})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", "sure")
    builder.add_edge("sure", END)
    return builder.compile(checkpointer=saver)


def register(saver):
    saver.graph("deploys", build)
"""


def hints(told: Told) -> list[str]:
    return [line.removeprefix("next: perdure ") for line in told.err.splitlines() if line.startswith("next: ")]


def test_an_interrupt_is_answered_and_its_graph_resumed_from_a_shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("PERDURE_WORKER__HANDLERS", "shell_graphs.py")
    (tmp_path / "shell_graphs.py").write_text(GRAPHS)
    with PerdureSaver.open(url) as saver:
        import_module("shell_graphs").build(saver).invoke({}, {"configurable": {"thread_id": "t"}})
    with placed(tmp_path, url):
        assert call("threads").out.splitlines()[1].split()[:4] == ["t", "-", "input_required", "langgraph"]
        shown = call("show", "t")
        assert "  Deploy?\n" in shown.out
        assert '    env: "prod"\n' in shown.out
        assert hints(shown) == hints(call("pauses")) == hints(call("why", "t"))
        (decide,) = hints(shown)
        assert decide.startswith("decide pau_")
        pause = decide.split()[-1]
        assert call("resume", "t").code == 5  # it waits for an answer
        answered = call("answer", pause, '{"ok": true}', "--by", "ann")
        assert (answered.code, hints(answered)) == (0, ["resume t"])
        assert hints(call("why", "t")) == ["resume t"]
        resumed = call(*shlex.split(hints(answered)[0]))  # as it is pasted
        assert (resumed.code, resumed.out) == (6, "paused             graph of thread t\n")
        call("answer", hints(resumed)[0].split()[-1], '"yes"', "--by", "ann")
        ended = call("resume", "t", "-o", "json")
        assert ended.code == 0
        assert json.loads(ended.out)["values"] == {"said": {"ok": True}, "again": "yes"}
        assert json.loads(call("state", "t", "--path", "said").out) == {"ok": True}
        assert "checkpoint" in call("history", "t").out
