"""Checkpoints: named positions of a log."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, cast

import msgspec

from perdure.core.codec import decode, encode
from perdure.core.errors import (
    CheckpointDamagedError,
    InvalidFilterError,
    InvalidInputError,
    ValueDamagedError,
    short_repr,
)
from perdure.core.limits import DEFAULT_LIMITS
from perdure.core.seams import Range, Rewind, left, within
from perdure.core.times import to_datetime

EVERY = timedelta(minutes=30)  # between two routine checkpoints


class Checkpoint(msgspec.Struct, frozen=True, eq=False, dict=True):
    """A named position of a thread's log: which version, what kind, why.

    The fields from `collected_fields` to `context_summary`, and those from `history` on, are an agent's. A checkpoint
    that was listed reads them from its storage when one of them is first asked for.
    """

    id: str
    agent_id: str | None
    agent_type: str | None
    user_id: str | int  # a number where user_id_type says so
    status: str | None
    collected_fields: dict[str, Any]
    required_fields: list[Any]
    context_summary: str
    parent_checkpoint_id: str | None
    timestamp: datetime
    metadata: dict[str, Any]
    thread_id: str | None = None
    version: int = 0
    kind: str = "manual"
    note: str | None = None
    history: list[Any] = []
    attributes: dict[str, Any] = {}  # what else the agent held
    agent_class: str | None = None  # module and qualified name: tells classes of one name apart

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON data. Raises `UnsupportedValueError` naming what cannot be kept."""
        from perdure.core import checkpoint_data as data

        plain = {name: getattr(self, name) for name in self.__struct_fields__}
        plain |= {name: data.shown(plain[name], name) for name in _VALUES}
        return plain | {"timestamp": self.timestamp.isoformat(), "history": data.shown_history(self.history)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Checkpoint:
        """The checkpoint that `to_dict` took apart, also after a way through JSON; keys it does not know are ignored.

        Raises `InvalidInputError` when there is no id or no timestamp.
        """
        from perdure.core.checkpoint_data import meant, meant_history, moment

        if not isinstance(data, Mapping) or "id" not in data or "timestamp" not in data:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"a checkpoint is a dict with an id and a timestamp, not {data!r}")
        given = {name: data[name] for name in cls.__struct_fields__ if name in data}
        given |= {name: meant(given[name]) for name in _VALUES if name in given}
        given |= {"timestamp": moment(data["timestamp"]), "history": meant_history(data.get("history", ()))}
        return cls(**{**_absent(), **given})

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Checkpoint):
            return NotImplemented
        return all(getattr(self, name) == getattr(other, name) for name in self.__struct_fields__)

    def __hash__(self) -> int:
        return hash(self.id)

    def __repr__(self) -> str:
        # Only what is here: looking at a list in a debugger must not read states from a database.
        unread = LATER if "read" in vars(self) else ()
        shown = ", ".join(f"{name}={getattr(self, name)!r}" for name in self.__struct_fields__ if name not in unread)
        return f"Checkpoint({shown})"

    def __copy__(self) -> Checkpoint:
        return self  # frozen; the inherited one would stumble over what is not read yet

    def __reduce__(self) -> tuple[Any, ...]:
        return Checkpoint, tuple(getattr(self, name) for name in self.__struct_fields__)

    if not TYPE_CHECKING:  # a checker would take any misspelt name for an attribute

        def __getattr__(self, name: str) -> Any:
            read = vars(self).get("read") if name in LATER else None
            if read is None:
                raise AttributeError(f"a checkpoint has no attribute {name!r}")
            found = read()
            for each in LATER:
                msgspec.structs.force_setattr(self, each, found[each])
            vars(self).pop("read", None)
            return found[name]


_VALUES = ("collected_fields", "required_fields", "metadata", "attributes")  # of any type that can be stored
LATER = ("collected_fields", "required_fields", "context_summary", "history", "attributes", "agent_class")


def read_later(point: Checkpoint, read: Callable[[], Mapping[str, Any]]) -> Checkpoint:
    """Make a checkpoint ask `read` for the fields in `LATER` when the first of them is wanted."""
    for name in LATER:
        # Unset, so that finding nothing there leads to __getattr__; a value in its place would be believed.
        getattr(Checkpoint, name).__delete__(point)
    vars(point)["read"] = read
    return point


def _absent() -> dict[str, Any]:
    texts: dict[str, Any] = dict.fromkeys(("agent_id", "agent_type", "status", "parent_checkpoint_id"))
    return {**texts, "user_id": "", "collected_fields": {}, "required_fields": [], "context_summary": "",
            "metadata": {}}  # fmt: skip


NO_METADATA = b"\x80"  # an empty dict, encoded


class CheckpointMark(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """What a writer says of a checkpoint; it rides inside the entry, so that the index can be rebuilt."""

    id: str
    kind: str
    status: str | None = None
    note: str | None = None
    agent: str | None = None
    metadata: bytes = NO_METADATA  # an encoded dict
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
            timestamp = to_datetime(self.micros)
            metadata = metadata_in(mark.metadata)
        except (ValueDamagedError, OverflowError, TypeError) as exc:
            raise CheckpointDamagedError(mark.id, self.thread_id) from exc
        return Checkpoint(
            id=mark.id,
            agent_id=mark.agent,
            agent_type=None,
            user_id=self.user if user is None else user,
            status=mark.status,
            collected_fields={},
            required_fields=[],
            context_summary="",
            parent_checkpoint_id=self.parent,
            timestamp=timestamp,
            metadata=metadata,
            thread_id=self.thread_id,
            version=self.version,
            kind=mark.kind,
            note=mark.note,
        )


class CheckpointQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints to list; None is no condition."""

    id: str | None = None  # exactly this one
    kind: str | None = None
    status: str | None = None
    agent: str | None = None
    metadata: Mapping[str, object] | None = None
    since: int | None = None  # microseconds, inclusive
    until: int | None = None  # microseconds, exclusive
    before: str | None = None  # a checkpoint id: only older ones
    limit: int = 50
    left: tuple[Range, ...] = ()  # made by entries in these ranges: not wanted
    present: bool = False  # of one thread: without those that rewinds left behind


MAX_LIMIT = 1 << 31


def without_left(query: CheckpointQuery, rewinds: Sequence[Rewind], head: int) -> CheckpointQuery:
    """The query for a thread with these rewinds: what they left behind is named, where it is not wanted."""
    if not query.present or not rewinds:
        return query
    return msgspec.structs.replace(query, left=(*query.left, *left(rewinds, head)))


def matches(row: CheckpointRow, query: CheckpointQuery) -> bool:
    """Whether a row answers a query; the cursor and the limit are the storage's part."""
    mark = row.mark
    return (
        (query.id is None or mark.id == query.id)
        and (query.kind is None or mark.kind == query.kind)
        and (query.status is None or mark.status == query.status)
        and (query.agent is None or mark.agent == query.agent)
        and (query.since is None or row.micros >= query.since)
        and (query.until is None or row.micros < query.until)
        and not (query.left and within(query.left, row.entry))
        and (not query.metadata or has_metadata(mark.metadata, query.metadata))
    )


def each_once(rows: Iterable[CheckpointRow]) -> list[CheckpointRow]:
    """These rows, each checkpoint once: threads that were copied may have the same."""
    return list({row.mark.id: row for row in rows}.values())


def metadata_in(encoded: bytes) -> dict[str, Any]:
    """What was encoded by `check_metadata`; it lies beside values, where nothing else bounds it."""
    if encoded in (NO_METADATA, b""):
        return {}
    DEFAULT_LIMITS.check(encoded, "metadata")
    found = decode(encoded)
    if type(found) is not dict:
        raise ValueDamagedError("that should be metadata is no mapping")
    return cast("dict[str, Any]", found)


def has_metadata(encoded: bytes, wanted: Mapping[str, object]) -> bool:
    """Whether the encoded metadata has every wanted key with exactly that value (1, True and 1.0 differ)."""
    have = metadata_in(encoded)
    return all(key in have and encode(have[key]) == encode(value, root="filter") for key, value in wanted.items())


def is_due(last: datetime | None, now: datetime, every: timedelta = EVERY) -> bool:
    """Whether it is time for a routine checkpoint, the newest one being that of `last` (S3.15)."""
    return last is None or now - last >= every


def check_limit(limit: object, what: str = "limit") -> int:
    """Return a usable limit; raise `InvalidFilterError` otherwise."""
    if type(limit) is not int or not 0 <= limit <= MAX_LIMIT:
        raise InvalidFilterError(f"{what} must be an int from 0 to {MAX_LIMIT:,}, not {short_repr(limit)}")
    return limit


def check_metadata(metadata: object) -> bytes:
    """Encode metadata; raise `InvalidInputError` for what is not a mapping."""
    if metadata is None:
        return NO_METADATA
    if not isinstance(metadata, Mapping):
        raise InvalidInputError(f"metadata must be a dict, not {short_repr(metadata)}")
    encoded = encode(dict(metadata), root="metadata")
    DEFAULT_LIMITS.check(encoded, "metadata")
    return encoded
