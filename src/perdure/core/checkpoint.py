"""Checkpoints: named positions of a log."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from perdure.core.codec import CannotDecode, decode, encode
from perdure.core.errors import CheckpointDamagedError, InvalidFilterError, InvalidInputError
from perdure.core.times import to_datetime


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """A named position of a thread's log: which version, what kind, why. It does not hold the state."""

    id: str
    thread_id: str
    version: int
    kind: str
    status: str | None
    note: str | None
    agent_id: str | None
    user_id: str | int  # a number where user_id_type says so
    parent_checkpoint_id: str | None
    timestamp: datetime
    metadata: dict[str, Any]


class CheckpointMark(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a writer says of a checkpoint; it rides inside the entry, so that the index can be rebuilt."""

    id: str
    kind: str
    status: str | None = None
    note: str | None = None
    agent: str | None = None
    metadata: bytes = b"\x80"  # an encoded dict
    parent: str | None = None  # None: the newest checkpoint before this one
    version: int | None = None  # None: the version of the entry it rides in


class CheckpointRow(msgspec.Struct, frozen=True, kw_only=True):
    """A line of the checkpoint index."""

    mark: CheckpointMark
    thread_id: str
    user: str
    version: int  # the version it refers to
    entry: int  # the version of the entry that made it
    parent: str | None
    micros: int

    def public(self, user: str | int | None = None) -> Checkpoint:
        """The value that callers see, with the user as they name one."""
        mark = self.mark
        try:
            timestamp, metadata = to_datetime(self.micros), decode(mark.metadata)
        except (CannotDecode, OverflowError, TypeError) as exc:
            raise CheckpointDamagedError(mark.id, self.thread_id) from exc
        return Checkpoint(
            id=mark.id,
            thread_id=self.thread_id,
            version=self.version,
            kind=mark.kind,
            status=mark.status,
            note=mark.note,
            agent_id=mark.agent,
            user_id=self.user if user is None else user,
            parent_checkpoint_id=self.parent,
            timestamp=timestamp,
            metadata=metadata,
        )


class CheckpointQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints to list; None is no condition."""

    kind: str | None = None
    status: str | None = None
    agent: str | None = None
    metadata: Mapping[str, object] | None = None
    since: int | None = None  # microseconds, inclusive
    until: int | None = None  # microseconds, exclusive
    before: str | None = None  # a checkpoint id: only older ones
    limit: int = 50


MAX_LIMIT = 1 << 31


def matches(row: CheckpointRow, query: CheckpointQuery) -> bool:
    """Whether a row answers a query; the cursor and the limit are the storage's part."""
    mark = row.mark
    return (
        (query.kind is None or mark.kind == query.kind)
        and (query.status is None or mark.status == query.status)
        and (query.agent is None or mark.agent == query.agent)
        and (query.since is None or row.micros >= query.since)
        and (query.until is None or row.micros < query.until)
        and (not query.metadata or has_metadata(mark.metadata, query.metadata))
    )


def each_once(rows: Iterable[CheckpointRow]) -> list[CheckpointRow]:
    """These rows, each checkpoint once: threads that were copied may have the same."""
    return list({row.mark.id: row for row in rows}.values())


def has_metadata(encoded: bytes, wanted: Mapping[str, object]) -> bool:
    """Whether the encoded metadata has every wanted key with exactly that value (1, True and 1.0 differ)."""
    have = decode(encoded)
    return all(key in have and encode(have[key]) == encode(value, root="filter") for key, value in wanted.items())


def check_limit(limit: object) -> int:
    """Return a usable limit; raise `InvalidFilterError` otherwise."""
    if type(limit) is not int or not 0 <= limit <= MAX_LIMIT:
        raise InvalidFilterError(f"limit must be an int from 0 to {MAX_LIMIT:,}, not {limit!r}")
    return limit


def check_metadata(metadata: object) -> bytes:
    """Encode metadata; raise `InvalidInputError` for what is not a mapping."""
    if metadata is None:
        return b"\x80"
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata must be a dict, not {metadata!r}")
    return encode(dict(metadata), root="metadata")
