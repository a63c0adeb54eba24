"""Perdure: the durable layer under AI agents.

Names are imported when they are first used: a command that only prints its help does not wait for the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.app.store import Perdure
    from perdure.app.thread import Thread, ThreadInfo
    from perdure.core.checkpoint import Checkpoint
    from perdure.core.diff import Comparison, Difference
    from perdure.core.entries import Entry, EntryKind
    from perdure.core.message import Message
    from perdure.core.record import Record
    from perdure.core.registry import register

__version__ = "0.1.0"

_HOMES = {
    "Checkpoint": "perdure.core.checkpoint",
    "Comparison": "perdure.core.diff",
    "Difference": "perdure.core.diff",
    "Entry": "perdure.core.entries",
    "EntryKind": "perdure.core.entries",
    "Message": "perdure.core.message",
    "Perdure": "perdure.app.store",
    "Record": "perdure.core.record",
    "Thread": "perdure.app.thread",
    "ThreadInfo": "perdure.app.thread",
    "register": "perdure.core.registry",
}

__all__ = [
    "Checkpoint",
    "Comparison",
    "Difference",
    "Entry",
    "EntryKind",
    "Message",
    "Perdure",
    "Record",
    "Thread",
    "ThreadInfo",
    "__version__",
    "register",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
