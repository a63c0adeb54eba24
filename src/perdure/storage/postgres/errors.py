"""PostgreSQL's errors in our words, whichever driver raised them."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.errors import (
    InvalidInputError,
    PerdureError,
    SchemaOutdatedError,
    StorageBusyError,
    StorageDamagedError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
    StorageUnavailableError,
)
from perdure.storage.sql.transactions import ServerGone, TryAgain

# By code or by the first letters of one; the longest that fits counts.
_BY_STATE: dict[str, type[PerdureError]] = {
    "08": ServerGone,
    "0A000": TryAgain,  # the layout changed under a prepared statement
    "22": InvalidInputError,
    "23": StorageDamagedError,
    "25006": StorageReadOnlyError,
    "26000": TryAgain,  # a prepared statement that a pooler does not know
    "28": StorageUnavailableError,
    "3D": StorageUnavailableError,
    "40": TryAgain,
    "42501": StorageReadOnlyError,
    "42P01": SchemaOutdatedError,
    "42P05": TryAgain,  # … or knows twice
    "53": StorageBusyError,
    "53100": StorageFullError,
    "53300": ServerGone,
    "54": StorageFullError,
    "55P03": TryAgain,
    "57014": StorageBusyError,
    "57P": ServerGone,
    "58": StorageIOError,
    "XX": StorageIOError,
    "XX001": StorageDamagedError,
    "XX002": StorageDamagedError,
}
# Two made the same thing at once: the second finds it when it looks again.
_RACES = ("thread_name_key_key", "thread_uid_key", "entry_key", "entry_pkey", "meta_pkey", "blob_scope_digest_key")
UNPREPARED = ("26000", "42P05")  # what a pooler in transaction mode makes of prepared statements
# What a server says to those whom it will never let in. libpq gives no code for it; a server that speaks another
# language is asked again, as one that starts.
_REFUSALS = (
    *("authentication failed", "no password supplied", "does not exist", "not permitted to log in"),
    *("pg_hba.conf", "does not support SSL", "certificate", "permission denied"),
)
# What reading a row raises when its columns hold something else than they should.
_UNREADABLE = (KeyError, AttributeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError)


def is_of_driver(exc: BaseException) -> bool:
    """Whether an error comes from a driver or from below it."""
    module = type(exc).__module__.partition(".")[0]
    return module in ("psycopg", "psycopg_pool", "asyncpg") or isinstance(exc, (OSError, EOFError))


def translated(place: str, exc: BaseException) -> BaseException:
    """The error for callers."""
    if isinstance(exc, PerdureError):
        return exc
    if is_of_driver(exc):
        return _of_driver(place, exc)
    if isinstance(exc, _UNREADABLE):
        return StorageDamagedError(place, f"a row cannot be read ({exc!r})")
    return exc


def _of_driver(place: str, exc: BaseException) -> PerdureError:
    state = sqlstate(exc)
    reason = words(exc) + (f" ({state})" if state else "")
    if state is None:
        return InvalidInputError(reason) if _refused_by_driver(exc) else ServerGone(place, reason)
    if state == "23505" and _constraint(exc) in _RACES:
        return TryAgain(place, reason)
    known = next((_BY_STATE[state[:size]] for size in (5, 3, 2) if state[:size] in _BY_STATE), StorageIOError)
    return InvalidInputError(reason) if known is InvalidInputError else _raised(known, place, reason)


def refuses_login(exc: BaseException) -> bool:
    """Whether a server that is up answered that it lets us in neither now nor later: waiting for it is in vain."""
    return is_of_driver(exc) and sqlstate(exc) is None and any(each in str(exc) for each in _REFUSALS)


def words(exc: BaseException) -> str:
    """What an error says, on one line."""
    return " ".join(str(exc).split()) or type(exc).__name__


def _raised(kind: Any, place: str, reason: str) -> PerdureError:
    return kind(place, reason)


def sqlstate(exc: BaseException) -> str | None:
    """The code of a server's error; None for what the driver found out by itself."""
    state = getattr(exc, "sqlstate", None)
    return state if isinstance(state, str) else None


def _constraint(exc: Any) -> str | None:
    diagnosis = getattr(exc, "diag", None)
    return diagnosis.constraint_name if diagnosis is not None else getattr(exc, "constraint_name", None)


def _refused_by_driver(exc: BaseException) -> bool:
    """A value that no driver can send, such as a NUL in a text."""
    return type(exc).__name__ in ("DataError", "ProgrammingError", "NotSupportedError")
