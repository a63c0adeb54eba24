"""Interrupts are questions of the store, and tell nothing that a serializer of the user's was given to hide."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from typing import TypedDict

import pytest
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from perdure.adapters.langgraph import PerdureSaver
from perdure.sync import Perdure
from tests.adapters.langgraph import asking_child

SECRET, ANSWER = "the code is 4711", "say nothing of 4712"
HERE = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    said: str


class Backwards(CipherProtocol):
    def encrypt(self, plaintext: bytes) -> tuple[str, bytes]:
        return "backwards", plaintext[::-1]

    def decrypt(self, ciphername: str, ciphertext: bytes) -> bytes:
        return ciphertext[::-1]


def _graph(saver: PerdureSaver):
    builder = StateGraph(State)
    builder.add_node("ask", lambda state: {"said": interrupt({"question": SECRET})})
    builder.add_edge(START, "ask")
    builder.add_edge("ask", END)
    return builder.compile(checkpointer=saver)


@pytest.mark.parametrize("hidden", [False, True], ids=["plain", "encrypted"])
def test_a_question_says_what_is_asked_unless_that_is_hidden(tmp_path: Path, hidden: bool) -> None:
    url, serde = f"sqlite:///{tmp_path}/agents.db", EncryptedSerializer(Backwards()) if hidden else None
    with PerdureSaver.open(url, serde=serde) as saver:
        _graph(saver).invoke({}, HERE)
        with Perdure.open(url) as store:
            (pause,) = store.pauses()
        assert (pause.ask == SECRET) is not hidden
        assert _graph(saver).invoke(Command(resume=ANSWER), HERE)["said"] == ANSWER
    with Perdure.open(url) as store:
        assert store.pauses() == []
    stored = b"".join(each.read_bytes() for each in tmp_path.iterdir())
    assert (SECRET.encode() in stored, ANSWER.encode() in stored) == (not hidden, not hidden)


def test_a_graph_that_is_killed_between_its_question_and_its_interrupt_asks_once(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agents.db"
    command = (sys.executable, "-m", "tests.adapters.langgraph.asking_child", url)
    assert subprocess.run(command, cwd=Path(__file__).parents[3]).returncode == -signal.SIGKILL
    with Perdure.open(url) as store, PerdureSaver.open(url) as saver:
        (before,) = store.pauses()
        assert not asking_child.graph_of(saver).get_state(HERE).interrupts  # it was killed before that
        asking_child.graph_of(saver).invoke(None, HERE)
        assert [pause.id for pause in store.pauses()] == [before.id]
        store.decide(before, approved=True, answer="yes", by="alice")
        saver.graph("asks", asking_child.graph_of)
        assert saver.resume("t")["said"] == "yes"
        assert store.pauses() == []
