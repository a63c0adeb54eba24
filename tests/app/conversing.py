"""Stores and a conversation, for tests about messages."""

from __future__ import annotations

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Message
from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES, opened

FACES = [("memory", "async"), ("memory", "sync"), ("file", "async"), ("sqlite", "async"), ("sqlite", "sync")]
MINUTE = timedelta(minutes=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=FACES, ids="-".join)
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    place, mode = request.param
    async with opened(PLACES[place](tmp_path), mode, clock=clock) as made:
        yield made


@pytest.fixture
def thread(store: Any) -> Any:
    return store.thread("t", user="alice")


def told(text: str, role: str = "user", id: str | None = None, **metadata: Any) -> Message:
    """A message with metadata."""
    return Message(role, text, metadata=metadata, id=id)


async def talk(thread: Any, clock: ManualClock) -> None:
    """Five messages a minute apart, the third and fourth of them items of the state's list."""
    await thread.add_messages(told("Hello Anna", id="m1", node="chat"))
    clock.advance(MINUTE)
    await thread.add_messages(told("Hello, how can I help?", "assistant", "m2", node="chat", run_id="r1", n=1))
    clock.advance(MINUTE)
    await thread.append("messages", {"role": "user", "content": "Find Müller's report", "id": "s3"})
    clock.advance(MINUTE)
    await thread.append(
        "messages", {"role": "tool", "content": "nothing found", "metadata": {"run_id": "r1", "n": 1.0}}
    )
    clock.advance(MINUTE)
    await thread.add_messages(told("There is no report, Anna", "assistant", "m5", run_id="r2", n=True))


def texts(messages: list[Any]) -> list[str]:
    return [each.content if isinstance(each, Message) else each["content"] for each in messages]


def numbers(lines: list[Any]) -> list[int]:
    return [line.number for line in lines]


async def kinds(thread: Any) -> list[str]:
    """The kinds of its entries."""
    return [entry.kind.value for entry in await thread.entries()]
