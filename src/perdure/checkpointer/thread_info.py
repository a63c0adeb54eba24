"""What is known of a conversation beside its content."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import msgspec

from perdure.app import naming
from perdure.core.errors import InvalidInputError

_RUN, _UPDATED = "perdure.run_id", "perdure.updated_at"


class ThreadInfo(msgspec.Struct, kw_only=True):
    """A conversation: its title, tags, participants and whatever else helps to find it again."""

    thread_id: str | int
    user_id: str | int | None = None
    thread_name: str | None = None
    metadata: dict[str, Any] | None = None
    updated_at: datetime | str | None = None  # as it was put, until there is a newer entry; then the time of that
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


def kept_metadata(info: ThreadInfo, version: int) -> dict[str, Any]:
    """The metadata as a thread keeps it from this version on."""
    run = {} if info.run_id is None else {_RUN: info.run_id}
    at = _moment(info.updated_at)
    return {**(info.metadata or {}), **run, **({} if at is None else {_UPDATED: [version, at.isoformat()]})}


def _moment(given: datetime | str | None) -> datetime | None:
    try:
        at = datetime.fromisoformat(given) if isinstance(given, str) else given
    except ValueError:
        raise InvalidInputError(f"updated_at must be a time such as 2026-11-01T12:00:00+00:00, not {given!r}") from None
    return at if at is None or at.tzinfo is not None else at.replace(tzinfo=UTC)


def _updated(found: naming.ThreadInfo) -> datetime:
    """The time that was given with the thread as it stands; with newer entries, that of the newest."""
    version, at = found.metadata.get(_UPDATED) or (None, "")
    return datetime.fromisoformat(at) if version == found.version else found.updated


def thread_info(found: naming.ThreadInfo) -> ThreadInfo:
    """What a directory line tells."""
    kept: Mapping[str, Any] = found.metadata
    metadata = {name: value for name, value in kept.items() if name not in (_RUN, _UPDATED)}
    if found.tags or "tags" in metadata:
        metadata["tags"] = list(found.tags)
    return ThreadInfo(
        thread_id=found.id, user_id=found.user, thread_name=found.name, metadata=metadata, updated_at=_updated(found),
        run_id=kept.get(_RUN), status=found.status,
    )  # fmt: skip
