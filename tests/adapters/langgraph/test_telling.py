"""People are told of interrupts as of any other question: once, signed, by whoever has webhooks."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.graph import END, START, StateGraph
from langgraph.types import interrupt

from perdure import Perdure, sync
from perdure.adapters.langgraph import PerdureSaver
from perdure.cli.common_options import ThreadOptions
from perdure.cli.pauses import decide
from perdure.errors import NotFoundError
from perdure.webhooks import Webhook, verify
from tests.runtime.receiver import OK, Receiver, receiving

SECRET = "a long secret between the two"
HERE: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    said: Any


@pytest.fixture(autouse=True)
def _without_proxies(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


def _graph(saver: PerdureSaver) -> Any:
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"said": interrupt({"question": "Deploy?", "env": "prod"})})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


def _hooks(receiver: Receiver) -> list[Webhook]:
    return [Webhook(receiver.url, secret=SECRET, timeout=20.0)]


def _check(receiver: Receiver, pause: Any) -> None:
    (request,) = receiver.requests
    body = json.loads(request.body)
    assert (body["pause"], body["ask"], body["args"]["env"], body["thread"]) == (pause.id, "Deploy?", "prod", "t")
    assert verify(SECRET, request.headers, request.body, pause.at)


def _told(store: sync.Perdure) -> bool:
    return any(entry.kind.value == "pause.notified" for entry in store.thread("t").entries())


def test_an_interrupt_is_told_by_the_store_of_its_saver(tmp_path: Path) -> None:
    with receiving(OK) as receiver:
        with sync.Perdure.open(f"sqlite:///{tmp_path}/s.db", webhooks=_hooks(receiver)) as store:
            _graph(PerdureSaver(store)).invoke({}, HERE)
            while not _told(store):
                time.sleep(0.01)
            (pause,) = store.pauses()
            store.recover()
        _check(receiver, pause)


async def test_an_interrupt_is_told_beside_an_asynchronous_graph(tmp_path: Path) -> None:
    with receiving(OK) as receiver:
        async with Perdure.open(f"sqlite:///{tmp_path}/s.db", webhooks=_hooks(receiver)) as store:
            await _graph(PerdureSaver(store)).ainvoke({}, HERE)
            while not any(entry.kind.value == "pause.notified" for entry in await store.thread("t").entries()):
                await asyncio.sleep(0.01)
            (pause,) = await store.pauses()
            await store.recover()
        _check(receiver, pause)


def test_an_interrupt_that_nobody_told_of_is_told_elsewhere_and_its_graph_left_alone(tmp_path: Path) -> None:
    """Also by a store with a handler of the very name that the threads of graphs have as their agent."""
    url, ran = f"sqlite:///{tmp_path}/s.db", []
    with PerdureSaver.open(url) as saver:
        _graph(saver).invoke({}, HERE)
    with receiving(OK) as receiver, sync.Perdure.open(url, webhooks=_hooks(receiver)) as store:
        store.handler("langgraph")(lambda run: ran.append(run))
        store.recover()
        store.recover()
        (pause,) = store.pauses()
        _check(receiver, pause)
        store.decide(pause, approved=True, by="alice")
        store.recover()
        assert len(receiver.requests) == 1
    assert ran == []
    with PerdureSaver.open(url) as saver:
        saver.graph("g", _graph)
        assert saver.resume("t")["said"] is True
    with receiving(OK) as receiver, sync.Perdure.open(url, webhooks=_hooks(receiver)) as store:
        store.recover()
        assert receiver.requests == []


def test_an_interrupt_on_a_store_of_a_loop_that_is_not_there_waits_for_who_serves(tmp_path: Path) -> None:
    with receiving(OK) as receiver:
        store = Perdure.open("memory:", webhooks=_hooks(receiver))
        assert "__interrupt__" in _graph(PerdureSaver(store)).invoke({}, HERE)
        asyncio.run(store.recover())
        (pause,) = asyncio.run(store.pauses())
        _check(receiver, pause)


def test_what_to_do_about_an_interrupt_is_what_works(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"sqlite:///{tmp_path}/s.db"
    with PerdureSaver.open(url) as saver:
        _graph(saver).invoke({}, HERE)
    with sync.Perdure.open(url) as store:
        (pause,) = store.pauses()
        why = store.why("t")
    assert "no run yet" not in str(why)
    assert pause.id in str(why)
    assert why.next == [f'store.decide("{pause.id}", approved=True, by="you")']
    decide(pause.id, approve=True, by="ann", at=ThreadOptions(store=url))
    told = capsys.readouterr()
    assert "worker" not in told.out + told.err
    assert told.err == f"next: perdure resume {url} t --handlers MODULE\n"
    with sync.Perdure.open(url) as store, PerdureSaver.open(url) as saver:
        assert [(each.id, each.agent, each.status) for each in store.threads()] == [("t", "langgraph", "decided")]
        why = store.why("t")
        assert (str(why).splitlines()[0], why.next) == (
            "thread t: was answered; its graph did not go on yet",
            ["saver.resume('t')"],
        )
        with pytest.raises(NotFoundError, match=r"call saver\.resume\('t'\) in the program that has the graph"):
            store.resume("t")
        saver.graph("asking", _graph)
        saver.resume("t")
        assert "is of a graph that waits for nothing" in str(store.why("t"))
