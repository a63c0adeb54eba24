"""Session memory in the words of Agentflow: state, messages and threads, on any storage.

from perdure.checkpointer import PgCheckpointer

checkpointer = PgCheckpointer(postgres_dsn="postgresql://…", redis_url="redis://…")
await checkpointer.aput_state({"thread_id": "t1", "user_id": "alice"}, state)
"""

from __future__ import annotations

from perdure.app.identity import Message
from perdure.checkpointer.base import BaseCheckpointer
from perdure.checkpointer.checkpointers import (
    InMemoryCheckpointer,
    MySQLCheckpointer,
    PgCheckpointer,
    SQLiteCheckpointer,
)
from perdure.checkpointer.injecting import bind, current_checkpointer
from perdure.checkpointer.state import AgentState, ExecutionState
from perdure.checkpointer.thread_info import ThreadInfo

__all__ = [
    "AgentState",
    "BaseCheckpointer",
    "ExecutionState",
    "InMemoryCheckpointer",
    "Message",
    "MySQLCheckpointer",
    "PgCheckpointer",
    "SQLiteCheckpointer",
    "ThreadInfo",
    "bind",
    "current_checkpointer",
]
