"""How an agent's checkpoint lies in a thread: what is in the state, and what in the checkpoint's line."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from perdure.core.checkpoint import Checkpoint, CheckpointRow
from perdure.core.errors import InvalidInputError

GIVEN = "perdure.given"  # beside the metadata: the id and the time of a checkpoint that was made elsewhere


def state_of(point: Checkpoint) -> dict[str, Any]:
    """The state of the thread at a checkpoint. The history is where the engine looks for messages."""
    return {
        "agent_type": point.agent_type,
        "agent_class": point.agent_class,
        "status": point.status,
        "collected_fields": point.collected_fields,
        "required_fields": point.required_fields,
        "context_summary": point.context_summary,
        "attributes": point.attributes,
        "messages": point.history,
    }


def fields_of(state: Any, checkpoint_id: str) -> dict[str, Any]:
    """The fields of a checkpoint that are in the state; raise `InvalidInputError` when it is no agent's."""
    if not isinstance(state, dict) or "collected_fields" not in state:
        raise InvalidInputError(f"checkpoint {checkpoint_id} is none of an agent: its state was saved by other means")
    names = ("agent_class", "collected_fields", "required_fields", "context_summary", "attributes")
    return {"history": state["messages"], **{name: state[name] for name in names}}


def check_metadata(metadata: Mapping[str, Any]) -> Mapping[str, Any]:
    """The metadata of a caller; raise `InvalidInputError` when they hold what only this module may write."""
    if GIVEN in metadata:
        raise InvalidInputError(f"metadata: {GIVEN!r} is the library's own; use another name")
    return metadata


def as_given(point: Checkpoint) -> dict[str, Any]:
    """The metadata of a checkpoint that was made elsewhere, with what the engine would choose anew."""
    return {**check_metadata(point.metadata), GIVEN: {"id": point.id, "timestamp": point.timestamp}}


def listed(row: CheckpointRow) -> Checkpoint:
    """A checkpoint without its state."""
    point = row.public()
    given = _id_and_time(point.metadata.pop(GIVEN, None))
    return msgspec.structs.replace(point, agent_id=row.thread_id, agent_type=row.mark.agent, **given)


def _id_and_time(given: object) -> dict[str, Any]:
    """What `as_given` wrote, and no other field: the thread may have been saved by other means."""
    if not isinstance(given, Mapping):
        return {}
    id, at = given.get("id"), given.get("timestamp")
    return {"id": id, "timestamp": at} if isinstance(id, str) and isinstance(at, datetime) else {}
