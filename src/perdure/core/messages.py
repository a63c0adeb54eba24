"""Messages as they are listed, searched and counted: what a line of the projection says, and what is asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.codec import decode_tagged
from perdure.core.envelope import seal
from perdure.core.errors import PerdureError
from perdure.core.message import CALL_BLOCKS, texts
from perdure.core.threads import ThreadRow

SHAPE = 1  # how lines are made from a log; a projection of another shape is made again
_MAX_LABEL = 512
_MAX_INT = (1 << 63) - 1


class MessageRow(msgspec.Struct, frozen=True, kw_only=True):
    """The line of a message. Its payload is that of an entry, or its own where no entry is exactly this message."""

    number: int  # its place in the conversation, from 1 on
    micros: int
    version: int | None = None  # of the entry that holds it; None: `payload` does
    id: str | None = None
    role: str = ""
    node: str | None = None
    run: str | None = None
    tool_calls: int = 0
    error: bool = False
    tokens: int = 0
    duration: int = 0  # microseconds
    words: str = ""  # what it can be found by, set apart by spaces; not given back
    payload: bytes | None = None  # sealed
    digest: bytes = b""  # of the body inside
    thread_id: str = ""  # given back, with the user, where a list is about several threads
    user: str = ""
    uid: str = ""


class Owner(msgspec.Struct, frozen=True):
    """Whose messages are asked for: those of a user's threads, or of everybody's where that is None."""

    namespace: str
    user: str | None


class MessageQuery(msgspec.Struct, frozen=True, kw_only=True):
    """Which messages to list: newest first, or oldest first with `after`. None is no condition."""

    ids: tuple[str, ...] | None = None
    roles: tuple[str, ...] | None = None
    node: str | None = None
    run: str | None = None
    since: int | None = None
    until: int | None = None
    words: tuple[str, ...] = ()
    before: int | None = None  # of one thread: the number of the last of the page before
    after: int | None = None
    beyond: tuple[int, str, int] | None = None  # of several: (micros, uid, number) of the last of the page before
    limit: int | None = 50


class Projection(msgspec.Struct, frozen=True, kw_only=True):
    """How far the messages of a thread have been read off its log."""

    row: ThreadRow
    version: int = 0
    count: int = 0  # numbers given so far
    shape: int = SHAPE

    @property
    def is_current(self) -> bool:
        """Whether its log is read to the end, as lines are made now."""
        return self.shape == SHAPE and self.version == self.row.head


class Projected(msgspec.Struct, frozen=True, kw_only=True):
    """What reading on leads to: lines to put, by number, and those to take away."""

    seen: Projection
    version: int
    count: int
    rows: Sequence[MessageRow] = ()
    gone: Sequence[int] = ()
    anew: bool = False  # all lines that were there go first


class Tally(msgspec.Struct, frozen=True, kw_only=True):
    """What the messages of a role add up to."""

    role: str
    messages: int = 0
    tool_calls: int = 0
    errors: int = 0
    tokens: int = 0
    duration: int = 0
    first: int = 0  # microseconds since 1970
    last: int = 0


class Tallies(msgspec.Struct, frozen=True, kw_only=True):
    """The tallies of all roles, in order, and of how many threads they are."""

    threads: int
    roles: list[Tally]


class Said(msgspec.Struct, frozen=True, kw_only=True):
    """What the index keeps of a message beside its bytes."""

    id: str | None
    role: str
    node: str | None
    run: str | None
    text: str
    metadata: Mapping[str, Any]
    tool_calls: int
    error: bool
    tokens: int
    duration: int


def asks(row: MessageRow, query: MessageQuery) -> bool:
    """Whether a line answers a query; order and limit are the storage's part."""
    return (
        (query.ids is None or row.id in query.ids)
        and (query.roles is None or row.role in query.roles)
        and (query.node is None or row.node == query.node)
        and (query.run is None or row.run == query.run)
        and (query.since is None or row.micros >= query.since)
        and (query.until is None or row.micros < query.until)
        and (query.before is None or row.number < query.before)
        and (query.after is None or row.number > query.after)
        and (query.beyond is None or (row.micros, row.uid, row.number) < query.beyond)
        and (not query.words or set(query.words) <= set(row.words.split(" ")))
    )


def tallied(rows: Iterable[MessageRow]) -> list[Tally]:
    """What lines add up to, by role."""
    found: dict[str, list[MessageRow]] = {}
    for row in rows:
        found.setdefault(row.role, []).append(row)
    return [_tally(role, each) for role, each in sorted(found.items())]


def _tally(role: str, rows: Sequence[MessageRow]) -> Tally:
    return Tally(
        role=role,
        messages=len(rows),
        tool_calls=sum(row.tool_calls for row in rows),
        errors=sum(row.error for row in rows),
        tokens=sum(row.tokens for row in rows),
        duration=sum(row.duration for row in rows),
        first=min(row.micros for row in rows),
        last=max(row.micros for row in rows),
    )


def row_of(number: int, micros: int, body: bytes, digest: bytes, version: int | None) -> MessageRow:
    """The line of a message; without a version it keeps its payload itself."""
    from perdure.core.search import words_of  # its patterns take longer to make than everything else here

    said = said_of(body)
    return MessageRow(
        number=number, micros=micros, version=version, id=said.id, role=said.role, node=said.node, run=said.run,
        tool_calls=said.tool_calls, error=said.error, tokens=said.tokens, duration=said.duration,
        words=" ".join(words_of(said.text)), payload=None if version is not None else seal(body), digest=digest,
    )  # fmt: skip


def message_id(body: bytes) -> str | None:
    """The id of an encoded message."""
    return _label(_fields(_decoded(body)).get("id"))


def said_of(body: bytes) -> Said:
    """Read a message of whatever class without building it: a mapping, an object's fields, or a plain text."""
    value = _decoded(body)
    fields = _fields(value)
    metadata = _fields(fields.get("metadata"))
    content = fields.get("content", value if isinstance(value, str) else "")
    return Said(
        id=_label(fields.get("id")),
        role=_label(fields.get("role")) or "",
        node=_label(metadata.get("node")),
        run=_label(metadata.get("run_id")),
        text="\n".join(texts(content)) if fields or isinstance(value, str) else "\n".join(texts(value)),
        metadata=metadata,
        tool_calls=_calls(fields),
        error=_is_error(fields, metadata),
        tokens=_tokens(fields, metadata),
        duration=_micros(metadata.get("duration")),
    )


def _decoded(body: bytes) -> Any:
    try:
        return decode_tagged(body)
    except PerdureError:
        return None  # whoever reads the message itself is told; a list goes on


def _fields(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _label(value: Any) -> str | None:
    """A text that an index can keep; an id that is a number counts too."""
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    if not isinstance(value, str) or not 0 < len(value) <= _MAX_LABEL or "\0" in value:
        return None
    return None if any("\ud800" <= char <= "\udfff" for char in value) else value


def _calls(fields: Mapping[str, Any]) -> int:
    """How many tool calls a message makes: beside its content, or as blocks of it."""
    calls = fields.get("tools_calls") or fields.get("tool_calls") or ()
    blocks = [block for block in _items(fields.get("content")) if _fields(block).get("type") in CALL_BLOCKS]
    return len(_items(calls)) + len(blocks)


def _items(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _is_error(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> bool:
    """Whether a message tells of a failure: it says so itself, or one of its blocks does."""
    return any(_says_error(part) for part in (fields, metadata, *_items(fields.get("content"))))


def _says_error(part: Any) -> bool:
    found = _fields(part)
    return found.get("is_error") is True or found.get("status") == "error" or bool(found.get("error"))


def _tokens(fields: Mapping[str, Any], metadata: Mapping[str, Any]) -> int:
    for holder in (fields, metadata):
        for name in ("usages", "usage"):
            total = _fields(holder.get(name)).get("total_tokens")
            if type(total) is int and 0 <= total <= _MAX_INT:
                return total
    total = metadata.get("tokens")
    return total if type(total) is int and 0 <= total <= _MAX_INT else 0


def _micros(seconds: Any) -> int:
    is_number = type(seconds) in (int, float) and 0 <= seconds < 1e9
    return int(seconds * 1_000_000) if is_number else 0
