"""What ties an agent to its checkpoints while it lives; none of it is saved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from perdure.core.checkpoint import Checkpoint

ATTRIBUTE = "_perdure_binding"


class Base(NamedTuple):
    """The point that the state of an agent builds on."""

    id: str
    version: int  # 0 where the storage has none


class Binding:
    """The base of an agent, who watches it, and what happened to it since it was last saved."""

    def __init__(self) -> None:
        self.base: Base | None = None
        self.restored = False
        self.watcher: Callable[[Any], Awaitable[None]] | None = None
        self.passed: list[Checkpoint] = []  # as it was at changes of its status, not saved yet
        self.saved: bytes | None = None  # a digest of the state that was saved last, while somebody watches
        self.lock = asyncio.Lock()  # two saves at once would both build on the same base


def binding_of(agent: Any) -> Binding:
    """The binding of an agent; made here, because a restored one never saw `__init__`."""
    held = vars(agent)
    if ATTRIBUTE not in held:
        held[ATTRIBUTE] = Binding()
    return held[ATTRIBUTE]
