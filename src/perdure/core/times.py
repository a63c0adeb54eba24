"""Points in time: microseconds inside, aware UTC datetimes outside."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from perdure.core.errors import InvalidFilterError, InvalidInputError, short_repr

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_HOW = "; write datetime.now(UTC), datetime(2026, 11, 1, 12, tzinfo=UTC), or local.astimezone() for a local time"
MAX_MICROS = 253_402_300_799_999_999  # the end of the year 9999


def to_datetime(micros: int) -> datetime:
    """Turn stored microseconds into an aware datetime."""
    return _EPOCH + timedelta(microseconds=micros)


def to_micros(at: datetime) -> int:
    """Turn an aware datetime into microseconds."""
    return (at - _EPOCH) // _MICROSECOND


def moment(at: object, what: str, error: type[InvalidInputError] = InvalidFilterError) -> int:
    """A time that a caller names, in microseconds; raise an error for what is none, and for one without a time zone.

    A naive datetime is refused: whether it means UTC or the clock on somebody's wall, nobody can tell.
    """
    if not isinstance(at, datetime):
        raise error(f"{what} must be a datetime with a time zone, not {short_repr(at)}{_HOW}")
    try:
        is_naive = at.utcoffset() is None
        micros = 0 if is_naive else to_micros(at)
    except (OverflowError, ValueError, TypeError) as exc:  # at the ends of time, or a time zone of somebody's own
        raise error(f"{what} must be a datetime that can be written in UTC, not {short_repr(at)} ({exc})") from exc
    if is_naive:
        raise error(f"{what} must say its time zone, and {at!r} does not{_HOW}")
    return micros


def moment_or_none(at: object, what: str, error: type[InvalidInputError] = InvalidFilterError) -> int | None:
    """The same, where None is no condition."""
    return None if at is None else moment(at, what, error)
