"""Entries: the items of a thread's log, and the closed set of their kinds."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from enum import StrEnum

import msgspec

from perdure.core.times import to_datetime


class EntryKind(StrEnum):
    """What happened, in the past tense."""

    STATE_SAVED = "state.saved"
    STATE_UPDATED = "state.updated"
    THREAD_REWOUND = "thread.rewound"
    MESSAGE_ADDED = "message.added"
    MESSAGE_DELETED = "message.deleted"
    CHECKPOINT_SAVED = "checkpoint.saved"
    CHECKPOINT_TAGGED = "checkpoint.tagged"
    CHECKPOINT_CLEARED = "checkpoint.cleared"
    RUN_STARTED = "run.started"
    RUN_RESUMED = "run.resumed"
    RUN_FINISHED = "run.finished"
    RUN_FAILED = "run.failed"
    RUN_CANCELLED = "run.cancelled"
    STEP_STARTED = "step.started"
    STEP_STREAMED = "step.streamed"
    STEP_FINISHED = "step.finished"
    STEP_FAILED = "step.failed"
    TOOL_STARTED = "tool.started"
    TOOL_FINISHED = "tool.finished"
    TOOL_FAILED = "tool.failed"
    TASK_WRITTEN = "task.written"
    MODEL_CALLED = "model.called"
    PAUSE_OPENED = "pause.opened"
    PAUSE_NOTIFIED = "pause.notified"
    PAUSE_APPROVED = "pause.approved"
    PAUSE_DECIDED = "pause.decided"
    ALLOWANCE_MADE = "allowance.made"
    ALLOWANCE_USED = "allowance.used"
    ALLOWANCE_REVOKED = "allowance.revoked"
    SIGNAL_RECEIVED = "signal.received"
    DRIFT_DETECTED = "drift.detected"
    HISTORY_REPAIRED = "history.repaired"
    THREAD_RENAMED = "thread.renamed"
    THREAD_TAGGED = "thread.tagged"
    THREAD_CHANGED = "thread.changed"
    THREAD_TRUSTED = "thread.trusted"
    THREAD_QUARANTINED = "thread.quarantined"
    RANGE_PRUNED = "range.pruned"


STATE_KINDS = frozenset({EntryKind.STATE_SAVED, EntryKind.STATE_UPDATED, EntryKind.THREAD_REWOUND})
SPOKEN_KINDS = frozenset({EntryKind.MESSAGE_ADDED, EntryKind.MESSAGE_DELETED})
FAILED_KINDS = frozenset({EntryKind.RUN_FAILED, EntryKind.STEP_FAILED, EntryKind.TOOL_FAILED})
ENTRY_SCHEMA = 1


class NewEntry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """An entry before the storage gives it a version, a time and a chain digest."""

    kind: EntryKind
    payload: bytes  # sealed
    digest: bytes  # SHA-256 of the body inside the envelope
    actor: str | None = None
    schema: int = ENTRY_SCHEMA


class Entry(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One item of a log. `payload` is None where a listing did not ask for it."""

    version: int  # 1, 2, 3 … without gaps
    kind: EntryKind
    micros: int
    actor: str | None
    write_id: bytes
    key: str | None
    request: bytes | None  # digest of the request the key stands for
    schema: int
    digest: bytes
    chain: bytes
    payload: bytes | None

    @property
    def at(self) -> datetime:
        """When it was written; never before its predecessor."""
        return to_datetime(self.micros)

    @property
    def changes_state(self) -> bool:
        """Whether this entry has a delta of the state."""
        return self.kind in STATE_KINDS


def newest_run(entries: Iterable[Entry]) -> int:
    """The version of the newest `run.started` entry among these, 0 when there is none."""
    return max((entry.version for entry in entries if entry.kind is EntryKind.RUN_STARTED), default=0)
