"""The plain value that an object of a subclass is kept as, where its class may be lost.

Only what equals the object is taken for it: a moment with nanoseconds or a number of extended precision is refused.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from datetime import date, datetime, time, timedelta
from typing import Any, Literal
from uuid import UUID

from perdure.core.errors import InvalidInputError

Subclasses = Literal["refuse", "plain"]
LOST: Any = object()  # there is no plain value that says the same


def check_subclasses(given: object) -> Subclasses:
    """What is to be done with objects of subclasses; raise `InvalidInputError` for any other word."""
    if given not in ("refuse", "plain"):
        raise InvalidInputError(f'subclasses must be "refuse" or "plain", not {given!r}')
    return given  # pyright: ignore[reportReturnType]


def plain_base(value: Any) -> Any:
    """What is kept of an object of a subclass, with parts that are still as they were; `LOST` where nothing is."""
    way = next((way for base, way in _WAYS if isinstance(value, base)), _of_numpy)
    try:
        return way(value)
    except (TypeError, ValueError, OverflowError):
        return LOST  # a NaT of pandas is a datetime without a date


# The methods of the base, never those of the subclass: `str(Color.RED)` says "Color.RED", and is not its value.
_WHOLE = slice(None)


def _date(value: date) -> Any:
    return _same(value, date(value.year, value.month, value.day))


def _datetime(value: datetime) -> Any:
    day, moment = (value.year, value.month, value.day), (value.hour, value.minute, value.second, value.microsecond)
    return _same(value, datetime(*day, *moment, tzinfo=value.tzinfo, fold=value.fold))


def _time(value: time) -> Any:
    moment = (value.hour, value.minute, value.second, value.microsecond)
    return _same(value, time(*moment, tzinfo=value.tzinfo, fold=value.fold))


def _timedelta(value: timedelta) -> Any:
    return _same(value, timedelta(value.days, value.seconds, value.microseconds))


def _same(value: Any, made: Any) -> Any:
    return made if made == value else LOST


def _of_numpy(value: Any) -> Any:
    """A scalar of NumPy that is no subclass, such as `numpy.int64`. NumPy is not imported for it."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(value, numpy.generic) or isinstance(value, numpy.datetime64 | numpy.timedelta64):
        return LOST
    made = value.item()
    return made if type(made) in (bool, int, float, complex, str, bytes) else LOST


_WAYS: tuple[tuple[type, Callable[[Any], Any]], ...] = (
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (complex, complex.__complex__),
    (bytes, bytes.__bytes__),
    (bytearray, lambda value: bytearray.__getitem__(value, _WHOLE)),
    (dict, dict),  # an OrderedDict keeps its order beside the dict that it is
    (list, list.copy),
    (tuple, lambda value: tuple.__getitem__(value, _WHOLE)),
    (set, lambda value: set(set.__iter__(value))),
    (frozenset, lambda value: frozenset(frozenset.__iter__(value))),
    (datetime, _datetime),
    (date, _date),
    (time, _time),
    (timedelta, _timedelta),
    (UUID, lambda value: UUID(int=value.int)),
)
