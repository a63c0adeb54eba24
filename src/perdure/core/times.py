"""Points in time: microseconds inside, aware UTC datetimes outside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.core.errors import InvalidFilterError

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


def moment(at: object, what: str) -> int | None:
    """A time that somebody asks for, as storages keep it; raise `InvalidFilterError` for what is none."""
    if at is None or isinstance(at, datetime):
        return None if at is None else to_micros(at)
    raise InvalidFilterError(f"{what} must be a datetime, not {at!r}")
