"""Checkpoints to put, and short words for what comes back."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from langgraph.checkpoint.base import Checkpoint
from langgraph.checkpoint.base.id import uuid6

from perdure.testing.langgraph.bench import Face


def at(thread: str, *, ns: str = "", id: str | None = None, **configurable: Any) -> dict[str, Any]:
    """A config that names a thread, a namespace, and perhaps a checkpoint."""
    named = {"thread_id": thread, "checkpoint_ns": ns, **configurable}
    return {"configurable": named if id is None else {**named, "checkpoint_id": id}}


def checkpoint(values: dict[str, Any] | None = None, versions: dict[str, Any] | None = None) -> Checkpoint:
    """A checkpoint as the loop makes it; every value has version 1 unless told."""
    return {
        "v": 4,
        "id": str(uuid6()),
        "ts": datetime.now(UTC).isoformat(),
        "channel_values": dict(values or {}),
        "channel_versions": dict.fromkeys(values or {}, 1) if versions is None else versions,
        "versions_seen": {},
        "updated_channels": None,
    }


def metadata(step: int = 0, **more: Any) -> dict[str, Any]:
    return {"source": "loop", "step": step, "parents": {}, **more}


def id_of(config: Any) -> str:
    return config["configurable"]["checkpoint_id"]


async def put(
    saver: Face,
    config: dict[str, Any],
    values: dict[str, Any] | None = None,
    versions: dict[str, Any] | None = None,
    *,
    changed: dict[str, Any] | None = None,
    more: dict[str, Any] | None = None,
    **meta: Any,
) -> dict[str, Any]:
    """Put a checkpoint as a child of the one `config` names, all its channels changed unless told."""
    made = checkpoint(values, versions)
    return await saver.put(
        config, made, metadata(**meta) | (more or {}), dict(made["channel_versions"]) if changed is None else changed
    )


async def chain(saver: Face, thread: str, *states: dict[str, Any], ns: str = "") -> list[dict[str, Any]]:
    """Checkpoints that follow each other, each with all its channels changed."""
    configs: list[dict[str, Any]] = []
    config = at(thread, ns=ns)
    for step, values in enumerate(states):
        config = await put(saver, config, values, dict.fromkeys(values, step + 1), step=step)
        configs.append(config)
    return configs


async def values_at(saver: Face, config: dict[str, Any]) -> dict[str, Any]:
    found = await saver.get(config)
    assert found is not None, f"nothing at {config['configurable']}"
    return found.checkpoint["channel_values"]


def parent_of(found: Any) -> str | None:
    return id_of(found.parent_config) if found.parent_config else None


def ids(found: list[Any]) -> list[str]:
    return [id_of(each.config) for each in found]
