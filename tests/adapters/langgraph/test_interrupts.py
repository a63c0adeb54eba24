"""Interrupts are questions of the store, and tell nothing that a serializer of the user's was given to hide."""

from __future__ import annotations

from pathlib import Path
from typing import TypedDict

import pytest
from langgraph.checkpoint.serde.base import CipherProtocol
from langgraph.checkpoint.serde.encrypted import EncryptedSerializer
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from perdure.adapters.langgraph import PerdureSaver
from perdure.sync import Perdure

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
