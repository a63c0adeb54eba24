"""How two checkpoints differ, in flowagent's words."""

from __future__ import annotations

from typing import Any

import msgspec
from msgspec import Raw

from perdure.core.checkpoint import Checkpoint
from perdure.core.codec import encode
from perdure.core.diff import Difference, differences

_COMPARED = ("collected_fields", "required_fields", "context_summary", "attributes", "history")


class CheckpointDiff(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from one checkpoint to another."""

    old_id: str
    new_id: str
    old_status: str | None
    new_status: str | None
    changed_fields: list[str]  # names of collected fields that were added, changed or removed
    differences: list[Difference]  # everything that changed, with its values

    def __str__(self) -> str:
        status = [] if self.old_status == self.new_status else [f"status: {self.old_status!r} -> {self.new_status!r}"]
        return "\n".join([*status, *map(str, self.differences)]) or "no difference"


def difference(old: Checkpoint, new: Checkpoint) -> CheckpointDiff:
    """Compare two checkpoints by exact values: 1, True and 1.0 differ."""
    return CheckpointDiff(
        old_id=old.id,
        new_id=new.id,
        old_status=old.status,
        new_status=new.status,
        changed_fields=_changed(old.collected_fields, new.collected_fields),
        differences=differences(_state(old), _state(new)),
    )


def _changed(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    names = dict.fromkeys((*old, *new))
    return [name for name in names if name not in old or name not in new or encode(old[name]) != encode(new[name])]


def _state(point: Checkpoint) -> Raw:
    return Raw(encode({name: getattr(point, name) for name in _COMPARED}))
