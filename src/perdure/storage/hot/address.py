"""The address of Redis: `redis://user:password@host:6379/0`, `rediss://…` for TLS, `unix:///path/to/socket?db=0`.

Whatever the client would stumble over at every call is refused when the store is opened: later nobody would hear of it,
because Redis' trouble is never the caller's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import SplitResult, parse_qsl, unquote, urlencode, urlsplit

from perdure.core.errors import InvalidInputError

# What an address can say. The client takes more names, but as objects, or such that answers would not be bytes.
_NAMES = (
    "db", "username", "password", "client_name", "protocol", "max_connections", "socket_timeout",
    "socket_connect_timeout", "socket_keepalive", "socket_read_size", "retry_on_timeout", "health_check_interval",
)  # fmt: skip


def check_address(url: str) -> None:
    """Raise `InvalidInputError` for an address that cannot be read; it never shows a password."""
    try:
        parts = urlsplit(url)
        _ = parts.port  # read when it is asked for
    except (ValueError, TypeError, AttributeError):
        raise _unreadable() from None
    if parts.fragment:
        raise _unreadable()
    for name, _ in _parameters(parts):
        if name not in _NAMES and not name.startswith("ssl_"):
            raise _refused(parts, name, f"is not known there; known are {', '.join(_NAMES)}, and ssl_… with rediss://")
    _check_place(parts)


def unusable(url: str, make: Callable[[str], Any]) -> InvalidInputError:
    """Why `make` cannot make a client for an address: the parameter that it cannot use even alone, if there is one."""
    parts = urlsplit(url)
    for name, value in _parameters(parts):
        try:
            make(f"{parts.scheme}://?{urlencode({name: value})}")
        except Exception:  # whatever the client says may hold the value
            return _refused(parts, name, f"cannot be used with {parts.scheme}://, or not with this value; leave it out")
    return _unreadable()


def _check_place(parts: SplitResult) -> None:
    path = unquote(parts.path).strip("/")
    if parts.scheme == "unix" and not path:
        raise InvalidInputError("the hot layer's address names no socket; use unix:///path/to/socket?db=0")
    databases = (dict(_parameters(parts)).get("db", ""), "" if parts.scheme == "unix" else path)
    if not all(each.isascii() and each.isdigit() for each in databases if each):
        # It is not repeated: it may be a part of a password.
        raise InvalidInputError(
            "the database (db) in the hot layer's address must be a number, as in redis://host:6379/0; "
            "special characters of a password have to be percent-encoded"
        )


def _parameters(parts: SplitResult) -> list[tuple[str, str]]:
    return parse_qsl(parts.query, keep_blank_values=True)


def _refused(parts: SplitResult, name: str, why: str) -> InvalidInputError:
    # A password that was not quoted may hold any of / ? #: nothing that comes before an @ is repeated.
    if "@" in parts.path + parts.query:
        return _unreadable()
    return InvalidInputError(f"the parameter {name!r} of the hot layer's address {why}")


def _unreadable() -> InvalidInputError:
    # What exactly is wrong is not repeated: it may be a part of the password.
    return InvalidInputError(
        "the hot layer's address must look like redis://user:password@host:6379/0, "
        "with special characters of the password percent-encoded"
    )
