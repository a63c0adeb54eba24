"""Exactly the same: type by type, bit by bit."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import dataclasses
import math
from collections import deque
from datetime import datetime, time
from typing import Any

from pydantic import BaseModel


def difference(given: Any, found: Any, path: str = "value") -> str | None:
    """Where and how `found` is another value than `given`, or nothing."""
    if type(given) is not type(found):
        return f"{path}: {_name(given)} came back as {_name(found)} {_short(found)}"
    if isinstance(given, dict):
        return _dicts(given, found, path)
    if isinstance(given, list | tuple | deque):
        return _sequences(given, found, path)
    if isinstance(given, BaseModel):
        return difference(_fields(given), _fields(found), path)
    if dataclasses.is_dataclass(given):
        return difference(vars_of(given), vars_of(found), path)
    return None if _equal(given, found) else f"{path}: {_short(given)} came back as {_short(found)}"


def vars_of(given: Any) -> dict[str, Any]:
    return {field.name: getattr(given, field.name) for field in dataclasses.fields(given)}


def _fields(given: BaseModel) -> dict[str, Any]:
    return {**given.__dict__, **(given.__pydantic_extra__ or {})}


def _dicts(given: dict[Any, Any], found: dict[Any, Any], path: str) -> str | None:
    if [(type(key), key) for key in given] != [(type(key), key) for key in found]:
        return f"{path}: keys {_short(list(given))} came back as {_short(list(found))}"
    return next((far for key in given if (far := difference(given[key], found[key], f"{path}[{key!r}]"))), None)


def _sequences(given: Any, found: Any, path: str) -> str | None:
    if len(given) != len(found):
        return f"{path}: {len(given)} items came back as {len(found)}"
    if isinstance(given, deque) and given.maxlen != found.maxlen:
        return f"{path}: maxlen {given.maxlen} came back as {found.maxlen}"
    pairs = enumerate(zip(given, found, strict=True))
    return next((far for at, (one, two) in pairs if (far := difference(one, two, f"{path}[{at}]"))), None)


def _equal(given: Any, found: Any) -> bool:
    if isinstance(given, float):
        return math.copysign(1, given) == math.copysign(1, found) and (
            given == found or (given != given and found != found)
        )
    if isinstance(given, complex):
        return _equal(given.real, found.real) and _equal(given.imag, found.imag)
    if isinstance(given, datetime | time):
        return given == found and _zone(given) == _zone(found) and given.fold == found.fold
    if isinstance(given, set | frozenset):
        return given == found and sorted(map(_name, given)) == sorted(map(_name, found))
    return bool(given == found) and repr(given) == repr(found)


def _zone(given: Any) -> Any:
    return type(given.tzinfo), getattr(given.tzinfo, "key", given.utcoffset())


def _name(given: Any) -> str:
    return type(given).__name__


def _short(given: Any) -> str:
    text = repr(given)
    return text if len(text) < 60 else f"{text[:57]}…"
