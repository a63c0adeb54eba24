"""What is known of a conversation beside its content."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import msgspec

from perdure.app import naming
from perdure.core.errors import InvalidInputError

_RUN = "perdure.run_id"


class ThreadInfo(msgspec.Struct, kw_only=True):
    """A conversation: its title, tags, participants and whatever else helps to find it again."""

    thread_id: str | int
    user_id: str | int | None = None
    thread_name: str | None = None
    metadata: dict[str, Any] | None = None
    updated_at: datetime | str | None = None  # when it is read: the time of the newest entry
    run_id: str | None = None
    status: str | None = None

    @property
    def tags(self) -> tuple[str, ...]:
        """The tags among its metadata."""
        tags = (self.metadata or {}).get("tags") or ()
        if isinstance(tags, str) or not all(isinstance(tag, str) for tag in tags):
            raise InvalidInputError(f"the tags of a thread must be a list of str, not {tags!r}")
        return tuple(tags)

    @property
    def participants(self) -> tuple[Any, ...]:
        """Those who take part, among its metadata."""
        return tuple((self.metadata or {}).get("participants") or ())


def kept_metadata(info: ThreadInfo) -> dict[str, Any]:
    """The metadata as a thread keeps it."""
    run = {} if info.run_id is None else {_RUN: info.run_id}
    return {**(info.metadata or {}), **run}


def thread_info(found: naming.ThreadInfo) -> ThreadInfo:
    """What a directory line tells."""
    kept: Mapping[str, Any] = found.metadata
    metadata = {name: value for name, value in kept.items() if name != _RUN}
    if found.tags or "tags" in metadata:
        metadata["tags"] = list(found.tags)
    return ThreadInfo(
        thread_id=found.id, user_id=found.user, thread_name=found.name, metadata=metadata, updated_at=found.updated,
        run_id=kept.get(_RUN), status=found.status,
    )  # fmt: skip
