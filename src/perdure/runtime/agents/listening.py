"""What somebody who watches a run of an agent is told as it happens."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Literal

import msgspec

What = Literal["text", "reply", "tool_call", "tool_result", "result"]


class AgentEvent(msgspec.Struct, frozen=True, kw_only=True):
    """Something that happened in a run of an agent.

    "text" is a piece of what the model says, "reply" its whole message; "tool_call" and "tool_result" are about one
    tool; "result" comes last, with the `AgentResult`.
    """

    kind: What
    text: str = ""
    turn: int = 0
    name: str = ""  # of the tool
    id: str = ""  # of the call
    args: Any = None
    result: Any = None

    def __str__(self) -> str:
        return self.text


Listener = Callable[[AgentEvent], None]
LISTENER: ContextVar[Listener | None] = ContextVar("perdure_listener", default=None)


def tell(event: AgentEvent) -> None:
    """Tell whoever watches."""
    listener = LISTENER.get()
    if listener is not None:
        listener(event)


def is_heard() -> bool:
    """Whether somebody watches, in this process: it is no matter of the run, which anybody may go on with."""
    return LISTENER.get() is not None
