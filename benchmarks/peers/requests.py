"""Requests as a child process: a state is loaded, changed and saved. `… requests SIDE URL COUNT SHAPE KIND`.

SIDE is perdure or langgraph, COUNT the messages of a state, SHAPE growing (one comes) or windowed (one comes, the
oldest goes), KIND dicts or messages (LangChain's). One command a line, one line of answer: the seconds that count.

    open            make the saver or store, once; it stays open
    seed NUMBER     make the thread of this number with COUNT messages
    turn NUMBER     load its newest state by a fresh handle, change it, save it
    request NUMBER  the same from open to close
    close           let go of everything
"""

from __future__ import annotations

import random
import sqlite3
import sys
import time
from datetime import UTC, datetime
from functools import cached_property
from typing import Any, Protocol

from benchmarks.peers.obeying import obey
from benchmarks.workload import SEED, text

MESSAGE_BYTES = 1000  # of text: encoded, a message takes about 1.2 KB
_SEEDED_IN = 8  # saves: a log has more than one entry


def made(kind: str, at: int, rng: random.Random) -> Any:
    """A message."""
    told, number = text(rng, "words", MESSAGE_BYTES), f"msg_{rng.getrandbits(64):016x}"
    about = {"model": "model-large", "created_at": 1_767_000_000 + 30 * at, "tokens": rng.randrange(100, 900)}
    if kind == "dicts":
        return {"role": ("user", "assistant")[at % 2], "content": told, "id": number, "metadata": about}
    from langchain_core.messages import AIMessage, HumanMessage

    return (HumanMessage, AIMessage)[at % 2](content=told, id=number, response_metadata=about)


class Side(Protocol):
    """What loads and saves."""

    def close(self) -> None: ...

    def load(self, thread: str) -> tuple[Any, list[Any]]:
        """The newest messages, and what `save` wants to have back."""
        ...

    def save(self, thread: str, token: Any, messages: list[Any]) -> None: ...


class Ours:
    """A store, and a fresh handle for each request."""

    def __init__(self, url: str, kind: str) -> None:
        from perdure.sync import Perdure

        if kind == "messages":
            from langchain_core.messages import AIMessage, HumanMessage

            import perdure

            perdure.register(HumanMessage)
            perdure.register(AIMessage)
        self._store = Perdure.open(url)

    def close(self) -> None:
        self._store.close()

    def load(self, thread: str) -> tuple[Any, list[Any]]:
        handle = self._store.thread(thread)
        state = handle.load(default=None) or {"messages": []}
        return (handle, state), state["messages"]

    def save(self, thread: str, token: Any, messages: list[Any]) -> None:
        handle, state = token
        state["messages"] = messages
        handle.save(state)


class Theirs:
    """LangGraph's saver: get_tuple() and put() as a graph's super-step calls them, without put_writes()."""

    def __init__(self, url: str, kind: str) -> None:
        self._at = 0
        if url.startswith("sqlite"):
            from langgraph.checkpoint.sqlite import SqliteSaver

            # What its from_conn_string does; setup() sets WAL, synchronous stays FULL.
            self._connection: Any = sqlite3.connect(url.removeprefix("sqlite:///"), check_same_thread=False)
            self._saver: Any = SqliteSaver(self._connection)
        else:
            from langgraph.checkpoint.postgres import PostgresSaver
            from psycopg import Connection
            from psycopg.rows import dict_row

            self._connection = Connection.connect(url, autocommit=True, prepare_threshold=0, row_factory=dict_row)
            self._saver = PostgresSaver(self._connection)
        self._saver.setup()

    def close(self) -> None:
        self._connection.close()

    def load(self, thread: str) -> tuple[Any, list[Any]]:
        found = self._saver.get_tuple({"configurable": {"thread_id": thread, "checkpoint_ns": ""}})
        return found, found.checkpoint["channel_values"]["messages"] if found else []

    def save(self, thread: str, token: Any, messages: list[Any]) -> None:
        from langgraph.checkpoint.base import empty_checkpoint
        from langgraph.checkpoint.base.id import uuid6

        self._at += 1
        step = token.metadata["step"] + 1 if token else 0
        config = token.config if token else {"configurable": {"thread_id": thread, "checkpoint_ns": ""}}
        versions = {"messages": f"{step + 1:032}.{0.5:016}"}
        checkpoint = empty_checkpoint() | {
            "id": str(uuid6(clock_seq=self._at % 1000)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": {"messages": messages},
            "channel_versions": versions,
            "versions_seen": {"__input__": {}, "agent": dict(versions)},
            "updated_channels": ["messages"],
        }
        self._saver.put(config, checkpoint, {"source": "loop", "step": step, "parents": {}}, versions)


class Requests:
    """The commands."""

    def __init__(self, side: str, url: str, count: str, shape: str, kind: str) -> None:
        self._side, self._url, self._count, self._kind = side, url, int(count), kind
        self._windowed = shape == "windowed"
        self._made = 0
        if side == "langgraph":  # importing is part of no figure
            import langgraph.checkpoint.base.id  # noqa: F401

    @cached_property
    def _rng(self) -> random.Random:
        return random.Random(f"{SEED} requests")

    def _message(self) -> Any:
        self._made += 1
        return made(self._kind, self._made, self._rng)

    def _opened(self) -> Side:
        return Ours(self._url, self._kind) if self._side == "perdure" else Theirs(self._url, self._kind)

    def open(self) -> int:
        self._open = self._opened()
        return 0

    def seed(self, number: str) -> int:
        for _ in range(_SEEDED_IN):
            token, messages = self._open.load(number)
            more = min(-(-self._count // _SEEDED_IN), self._count - len(messages))
            self._open.save(number, token, [*messages, *(self._message() for _ in range(more))])
        return 0

    def turn(self, number: str) -> float:
        return self._turn(self._open, number)

    def _turn(self, side: Side, number: str) -> float:
        message = self._message()
        start = time.perf_counter()
        token, messages = side.load(number)
        messages.append(message)
        if self._windowed:
            del messages[0]
        side.save(number, token, messages)
        return time.perf_counter() - start

    def request(self, number: str) -> float:
        start = time.perf_counter()
        side = self._opened()
        opened = time.perf_counter() - start
        seconds = self._turn(side, number)
        start = time.perf_counter()
        side.close()
        return opened + seconds + time.perf_counter() - start

    def close(self) -> int:
        self._open.close()
        return 0


if __name__ == "__main__":
    obey(Requests(*sys.argv[1:]))
