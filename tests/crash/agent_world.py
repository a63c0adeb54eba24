"""An agent with tools and an approval, whose model and tools are counted outside the storage, and a process to kill."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from perdure import Perdure, ScriptedModel, tool
from perdure.app.store import parts_of
from perdure.runtime.agents.listening import LISTENER

TTL = 0.5
SCRIPT = [
    [("look", {"city": "Rome"}), ("note", {"text": "a"}), ("note", {"text": "b"})],
    ("refund", {"amount": 5}),
    ("broken", {"n": "no number"}),
    [("send", {"to": "ann"})],
    "It is done.",
]
ONCE = ("note a", "note b", "refund 5", "send ann")  # effects that must not be had twice
When = Literal["before", "after"]


@dataclass(frozen=True)
class Death:
    """Where a process kills itself: before or after the n-th write of the run."""

    when: When
    nth: int


class World:
    """Plain files: a line for each thing that happened, on the disk before it is answered."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def act(self, what: str, file: str = "effects") -> None:
        with (self._folder / file).open("a") as out:
            out.write(f"{what}\n")
            out.flush()
            os.fsync(out.fileno())

    def happened(self, file: str = "effects") -> Counter[str]:
        path = self._folder / file
        return Counter(path.read_text().splitlines() if path.exists() else ())


class Counted(ScriptedModel):
    """Writes down each time that it is asked."""

    def __init__(self, world: World) -> None:
        super().__init__(SCRIPT)
        self._world = world

    async def reply(self, messages: Any, **given: Any) -> Any:
        self._world.act(f"turn {sum(each['role'] == 'assistant' for each in messages) + 1}", "model")
        return await super().reply(messages, **given)


def made(store: Any, world: World) -> Any:
    """The agent, as every process has it."""

    @tool(repeatable=True)
    async def look(city: str) -> str:
        world.act(f"look {city}")
        return "fine"

    @tool
    async def note(text: str) -> str:
        world.act(f"note {text}")
        return f"noted {text}"

    @tool(require_approval=True, approval_prompt="Refund {amount}?")
    async def refund(amount: int) -> str:
        world.act(f"refund {amount}")
        return f"refunded {amount}"

    @tool
    async def broken(n: int) -> None: ...

    @tool
    def send(to: str) -> str:
        world.act(f"send {to}")
        return f"sent {to}"

    tools = [look, note, refund, broken, send]
    return store.agent("agent", model=Counted(world), tools=tools, retry=1_000_000)


RESULTS = {"note a": "noted a", "note b": "noted b", "refund 5": "refunded 5", "send ann": "sent ann"}


async def live(url: str, world: World, death: Death | None, *, stream: bool = False) -> None:
    """One life of a process: it goes on with the run as far as that goes."""
    LISTENER.set((lambda event: None) if stream else None)
    async with Perdure.open(url, lease_ttl=TTL) as store:
        made(store, world)
        if death is not None:
            _plan(parts_of(store).storage, world, death)
        await store.recover()
        while any(info.status == "interrupted" for info in await store.runs()):
            await asyncio.sleep(TTL / 10)
            await store.recover()
        for info in await store.runs(status="decided"):  # it waits to be triggered by hand
            await store.resume(info.thread)


def _plan(storage: Any, world: World, death: Death) -> None:
    append = storage.append

    async def dying(write: Any) -> Any:
        world.act("write", "writes")
        dies = world.happened("writes").total() == death.nth
        if dies:
            world.act(" ".join(entry.kind.value for entry in write.entries), "death")
        if dies and death.when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        done = await append(write)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        return done

    storage.append = dying
