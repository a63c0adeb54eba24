"""The errors of MySQL, MariaDB and their drivers in our words."""

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


class TooLargeError(StorageFullError):
    """A write is larger than the server takes."""

    advice = "raise max_allowed_packet on the server"


class NothingFreeError(StorageBusyError):
    """All connections were lent for too long."""

    advice = "raise pool_max or pool_timeout"


class Missed(TryAgain):
    """A save did not find the line as it was known, or the time as it was told."""


_TAKEN = 1062
_BY_CODE: dict[int, type[PerdureError]] = {
    1048: Missed,  # an entry that got no place
    **dict.fromkeys((1020, 1205, 1213), TryAgain),  # changed since read, waited too long for a lock, deadlock
    # Too many connections, shutting down, killed, and what the drivers say of a connection that is not there.
    **dict.fromkeys((1040, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1226, 1927, 3169, 4031), ServerGone),
    **dict.fromkeys((0, 2002, 2003, 2005, 2006, 2013, 2014, 2027, 2055), ServerGone),
    # Nobody of this name, from there or with this password; no such database; only encrypted.
    **dict.fromkeys((1043, 1044, 1045, 1049, 1130, 1251, 1698, 1820, 1862), StorageUnavailableError),
    **dict.fromkeys((2026, 2059, 2061, 3118, 3159, 4151), StorageUnavailableError),
    **dict.fromkeys((1142, 1143, 1227, 1290, 1370, 1792, 1836, 3100), StorageReadOnlyError),
    **dict.fromkeys((1021, 1114, 1041), StorageFullError),
    **dict.fromkeys((1153, 2020), TooLargeError),
    **dict.fromkeys((1054, 1146), SchemaOutdatedError),
    **dict.fromkeys((1264, 1292, 1366, 1367, 1406), InvalidInputError),
    **dict.fromkeys((1317, 1969, 3024), StorageBusyError),
    **dict.fromkeys((_TAKEN, 1034, 1035, 1194, 1195, 1712, 1932), StorageDamagedError),
}
_HINTS = {
    1049: "create it first: CREATE DATABASE name CHARACTER SET utf8mb4",
    3159: "add ?ssl_mode=required to the address",
}
# Two made the same thing at once: the second finds it when it looks again. An id of a checkpoint is no such thing.
_RACES = ("name_key", "uid", "perdure_entry_key", "scope", "PRIMARY")
# What reading a row raises when its columns hold something else than they should.
_UNREADABLE = (KeyError, AttributeError, TypeError, ValueError, OverflowError, msgspec.MsgspecError)


def of_driver(place: str, exc: BaseException) -> BaseException:
    """An error of a driver, or from below it, in our words; any other as it is."""
    code, reason = _code(exc), _reason(exc)
    if code is None:
        return exc if isinstance(exc, PerdureError) or not _is_of_driver(exc) else ServerGone(place, reason)
    known: Any = _BY_CODE.get(code, StorageIOError)
    if code == _TAKEN and _key(reason) in _RACES:
        known = TryAgain
    told = f"{reason} ({code})" + (f"; {_HINTS[code]}" if code in _HINTS else "")
    return InvalidInputError(told) if known is InvalidInputError else known(place, told)


def of_connecting(place: str, exc: Exception) -> BaseException:
    """Why there is no connection."""
    if isinstance(exc, TimeoutError) and _code(exc) is None:
        return ServerGone(place, "the server does not answer")
    if isinstance(exc, RuntimeError) and "cryptography" in str(exc):  # what this way of logging in needs
        hint = "add ?ssl_mode=required to the address, or pip install 'PyMySQL[rsa]'"
        return StorageUnavailableError(place, f"{exc}; {hint}")
    return of_driver(place, exc)


def of_job(place: str, exc: Exception) -> BaseException:
    """An error out of a transaction: what is not ours comes from a row that cannot be read."""
    unreadable = isinstance(exc, _UNREADABLE) and not isinstance(exc, PerdureError)
    return StorageDamagedError(place, f"a row cannot be read ({exc!r})") if unreadable else exc


def cause(told: BaseException, exc: BaseException) -> BaseException | None:
    """What an error that is told came from."""
    return exc.__cause__ if told is exc else exc


def in_step(exc: BaseException) -> bool:
    """Whether client and server still agree about whose turn it is: the server refused a statement, and said so."""
    code = _code(exc)
    return code is not None and _BY_CODE.get(code) is not ServerGone and not 2000 <= code < 3000


def _is_of_driver(exc: BaseException) -> bool:
    module = type(exc).__module__.partition(".")[0]
    return module in ("pymysql", "asyncmy") or isinstance(exc, (OSError, EOFError))


def _code(exc: BaseException) -> int | None:
    """The number of a server's error; None for what has none."""
    has_code = _is_of_driver(exc) and not isinstance(exc, (OSError, EOFError))
    first = exc.args[0] if has_code and exc.args else None
    return first if isinstance(first, int) else None


def _reason(exc: BaseException) -> str:
    told = str(exc.args[1]) if len(exc.args) > 1 else str(exc)
    return told.strip() or type(exc).__name__


def _key(reason: str) -> str:
    """The key that a value was taken in; MySQL puts its table before it."""
    return reason.rpartition(" for key ")[2].strip("'").rpartition(".")[2]
