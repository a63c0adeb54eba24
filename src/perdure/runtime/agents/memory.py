"""What the loop of an agent asks of a memory; `perdure.memory` has it."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec


class Finished(msgspec.Struct, frozen=True, kw_only=True):
    """A run of an agent that came to its answer."""

    run: str
    agent: str
    user: str  # as the thread's key has it; "" for nobody
    thread: str
    version: int  # of the entry that began the run
    prompt: Any
    text: str


class Memory(Protocol):
    """What is remembered of users across threads."""

    async def instructions(self, user: str, instructions: str, prompt: Any) -> str:
        """The instructions with what is remembered of a user; called before each question to the model."""
        ...

    async def finish(self, done: Finished) -> None:
        """Remember what a run came to. A run that was cut off after this calls it again."""
        ...
