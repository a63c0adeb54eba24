"""One way to call a compiled graph, synchronous or not, and an account of it that two savers can be compared by."""

from __future__ import annotations

import re
from typing import Any

from langchain_core.messages import BaseMessage
from langgraph.types import StateSnapshot

THREAD = "the thread"
CONFIG: Any = {"configurable": {"thread_id": THREAD}}


class Hand:
    """A compiled graph; with `sync`, no method ever waits, so that the same scenes drive both faces."""

    def __init__(self, graph: Any, *, sync: bool) -> None:
        self.graph, self.sync = graph, sync

    async def invoke(self, given: Any, config: Any = CONFIG, **named: Any) -> Any:
        if self.sync:
            return self.graph.invoke(given, config, **named)
        return await self.graph.ainvoke(given, config, **named)

    async def state(self, config: Any = CONFIG, **named: Any) -> StateSnapshot:
        return self.graph.get_state(config, **named) if self.sync else await self.graph.aget_state(config, **named)

    async def update(self, values: Any, config: Any = CONFIG, **named: Any) -> Any:
        if self.sync:
            return self.graph.update_state(config, values, **named)
        return await self.graph.aupdate_state(config, values, **named)

    async def bulk(self, supersteps: Any, config: Any = CONFIG) -> Any:
        if self.sync:
            return self.graph.bulk_update_state(config, supersteps)
        return await self.graph.abulk_update_state(config, supersteps)

    async def history(self, config: Any = CONFIG, **named: Any) -> list[StateSnapshot]:
        if self.sync:
            return list(self.graph.get_state_history(config, **named))
        return [each async for each in self.graph.aget_state_history(config, **named)]

    async def stream(self, given: Any, config: Any = CONFIG, **named: Any) -> list[Any]:
        if self.sync:
            return list(self.graph.stream(given, config, **named))
        return [each async for each in self.graph.astream(given, config, **named)]


class Account:
    """Plain values, with identities as the order in which they were met: two runs never have the same ones."""

    # Of checkpoints, tasks and runs; and of interrupts.
    IDENTITY = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\b[0-9a-f]{32}\b")
    OF_THE_MOMENT = frozenset({"ts", "timestamp", "created_at", "run_id", "__pregel_checkpointer"})

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def of(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.IDENTITY.sub(lambda found: self._name(found[0]), value)
        if isinstance(value, BaseMessage):
            return type(value).__name__, self.of({k: v for k, v in value.model_dump().items() if k != "id"})
        if isinstance(value, dict):
            return {self.of(key): self.of(each) for key, each in value.items() if key not in self.OF_THE_MOMENT}
        if hasattr(value, "_asdict"):
            return type(value).__name__, self.of(value._asdict())
        if isinstance(value, list | tuple):
            return type(value)(self.of(each) for each in value)
        if hasattr(value, "value") and hasattr(value, "id"):  # an interrupt
            return "Interrupt", self.of(value.value), self.of(value.id)
        return repr(value) if isinstance(value, BaseException) else value

    def of_snapshot(self, found: StateSnapshot) -> Any:
        """Everything that says where a run stands, but what a saver may add to metadata."""
        meta = found.metadata or {}
        kept = {name: meta.get(name) for name in ("source", "step", "parents")}
        return self.of(found._replace(metadata=kept))  # type: ignore[arg-type]

    def _name(self, identity: str) -> str:
        return self._names.setdefault(identity, f"<{len(self._names)}>")


async def account(hand: Hand, config: Any = CONFIG) -> list[Any]:
    """The whole history of a thread, and its latest state with its subgraphs."""
    names = Account()
    history = [names.of_snapshot(each) for each in await hand.history(config)]
    return [*history, names.of_snapshot(await hand.state(config, subgraphs=True))]
