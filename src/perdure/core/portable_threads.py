"""Threads as the records of an export.

A thread is a record with its line, records with pieces of each of its lists, and one that ends it. Fields are written
by name and only where they differ from their default: an export of a release that knows more is read as long as it uses
nothing of that, and refused otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, get_args, get_origin

import msgspec
from msgspec import Raw

from perdure.core.compression import zstd
from perdure.core.entries import Entry
from perdure.core.envelope import DEFLATE, FORMAT, ZSTD, claimed, seal, seal_packed, unseal
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id, check_namespace, check_user
from perdure.core.limits import DEFAULT_LIMITS, DecodeLimits
from perdure.core.portable import Allowance, NotAnExport, unpacked
from perdure.core.threads import ThreadRow
from perdure.core.times import MAX_MICROS
from perdure.core.transfer import CopiedBlob, ThreadCopy

_BEGIN, _END = "thread", "end"
_PIECE = 256 * 1024  # bytes of a piece of a list, about
_PACKED, _DEFLATED = bytes((FORMAT, ZSTD, 0)), bytes((FORMAT, DEFLATE, 0))
_INT = 1 << 63
_TIMES = frozenset({"created", "updated", "micros", "wake_at", "lease_until", "quarantined_at"})
_COUNTERS = frozenset({"epoch", "attempts", "origin_version"})
_MOST_COUNTED = 1 << 31
_encode = msgspec.msgpack.Encoder().encode
_decode_record = msgspec.msgpack.Decoder(tuple[str, Raw]).decode
_decode_fields = msgspec.msgpack.Decoder(dict[str, Raw]).decode
_FIELDS = {field.name: field for field in msgspec.structs.fields(ThreadCopy)}
LISTS = {name: get_args(field.type)[0] for name, field in _FIELDS.items() if get_origin(field.type) is list}


def counts_of(copy: ThreadCopy) -> dict[str, int]:
    """How many items each of its lists has; empty ones are not named."""
    return {name: len(getattr(copy, name)) for name in LISTS if getattr(copy, name)}


def records_of(copy: ThreadCopy) -> Iterator[bytes]:
    """A thread as records, in pieces that are small even where it is not."""
    alone = {name: getattr(copy, name) for name in _FIELDS if name not in LISTS}
    yield _encode((_BEGIN, {name: value for name, value in alone.items() if value != _FIELDS[name].default}))
    allowance = Allowance()
    for name in LISTS:
        for piece in _pieces(_sound(item, allowance) for item in getattr(copy, name)):
            yield _encode((name, piece))
    yield _encode((_END, counts_of(copy)))


def _pieces(items: Iterable[Any]) -> Iterator[list[Raw]]:
    piece: list[Raw] = []
    size = 0
    for item in items:
        piece.append(Raw(_encode(item)))
        size += memoryview(piece[-1]).nbytes
        if size >= _PIECE:
            yield piece
            piece, size = [], 0
    if piece:
        yield piece


def _sound(item: Any, allowance: Allowance) -> Any:
    """The item, its payload unpacked where packed it would stand for more than it may, and never deflated.

    The digest of an entry or of a large value is that of the body; a record of a pruned range has that of its payload.
    """
    payload = getattr(item, "payload", None) or b""
    if payload[:3] == _DEFLATED and isinstance(item, Entry):
        payload = seal_packed(unseal(payload))  # which says how long its body is
        item = msgspec.structs.replace(item, payload=payload)
    if payload[:3] != _PACKED or allowance.takes(_claimed(payload), len(payload)):
        return item
    if not isinstance(item, Entry | CopiedBlob):
        raise InvalidInputError("a pruned range unpacks to so many times its size that no import would take it")
    return msgspec.structs.replace(item, payload=seal(unseal(payload)))


def copies(
    records: Iterable[bytes], limits: DecodeLimits = DEFAULT_LIMITS, most_items: Callable[[], int] | None = None
) -> Iterator[ThreadCopy]:
    """The threads of an export, one at a time; raise `NotAnExport` for what is none.

    `most_items` says how many items of lists the records so far may have (`Unpacker.most_items`).
    """
    thread: _Assembled | None = None
    count = 0
    for record in records:
        limits.check(record, "a record of the export")
        name, value = _decoded(_decode_record, record, "a record")
        if (thread is None) != (name == _BEGIN):
            raise NotAnExport(f"a record {name!r}", "stands where it does not belong")
        if thread is None:
            thread = _Assembled(value, limits)
        elif name == _END:
            yield thread.end(value)
            thread = None
        else:
            count += thread.add(name, value, None if most_items is None else most_items() - count)
    if thread is not None:
        raise NotAnExport(thread.place, "has no end")


class _Assembled:
    """A thread of which some records were read."""

    def __init__(self, value: Raw, limits: DecodeLimits) -> None:
        self.place = "a thread"
        self._limits = limits
        self._allowance = Allowance()
        self._lists: dict[str, list[Any]] = {name: [] for name in LISTS}
        fields: dict[str, Raw] = _decoded(_decode_fields, value, self.place)
        self._alone: dict[str, Any] = {name: self._field(name, raw) for name, raw in fields.items()}
        row = self._alone.get("row")
        if not isinstance(row, ThreadRow):
            raise NotAnExport(self.place, "has no line")
        self.place = f"thread {row.key.id!r}"
        self._check(row)
        _check_key(row, self.place)

    def add(self, name: str, value: Raw, most: int | None) -> int:
        """Add a piece of one of its lists that has `most` items, and return how many it has."""
        if name not in LISTS:
            raise NotAnExport(self.place, f"has {name!r}, which this release does not know; upgrade perdure")
        place = f"{self.place}, {name} after {len(self._lists[name])},"
        count = _check_known(value, LISTS[name], place)
        if most is not None and count > most:
            raise NotAnExport(place, f"has more items ({count:,}) than a file of its size may have")
        items = _decoded(_LIST_DECODERS[name], value, place)
        for item in items:
            self._check(item)
        self._lists[name] += items
        return count

    def end(self, value: Raw) -> ThreadCopy:
        """The whole thread."""
        fields: dict[str, Any] = {**self._alone, **self._lists}
        copy = ThreadCopy(**fields)
        if not _is_consistent(copy):
            raise NotAnExport(self.place, "has a line that does not belong to its log")
        if _decoded(_decode_counts, value, self.place) != counts_of(copy):
            raise NotAnExport(self.place, "has more or fewer parts than its end says")
        return copy

    def _field(self, name: str, raw: Raw) -> Any:
        if name not in _FIELDS or name in LISTS:
            raise NotAnExport(self.place, f"has a field {name!r}, which this release does not know; upgrade perdure")
        if name == "row":
            _check_known(Raw(b"\x91" + bytes(raw)), ThreadRow, self.place)
        return _decoded(_FIELD_DECODERS[name], raw, f"{self.place}, field {name!r},")

    def _check(self, item: msgspec.Struct) -> None:
        """Refuse what a storage could not keep, and payloads that would unpack to more than they may."""
        for name in item.__struct_fields__:
            if not (_is_kept(getattr(item, name)) and _is_in_range(name, getattr(item, name))):
                raise NotAnExport(self.place, f"has a {type(item).__name__} whose {name} cannot be kept")
        payload = getattr(item, "payload", None) or b""
        if payload[:3] == _DEFLATED:
            raise NotAnExport(self.place, f"has a {type(item).__name__} packed in a way that exports are not")
        what = f"a {type(item).__name__} of {self.place}"
        self._limits.check_size(claimed(payload) // 2, what)
        if payload[:3] == _PACKED and not _unpacks(payload, self._allowance):
            raise NotAnExport(self.place, f"has a {type(item).__name__} that unpacks to more than it may")
        if not isinstance(item, CopiedBlob):  # a large value is one text or bytes, which is checked where it is used
            self._limits.check_sealed(payload, what)


_FIELD_DECODERS = {name: msgspec.msgpack.Decoder(field.type).decode for name, field in _FIELDS.items()}
_LIST_DECODERS = {name: msgspec.msgpack.Decoder(list[kind]).decode for name, kind in LISTS.items()}  # type: ignore[valid-type]
_decode_counts = msgspec.msgpack.Decoder(dict[str, int]).decode
_decode_items = msgspec.msgpack.Decoder(list[Raw]).decode


def _decoded(decode: Any, value: bytes | Raw, place: str) -> Any:
    try:
        return decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise NotAnExport(place, f"cannot be read ({exc})") from exc


def _check_known(items: Raw, kind: type[Any], place: str) -> int:
    """Return how many items there are. A field that this release does not know would be lost without a word."""
    known = frozenset(kind.__struct_fields__)
    found = _decoded(_decode_items, items, place)
    for item in found:
        head = memoryview(item)[0]
        if not (0x80 <= head <= 0x8F or head in (0xDE, 0xDF)):
            continue  # a struct that is written as a list has no names
        if unknown := _decoded(_decode_fields, item, place).keys() - known:
            raise NotAnExport(place, f"has a field {min(unknown)!r}, which this release does not know; upgrade perdure")
    return len(found)


def _check_key(row: ThreadRow, place: str) -> None:
    try:
        check_namespace(row.key.namespace)
        check_user(row.key.user)
        for name, value in {"the thread id": row.key.id, "the uid": row.uid, "a uid": row.parent_uid or "-"}.items():
            check_id(value, name)
    except ValueError as exc:
        raise NotAnExport(place, f"has an id that cannot be used ({exc})") from exc


def _is_consistent(copy: ThreadCopy) -> bool:
    """Whether the line fits the log; what the chain digests vouch for is checked with them."""
    row, changed = copy.row, [entry.version for entry in copy.entries if entry.changes_state]
    expected = changed[-1] if changed else row.state_version if copy.after else 0
    rides = all(copy.after < mark.entry <= row.head and 0 <= mark.version <= mark.entry for mark in copy.checkpoints)
    ends = copy.after == 0 or (copy.after == row.parent_version and row.parent_uid is not None)
    if row.parent_uid == row.uid:  # whoever followed its history would never come to an end
        return False
    return rides and ends and row.state_version == expected and 0 <= row.parent_version <= row.head


def _is_kept(value: Any) -> bool:
    """Whether databases can keep a value as it is: their numbers have 64 bits, their texts no NUL."""
    if value is None or isinstance(value, bytes):
        return True
    if isinstance(value, int):
        return -_INT <= value < _INT
    if isinstance(value, str):
        return "\0" not in value
    parts = value if isinstance(value, list | tuple) else (getattr(value, name) for name in value.__struct_fields__)
    return all(map(_is_kept, parts))


def _is_in_range(name: str, value: Any) -> bool:
    """Whether a time is one, and a counter leaves room for counting on."""
    most = MAX_MICROS if name in _TIMES else _MOST_COUNTED if name in _COUNTERS else None
    return most is None or value is None or 0 <= value <= most


def _claimed(payload: bytes) -> int:
    """How many bytes a packed payload says it has."""
    try:
        return zstd.get_frame_info(payload[3:]).decompressed_size or 0
    except zstd.ZstdError:
        return 0


def _unpacks(payload: bytes, allowance: Allowance) -> bool:
    claimed = _claimed(payload)
    return allowance.takes(claimed, len(payload)) and unpacked(memoryview(payload)[3:], claimed) is not None
