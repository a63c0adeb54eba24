"""What people ask of messages, checked and in the words of storages."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, TypedDict

import msgspec

from perdure.app.users import UserId
from perdure.core.checkpoint import check_limit
from perdure.core.codec import decode, encode
from perdure.core.errors import InvalidFilterError, short_repr
from perdure.core.identity import check_label
from perdure.core.messages import MessageQuery
from perdure.core.search import search_of
from perdure.core.times import moment_or_none, to_datetime
from perdure.sessions.messages import Found, Wanted


class Filters(TypedDict, total=False):
    """Conditions on messages; all of those that are given hold."""

    role: str | Iterable[str] | None
    node: str | None  # `metadata["node"]`
    run: str | None  # `metadata["run_id"]`
    since: datetime | None
    until: datetime | None
    metadata: Mapping[str, Any] | None  # these keys with exactly these values


class MessageLine(msgspec.Struct, frozen=True, kw_only=True):
    """A message with what is known about it."""

    number: int  # its place in its thread
    id: str | None
    role: str
    node: str | None
    run: str | None
    at: datetime
    thread_id: str
    user: UserId | None
    body: bytes

    @property
    def message(self) -> Any:
        """The message itself."""
        return decode(self.body)


def wanted(search: str | None, limit: int | None, filters: Filters) -> Wanted:
    """Check what is asked for; raise `InvalidFilterError` naming what cannot be asked."""
    if search is not None and type(search) is not str:
        raise InvalidFilterError(f"search must be a str, not {short_repr(search)}")
    for name in filters:
        if name not in Filters.__annotations__:
            raise TypeError(f"messages cannot be filtered by {name!r}, only by {', '.join(Filters.__annotations__)}")
    asked = search_of(search or "")
    query = MessageQuery(
        roles=_roles(filters.get("role")),
        node=_label(filters.get("node"), "node"),
        run=_label(filters.get("run"), "run"),
        since=moment_or_none(filters.get("since"), "since"),
        until=moment_or_none(filters.get("until"), "until"),
        words=asked.words,
        limit=None if limit is None else check_limit(limit),
    )
    return Wanted(query=query, search=asked, metadata=_values(filters.get("metadata")))


def line_of(found: Found, user: UserId | None) -> MessageLine:
    """A found message for people."""
    row = found.row
    return MessageLine(
        number=row.number, id=row.id, role=row.role, node=row.node, run=row.run, at=to_datetime(row.micros),
        thread_id=row.thread_id, user=user, body=found.body,
    )  # fmt: skip


def _roles(role: object) -> tuple[str, ...] | None:
    if role is None:
        return None
    roles = (role,) if isinstance(role, str) else role
    if not isinstance(roles, Iterable):
        raise InvalidFilterError(f"role must be a str or several, not {short_repr(role)}")
    return tuple(_label(each, "role") or "" for each in roles)


def _values(metadata: object) -> dict[str, bytes] | None:
    if metadata is None:
        return None
    if not isinstance(metadata, Mapping):
        raise InvalidFilterError(f"metadata must be a mapping, not {short_repr(metadata)}")
    return {name: encode(value, root=f"metadata[{name!r}]") for name, value in metadata.items()}


def _label(value: object, what: str) -> str | None:
    return check_label(value, what)
