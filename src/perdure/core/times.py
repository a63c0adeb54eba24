"""Points in time: microseconds inside, aware UTC datetimes outside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
MAX_MICROS = 253_402_300_799_999_999  # the end of the year 9999


def to_datetime(micros: int) -> datetime:
    """Turn stored microseconds into an aware datetime."""
    return _EPOCH + timedelta(microseconds=micros)


def to_micros(at: datetime) -> int:
    """Turn a datetime into microseconds; a naive one is taken as UTC."""
    aware = at if at.tzinfo else at.replace(tzinfo=UTC)
    return (aware - _EPOCH) // _MICROSECOND
