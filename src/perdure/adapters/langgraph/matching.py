"""Which items answer a search, in which order, and which namespaces a list: rules on plain values."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Mapping, Sequence
from operator import ge, gt, le, lt, mul
from typing import Any, TypeVar

from perdure.core.errors import InvalidInputError

T = TypeVar("T")
Scored = tuple[T, float | None]
_ORDER: dict[str, Callable[[Any, Any], bool]] = {"$gt": gt, "$gte": ge, "$lt": lt, "$lte": le}
_NO_NUMBER = (TypeError, ValueError, OverflowError)


def answers(value: Mapping[str, Any], filter: Mapping[str, Any] | None) -> bool:
    """Whether an item's value has what a filter names; a key that it has not is None."""
    return all(_fits(value.get(name), wanted) for name, wanted in (filter or {}).items())


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, dict):
        if any(str(name).startswith("$") for name in wanted):
            return all(_holds(value, name, other) for name, other in wanted.items())
        return isinstance(value, dict) and answers(value, wanted)
    if isinstance(wanted, list | tuple):
        return isinstance(value, list | tuple) and len(value) == len(wanted) and all(map(_fits, value, wanted))
    return bool(value == wanted)


def _holds(value: Any, operator: str, other: Any) -> bool:
    if operator in ("$eq", "$ne"):
        return bool(value == other) is (operator == "$eq")
    if operator not in _ORDER:
        raise InvalidInputError(f"a filter has no {operator!r}; use $eq, $ne, {', '.join(_ORDER)}")
    return _ordered(value, other, _ORDER[operator])


def _ordered(value: Any, other: Any, order: Callable[[Any, Any], bool]) -> bool:
    """As numbers, where both are; otherwise as what they are. What cannot be compared does not answer."""
    try:
        return order(float(value), float(other))
    except _NO_NUMBER:
        pass
    try:
        return bool(order(value, other))
    except TypeError:
        return False


def matches(labels: tuple[str, ...], kind: str, path: Sequence[str]) -> bool:
    """Whether a namespace begins ("prefix") or ends ("suffix") with labels, of which "*" is any."""
    if kind not in ("prefix", "suffix"):
        raise InvalidInputError(f"namespaces are matched by 'prefix' or 'suffix', not by {kind!r}")
    if len(labels) < len(path):
        return False
    part = labels[: len(path)] if kind == "prefix" else labels[len(labels) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))


def listed(found: Iterable[tuple[str, ...]], depth: int | None, offset: int, limit: int) -> list[tuple[str, ...]]:
    """Namespaces in order, each once, cut to a depth."""
    return sorted({labels[:depth] for labels in found})[offset : offset + limit]


def ranked(found: Sequence[tuple[T, Iterable[bytes]]], query: Sequence[float]) -> list[Scored[T]]:
    """Items by how close the nearest of their vectors is to a query, closest first; those without any come last.

    A vector of another length was made by another model: it says nothing.
    """
    size, length = 8 * len(query), _length(query)
    near: list[tuple[T, float]] = []
    rest: list[Scored[T]] = []
    for item, vectors in found:
        scores = [_cosine(query, length, each) for each in vectors if len(each) == size]
        if scores:
            near.append((item, max(scores)))
        else:
            rest.append((item, None))
    near.sort(key=lambda each: each[1], reverse=True)
    return [*near, *rest]


def packed(vector: Iterable[float]) -> bytes:
    """A vector as it is kept."""
    numbers = [float(each) for each in vector]
    return struct.pack(f"<{len(numbers)}d", *numbers)


def _cosine(query: Sequence[float], length: float, vector: bytes) -> float:
    other = struct.unpack(f"<{len(vector) // 8}d", vector)
    lengths = length * _length(other)
    return _dot(query, other) / lengths if lengths else 0.0


def _length(vector: Sequence[float]) -> float:
    return math.sqrt(_dot(vector, vector))


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return sum(map(mul, one, other))
