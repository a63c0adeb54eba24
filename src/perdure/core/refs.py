"""Refs: how a person names a point of a thread."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import msgspec

from perdure.core.errors import InvalidRefError
from perdure.core.times import to_micros

_AGO = re.compile(r"(\d{1,6})(s|m|h|d|w)")
_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_DATE = 10  # characters of 2026-11-01
_NUMBER = re.compile(r"-?\d{1,18}")


class AtVersion(msgspec.Struct, frozen=True):
    """`@12`: exactly this version."""

    version: int


class Back(msgspec.Struct, frozen=True):
    """`@-1`: the newest version that changed the state; `@-2`: the one before it."""

    steps: int


class AtCheckpoint(msgspec.Struct, frozen=True):
    """`@chk_…`."""

    id: str


class AtTag(msgspec.Struct, frozen=True):
    """`@tag:name`."""

    name: str


class AtTime(msgspec.Struct, frozen=True):
    """`@2026-11-01T12:00Z`: the newest version up to this time."""

    micros: int


class Ago(msgspec.Struct, frozen=True):
    """`@2h`: the newest version up to that long ago."""

    micros: int


class BeforeError(msgspec.Struct, frozen=True):
    """`@before-error`: the newest checkpoint, else version, before the newest failure."""


Ref = AtVersion | Back | AtCheckpoint | AtTag | AtTime | Ago | BeforeError


def parse(text: object) -> Ref:
    """Read a ref, with or without its `@`; an int is a version. Raises `InvalidRefError`."""
    if type(text) is int and abs(text) < 1 << 62:
        return AtVersion(text) if text >= 0 else Back(-text)
    if not isinstance(text, str):
        raise InvalidRefError(text)
    name = text.removeprefix("@")
    for read in (_number, _named, _ago, _time):
        ref = read(name)
        if ref is not None:
            return ref
    raise InvalidRefError(text)


def split(text: str) -> tuple[str, Ref | None]:
    """Split `thread@ref` at its last `@`, only if what follows is a ref: ids may have `@` in them."""
    thread, at, ref = text.rpartition("@")
    if not at or not thread:
        return text, None
    try:
        return thread, parse(ref)
    except InvalidRefError as exc:
        if exc.reason and len(ref) > _DATE:  # a time, and no id looks like that; a date may end one
            raise
        return text, None


def _number(name: str) -> Ref | None:
    if not _NUMBER.fullmatch(name) or not name.isascii():
        return None
    number = int(name)
    return Back(-number) if name.startswith("-") and number else None if name.startswith("-") else AtVersion(number)


def _named(name: str) -> Ref | None:
    if name.startswith("chk_") and name[4:].isalnum():
        return AtCheckpoint(name)
    if name.startswith("tag:") and len(name) > 4:
        return AtTag(name[4:])
    return BeforeError() if name == "before-error" else None


def _ago(name: str) -> Ref | None:
    match = _AGO.fullmatch(name) if name.isascii() else None
    if match is None:
        return None
    return Ago(timedelta(**{_UNITS[match[2]]: int(match[1])}) // timedelta(microseconds=1))


def _time(name: str) -> Ref | None:
    try:
        at = datetime.fromisoformat(name) if "-" in name else None
    except ValueError:
        return None
    if at is not None and at.tzinfo is None:
        raise InvalidRefError(name, f"does not say its time zone; write @{at.isoformat()}Z for UTC")
    return None if at is None else AtTime(to_micros(at))
