"""Taking scalars beyond JSON apart and building them again.

Imported when the first such value is met: most states have none, and these modules are slow to import.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PosixPath, PurePath, PurePosixPath, PureWindowsPath, WindowsPath
from typing import Any, cast
from zoneinfo import ZoneInfo

import msgspec

from perdure.core import zoo

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode

_PATHS: dict[str, type[PurePath]] = {
    "posix": PosixPath, "windows": WindowsPath, "pure_posix": PurePosixPath, "pure_windows": PureWindowsPath,
}  # fmt: skip
_PATH_NAMES = {cls: name for name, cls in _PATHS.items()}
_ELSEWHERE = {"posix": PurePosixPath, "windows": PureWindowsPath}


class NotKept(Exception):
    """A scalar of a known type with a part that cannot be kept; the packer adds the path."""


def _zone(zone: tzinfo | None) -> Any:
    if zone is None:
        return None
    if type(zone) is timezone:
        offset = zone.utcoffset(None)
        name = zone.tzname(None)
        return [offset // timedelta(microseconds=1), None if timezone(offset).tzname(None) == name else name]
    if type(zone) is ZoneInfo and zone.key:
        return zone.key
    name = type(zone).__name__
    raise NotKept(f"a time zone of type {name} cannot be kept; use datetime.timezone or zoneinfo.ZoneInfo")


def _unzone(zone: Any) -> tzinfo | None:
    if zone is None:
        return None
    if isinstance(zone, str):
        return ZoneInfo(zone)
    offset = timedelta(microseconds=zone[0])
    return timezone(offset) if zone[1] is None else timezone(offset, zone[1])


def _pack_datetime(value: datetime) -> bytes:
    return _encode([value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)])


def _unpack_datetime(data: bytes) -> datetime:
    text, fold, zone = _decode(data)
    return datetime.fromisoformat(text).replace(tzinfo=_unzone(zone), fold=fold)


def _pack_time(value: time) -> bytes:
    return _encode([value.replace(tzinfo=None).isoformat(), value.fold, _zone(value.tzinfo)])


def _unpack_time(data: bytes) -> time:
    text, fold, zone = _decode(data)
    return time.fromisoformat(text).replace(tzinfo=_unzone(zone), fold=fold)


def _unpack_path(data: bytes) -> PurePath:
    name, text = _decode(data)
    cls = _PATHS[name]
    if issubclass(cls, Path) and not isinstance(Path(), cls):
        cls = _ELSEWHERE[name]  # a Windows path read on Linux: its pure form is the nearest truth
    return cls(text.decode("utf-8", "surrogatepass"))


def _ints(*values: int) -> bytes:
    return _encode([zoo.int_bytes(value) for value in values])


def _parts(data: bytes) -> list[int]:
    return [int.from_bytes(part, "big", signed=True) for part in _decode(data)]


def _pack_path(value: PurePath) -> bytes:
    return _encode([_PATH_NAMES[type(value)], zoo.text_bytes(str(value))])


PACK: dict[type, tuple[int, Callable[[Any], bytes]]] = {
    datetime: (zoo.DATETIME, _pack_datetime),
    date: (zoo.DATE, lambda value: value.isoformat().encode()),
    time: (zoo.TIME, _pack_time),
    timedelta: (zoo.TIMEDELTA, lambda value: zoo.int_bytes(value // timedelta(microseconds=1))),
    uuid.UUID: (zoo.UUID, lambda value: value.bytes),
    Decimal: (zoo.DECIMAL, lambda value: str(value).encode()),
    bytearray: (zoo.BYTEARRAY, bytes),
    Fraction: (zoo.FRACTION, lambda value: _ints(value.numerator, value.denominator)),
    complex: (zoo.COMPLEX, lambda value: _encode([value.real, value.imag])),
    range: (
        zoo.RANGE,
        lambda value: _encode([zoo.int_bytes(value.start), zoo.int_bytes(value.stop), zoo.int_bytes(value.step)]),
    ),
    **dict.fromkeys(_PATH_NAMES, (zoo.PATH, _pack_path)),
}

UNPACK: dict[int, Callable[[bytes], Any]] = {
    zoo.BIG_INT: lambda data: int.from_bytes(data, "big", signed=True),
    zoo.DATETIME: _unpack_datetime,
    zoo.DATE: lambda data: date.fromisoformat(data.decode()),
    zoo.TIME: _unpack_time,
    zoo.TIMEDELTA: lambda data: timedelta(microseconds=int.from_bytes(data, "big", signed=True)),
    zoo.UUID: lambda data: uuid.UUID(bytes=data),
    zoo.DECIMAL: lambda data: Decimal(data.decode()),
    zoo.BYTEARRAY: bytearray,
    zoo.PATH: _unpack_path,
    zoo.FRACTION: lambda data: Fraction(*_parts(data)),
    zoo.COMPLEX: lambda data: complex(*cast("list[float]", _decode(data))),
    zoo.RANGE: lambda data: range(*_parts(data)),
    zoo.TEXT: lambda data: data.decode("utf-8", "surrogatepass"),
}
