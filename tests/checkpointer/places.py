"""Checkpointers on every kind of storage, called as asynchronous and as synchronous code calls them."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure.checkpointer import (
    BaseCheckpointer,
    InMemoryCheckpointer,
    Message,
    MySQLCheckpointer,
    PgCheckpointer,
    SQLiteCheckpointer,
)

# Answers of Redis may take long here: a slow machine is not what is tested.
PATIENT = "socket_timeout=5&socket_connect_timeout=5"
FACES = ("memory", "memory, sync", "sqlite", "sqlite, sync", "hot", "mariadb, sync")
ALICE = {"thread_id": "t", "user_id": "alice"}
BOB = {"thread_id": "t", "user_id": "bob"}
_NUMBERS = itertools.count()

Address = Callable[[str], str]  # of a server, by the name of its fixture


def made(kind: str, folder: Path, address: Address, **options: Any) -> BaseCheckpointer:
    """A checkpointer on an empty place; on servers a namespace of its own is one."""
    options = {"namespace": f"{os.getpid()} {next(_NUMBERS)}", **options}
    if kind == "memory":
        return InMemoryCheckpointer(**options)
    if kind == "sqlite":
        return SQLiteCheckpointer(folder / "sessions.db", **options)
    if kind == "mariadb":
        return MySQLCheckpointer(address("mariadb"), **options)
    return PgCheckpointer(address("postgres"), address("redis") if kind == "hot" else None, **options)


class Face:
    """A checkpointer with its calls named once: `await face.put_state(…)` is `aput_state`, or its twin."""

    def __init__(self, checkpointer: BaseCheckpointer, *, sync: bool) -> None:
        self.checkpointer = checkpointer
        self.sync = sync

    def __getattr__(self, name: str) -> Any:
        if not self.sync:
            return getattr(self.checkpointer, f"a{name}")
        method = getattr(self.checkpointer, name)

        async def call(*args: Any, **options: Any) -> Any:
            return method(*args, **options)

        return call


class Making:
    """Makes faces of one kind, and closes them all."""

    def __init__(self, face: str, folder: Path, address: Address) -> None:
        self._kind, _, mode = face.partition(", ")
        self._sync = mode == "sync"
        self._folder, self._address = folder, address
        self._made: list[Face] = []

    @property
    def kind(self) -> str:
        return self._kind

    def __call__(self, **options: Any) -> Face:
        face = Face(made(self._kind, self._folder, self._address, **options), sync=self._sync)
        self._made.append(face)
        return face

    async def close(self) -> None:
        for face in self._made:
            await face.release()


def said(*texts: str, role: str = "user") -> list[Message]:
    """Messages whose ids are their texts."""
    return [Message.text_message(text, role, id=text) for text in texts]


def texts(messages: list[Message]) -> list[str]:
    return [message.text() for message in messages]
