"""From a storage address to a storage."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.app.options import hint
from perdure.app.servers import (
    Asked,
    Opened,
    background_storage,
    check_address,
    hot_storage,
    mysql,
    postgres,
)
from perdure.core.addresses import redact_url
from perdure.core.errors import InvalidUrlError
from perdure.core.limits import DecodeLimits
from perdure.core.ports import Silence
from perdure.storage.bounded import BoundedStorage
from perdure.storage.contract import Storage

_SYNCHRONOUS = ("FULL", "NORMAL", "EXTRA")
_SCHEMES = ("memory", "file", "sqlite", "postgresql", "mysql")
_SERVERS = {"postgresql": postgres, "mysql": mysql}
_SQLITE_OPTIONS = ("synchronous", "busy_timeout")
_ALIASES = {"postgres": "postgresql", "mariadb": "mysql"}


class Address(msgspec.Struct, frozen=True):
    """A storage address, read."""

    url: str
    scheme: str
    path: str
    options: dict[str, str]

    def __repr__(self) -> str:
        """Without what may be a password."""
        return f"Address({redact_url(self.url)!r})"


def parse(url: object) -> Address:
    """Read `memory://`, `file:./folder`, `file:///abs/folder`, `sqlite:///name.db`, `sqlite:////abs/name.db`,
    `postgresql://user@host/database` or `mysql://user@host/database`.
    """
    if not isinstance(url, str):
        raise InvalidUrlError(type(url).__name__, "it is not a str")
    scheme, colon, rest = url.partition(":")
    scheme = _ALIASES.get(scheme, scheme)
    if not colon or scheme not in _SCHEMES:
        raise InvalidUrlError(url, _unknown_scheme(scheme if colon else ""))
    if scheme in _SERVERS:
        return _server_address(url, scheme, rest)
    body, _, query = rest.partition("?")
    return Address(url, scheme, _PATHS[scheme](url, body), _options(url, query))


def _server_address(url: str, scheme: str, rest: str) -> Address:
    if not rest.startswith("//"):
        raise InvalidUrlError(url, f"{scheme}:// and a host are needed")
    check_address(url)
    return Address(f"{scheme}:{rest}", scheme, "", {})


def _options(url: str, query: str) -> dict[str, str]:
    if not query:
        return {}
    pairs = [part.partition("=") for part in query.split("&")]
    if not all(name and equals for name, equals, _ in pairs):
        raise InvalidUrlError(url, "options look like name=value&name=value")
    return {_unquoted(name): _unquoted(value) for name, _, value in pairs}


def _unquoted(text: str) -> str:
    if "%" not in text:
        return text
    from urllib.parse import unquote

    return unquote(text)


def _unknown_scheme(scheme: str) -> str:
    if scheme in ("redis", "rediss"):
        return f"{scheme} is never the truth: give it as hot={scheme + '://…'!r} beside a storage"
    # Before the colon of something else than an address may stand a password.
    return f"unknown scheme {scheme!r}" + hint(scheme, _SCHEMES) if not scheme or scheme.isalnum() else "unknown scheme"


def _memory_path(url: str, body: str) -> str:
    if body not in ("", "//"):
        raise InvalidUrlError(url, "memory:// takes no path: it belongs to the object that opened it")
    return ""


def _file_path(url: str, body: str) -> str:
    path = _unquoted(body.removeprefix("//") if body.startswith("///") else body)
    if not path or "\0" in path or path.startswith("//"):
        raise InvalidUrlError(url, "it names no folder (file:./folder, or file:///abs/folder)")
    return path


def _sqlite_path(url: str, body: str) -> str:
    if not body.startswith("///") or len(body) == 3:
        raise InvalidUrlError(url, "three slashes and a file name are needed (four for an absolute path)")
    path = _unquoted(body[3:])
    if "\0" in path or path == ":memory:":
        raise InvalidUrlError(url, "it names no file; memory:// keeps nothing on disk")
    return path


_PATHS = {"memory": _memory_path, "file": _file_path, "sqlite": _sqlite_path}


def check_query(address: Address) -> None:
    """Raise `InvalidUrlError` for an option after `?` that a storage on this machine would not read."""
    if address.scheme not in _SERVERS:
        _refuse_unknown(address, _SQLITE_OPTIONS if address.scheme == "sqlite" else ())


def open_storage(address: Address, asked: Asked) -> Opened:
    """Choose and make the storage of an address, with Redis in front or a queue, where that is asked for."""
    storage = bounded(_storage(address, asked), asked.limits)
    hot = hot_storage(storage, asked) if "hot" in asked.options else None
    if not asked.in_background:
        return Opened(hot or storage, hot, None)
    background = background_storage(hot or storage, asked)
    return Opened(background, hot, background)


def bounded(storage: Storage, limits: DecodeLimits) -> Storage:
    """The same storage with these limits of decoding."""
    inner = storage.inner if isinstance(storage, BoundedStorage) else storage
    return cast("Storage", BoundedStorage(inner, limits))  # it passes on all that it does not define


def plain_storage(address: Address, options: dict[str, Any]) -> Storage:
    """A storage for synchronous callers, on the system's clock and without anybody listening."""
    clock, randomness = SystemClock(), SystemRandomness()
    asked = Asked(mode="sync", options=options, clock=clock, randomness=randomness, telemetry=Silence())
    return open_storage(address, asked).storage


def _storage(address: Address, asked: Asked) -> Storage:
    if address.scheme in _SERVERS:
        return _SERVERS[address.scheme](address.url, asked)
    if address.scheme == "sqlite":
        return _sqlite(address, asked)
    _refuse_unknown(address, ())
    if address.scheme == "file":
        return _file(address, asked)
    from perdure.storage.memory import MemoryStorage

    return MemoryStorage(telemetry=asked.telemetry)


def _sqlite(address: Address, asked: Asked) -> Storage:
    from perdure.storage.sqlite.store import SqliteStorage

    _refuse_unknown(address, _SQLITE_OPTIONS)
    synchronous = address.options.get("synchronous", "FULL").upper()
    if synchronous not in _SYNCHRONOUS:
        raise InvalidUrlError(address.url, f"synchronous={synchronous} is none of {', '.join(_SYNCHRONOUS)}")
    return SqliteStorage(
        os.path.abspath(address.path),  # now: a later chdir must not move it
        mode=asked.mode,
        busy_timeout=_seconds(address, "busy_timeout", 5.0),
        synchronous=synchronous,  # type: ignore[arg-type]
        file_mode=asked.file_mode,
        telemetry=asked.telemetry,
    )


def _file(address: Address, asked: Asked) -> Storage:
    from perdure.storage.file.disk import RealDisk
    from perdure.storage.file.store import FileStorage
    from perdure.storage.ports import InPlace, Worker

    port = InPlace(address.path) if asked.mode == "sync" else Worker(address.path)
    return FileStorage(address.path, port=port, disk=RealDisk(asked.file_mode), telemetry=asked.telemetry)


def files_of(address: Address) -> list[str]:
    """What on this machine says by its mode who may read a storage; [] for one that has no files."""
    if address.scheme == "sqlite":
        from perdure.storage.sqlite.store import files_of

        return files_of(os.path.abspath(address.path))
    if address.scheme == "file":
        from perdure.storage.file.layout import files_of

        return files_of(os.path.abspath(address.path))
    return []


def _seconds(address: Address, name: str, default: float) -> float:
    text = address.options.get(name)
    try:
        value = default if text is None else float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value <= 3600:
        raise InvalidUrlError(address.url, f"{name}={text} is not a number of seconds from 0 to 3600")
    return value


def _refuse_unknown(address: Address, known: tuple[str, ...]) -> None:
    unknown: Mapping[str, str] = {name: value for name, value in address.options.items() if name not in known}
    for name in unknown:
        raise InvalidUrlError(address.url, f"unknown option {name!r}{hint(name, known)}")
