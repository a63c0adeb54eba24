"""Perdure: the durable layer under AI agents.

Names are imported when they are first used: a command that only prints its help does not wait for the engine.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.app.agent import Agent, AgentResult
    from perdure.app.analytics import Analytics
    from perdure.app.asking import MessageLine
    from perdure.app.config.config import Config
    from perdure.app.identity import Message
    from perdure.app.scope import ApproverScope, UserScope
    from perdure.app.store import Perdure
    from perdure.app.thread import Thread, ThreadInfo
    from perdure.checkpoints.newest import Latest
    from perdure.checkpoints.repairing import Repaired
    from perdure.core.approvals import Approvals
    from perdure.core.checkpoint import Checkpoint
    from perdure.core.compare_rows import Row
    from perdure.core.comparison import Comparison, Comparisons, Divergence, Side
    from perdure.core.diff import MISSING, Difference
    from perdure.core.entries import Entry, EntryKind
    from perdure.core.history import Orphan
    from perdure.core.identity import ANY_USER, FROM_FILE
    from perdure.core.ports import Silence, Telemetry
    from perdure.core.record import Record
    from perdure.core.recovery_policy import RecoveryPolicy
    from perdure.core.registry import register
    from perdure.core.retention_policy import Retention, Rule
    from perdure.core.triggers import Triggers
    from perdure.core.verification import Damage, Report
    from perdure.core.webhooks import Webhook
    from perdure.flowagent.agent import StandardAgent
    from perdure.flowagent.comparing import CheckpointDiff
    from perdure.flowagent.manager import CheckpointManager
    from perdure.flowagent.orchestrator import Orchestrator
    from perdure.flowagent.router import ModelRouter
    from perdure.flowagent.storage import CheckpointStorage
    from perdure.flowagent.storages import (
        FileCheckpointStorage,
        InMemoryCheckpointStorage,
        MySQLCheckpointStorage,
        PostgresCheckpointStorage,
        SQLiteCheckpointStorage,
    )
    from perdure.flowagent.tree import CheckpointTree
    from perdure.memory.manager import MemoryManager
    from perdure.runtime.agents.defaults import AgentDefaults
    from perdure.runtime.agents.listening import AgentEvent
    from perdure.runtime.agents.model import Model, Reply, ToolCall, ToolSchema, Usage
    from perdure.runtime.agents.openai import OpenAICompatible
    from perdure.runtime.agents.scripted import ScriptedModel
    from perdure.runtime.agents.tool import Tool, tool
    from perdure.runtime.allowances import Allowance
    from perdure.runtime.calling import Unverified
    from perdure.runtime.decisions import Decision, Pause
    from perdure.runtime.durable import durable
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.options import Retry
    from perdure.runtime.run import Run
    from perdure.runtime.why import Why
    from perdure.runtime.worker import Worker
    from perdure.workflows.executor import WorkflowExecutor

__version__ = "0.1.0"

_HOMES = {
    "ANY_USER": "perdure.core.identity",
    "Agent": "perdure.app.agent",
    "AgentDefaults": "perdure.runtime.agents.defaults",
    "AgentEvent": "perdure.runtime.agents.listening",
    "AgentResult": "perdure.app.agent",
    "Model": "perdure.runtime.agents.model",
    "OpenAICompatible": "perdure.runtime.agents.openai",
    "Reply": "perdure.runtime.agents.model",
    "ScriptedModel": "perdure.runtime.agents.scripted",
    "Tool": "perdure.runtime.agents.tool",
    "ToolCall": "perdure.runtime.agents.model",
    "ToolSchema": "perdure.runtime.agents.model",
    "Usage": "perdure.runtime.agents.model",
    "tool": "perdure.runtime.agents.tool",
    "Analytics": "perdure.app.analytics",
    "Approvals": "perdure.core.approvals",
    "ApproverScope": "perdure.app.scope",
    "UserScope": "perdure.app.scope",
    "Checkpoint": "perdure.core.checkpoint",
    "CheckpointDiff": "perdure.flowagent.comparing",
    "CheckpointManager": "perdure.flowagent.manager",
    "CheckpointStorage": "perdure.flowagent.storage",
    "CheckpointTree": "perdure.flowagent.tree",
    "ModelRouter": "perdure.flowagent.router",
    "MemoryManager": "perdure.memory.manager",
    "Comparison": "perdure.core.comparison",
    "Comparisons": "perdure.core.comparison",
    "Config": "perdure.app.config.config",
    "Damage": "perdure.core.verification",
    "Difference": "perdure.core.diff",
    "Divergence": "perdure.core.comparison",
    "Entry": "perdure.core.entries",
    "EntryKind": "perdure.core.entries",
    "FROM_FILE": "perdure.core.identity",
    "FileCheckpointStorage": "perdure.flowagent.storages",
    "InMemoryCheckpointStorage": "perdure.flowagent.storages",
    "Latest": "perdure.checkpoints.newest",
    "MISSING": "perdure.core.diff",
    "Message": "perdure.app.identity",
    "MessageLine": "perdure.app.asking",
    "MySQLCheckpointStorage": "perdure.flowagent.storages",
    "Orphan": "perdure.core.history",
    "Orchestrator": "perdure.flowagent.orchestrator",
    "Perdure": "perdure.app.store",
    "PostgresCheckpointStorage": "perdure.flowagent.storages",
    "Record": "perdure.core.record",
    "RecoveryPolicy": "perdure.core.recovery_policy",
    "Repaired": "perdure.checkpoints.repairing",
    "Report": "perdure.core.verification",
    "Row": "perdure.core.compare_rows",
    "SQLiteCheckpointStorage": "perdure.flowagent.storages",
    "Side": "perdure.core.comparison",
    "Silence": "perdure.core.ports",
    "Telemetry": "perdure.core.ports",
    "StandardAgent": "perdure.flowagent.agent",
    "Retention": "perdure.core.retention_policy",
    "Rule": "perdure.core.retention_policy",
    "Thread": "perdure.app.thread",
    "ThreadInfo": "perdure.app.thread",
    "Triggers": "perdure.core.triggers",
    "Allowance": "perdure.runtime.allowances",
    "Decision": "perdure.runtime.decisions",
    "Pause": "perdure.runtime.decisions",
    "Run": "perdure.runtime.run",
    "RunInfo": "perdure.runtime.infos",
    "Retry": "perdure.runtime.options",
    "Unverified": "perdure.runtime.calling",
    "Webhook": "perdure.core.webhooks",
    "Why": "perdure.runtime.why",
    "Worker": "perdure.runtime.worker",
    "WorkflowExecutor": "perdure.workflows.executor",
    "durable": "perdure.runtime.durable",
    "register": "perdure.core.registry",
}

__all__ = [
    "ANY_USER",
    "FROM_FILE",
    "MISSING",
    "Agent",
    "AgentDefaults",
    "AgentEvent",
    "AgentResult",
    "Allowance",
    "Analytics",
    "Approvals",
    "ApproverScope",
    "Checkpoint",
    "CheckpointDiff",
    "CheckpointManager",
    "CheckpointStorage",
    "CheckpointTree",
    "Comparison",
    "Comparisons",
    "Config",
    "Damage",
    "Decision",
    "Difference",
    "Divergence",
    "Entry",
    "EntryKind",
    "FileCheckpointStorage",
    "InMemoryCheckpointStorage",
    "Latest",
    "MemoryManager",
    "Message",
    "MessageLine",
    "Model",
    "ModelRouter",
    "MySQLCheckpointStorage",
    "OpenAICompatible",
    "Orchestrator",
    "Orphan",
    "Pause",
    "Perdure",
    "PostgresCheckpointStorage",
    "Record",
    "RecoveryPolicy",
    "Repaired",
    "Reply",
    "Report",
    "Retention",
    "Retry",
    "Row",
    "Rule",
    "Run",
    "RunInfo",
    "SQLiteCheckpointStorage",
    "ScriptedModel",
    "Side",
    "Silence",
    "StandardAgent",
    "Telemetry",
    "Thread",
    "ThreadInfo",
    "Tool",
    "ToolCall",
    "ToolSchema",
    "Triggers",
    "Unverified",
    "Usage",
    "UserScope",
    "Webhook",
    "Why",
    "Worker",
    "WorkflowExecutor",
    "__version__",
    "durable",
    "register",
    "tool",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    value = getattr(import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
