"""Storages on servers: PostgreSQL, MySQL, and Redis in front of any storage."""

from __future__ import annotations

from typing import Any

from perdure.core.errors import InvalidUrlError
from perdure.core.ports import Telemetry
from perdure.storage.baton import Baton
from perdure.storage.contract import Storage


def masked(url: str) -> str:
    """The address without what may be a password."""
    secret, at, rest = url.rpartition("@")
    return f"{secret.partition(':')[0]}://…@{rest}" if at else url


def check_address(url: str) -> None:
    """Raise `InvalidUrlError` for an address that cannot be one of a server."""
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as exc:
        raise InvalidUrlError(masked(url), f"its host or port cannot be read ({exc})") from exc
    if port == 0:
        raise InvalidUrlError(masked(url), "port 0 is no port")


def postgres(
    url: str, options: dict[str, Any], mode: str, own_clock: bool, baton: Baton | None, telemetry: Telemetry
) -> Storage:
    """The storage on PostgreSQL. A clock of the caller's counts instead of the server's."""
    from perdure.storage.postgres.options import Options
    from perdure.storage.postgres.store import PostgresStorage

    asked = Options(**options, server_time=not own_clock)
    return PostgresStorage(url, asked, mode=mode, baton=baton, telemetry=telemetry)  # type: ignore[arg-type]
