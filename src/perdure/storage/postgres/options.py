"""How a PostgreSQL is reached and used."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

import msgspec

from perdure.core.addresses import display_url
from perdure.core.errors import InvalidInputError
from perdure.storage.postgres.dialect import UserIdType, check_schema
from perdure.storage.sql.retrying import CALL_TIMEOUT, check_call_timeout

Password = Callable[[], str] | Callable[[], Awaitable[str]]
CONNECTING = 5  # seconds until a server that says nothing is given up
# A machine that is gone or a cable that was cut is noticed within half a minute, unless the address says otherwise. A
# server that hangs while its machine acknowledges is noticed by `call_timeout`.
_PATIENCE: dict[str, Any] = {
    "connect_timeout": CONNECTING,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 20_000,
}


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """Everything but the address."""

    schema: str = "perdure"
    user_id_type: UserIdType = "string"
    server_time: bool = True  # the server's clock counts; the caller's is for tests
    pool: Any = None  # a psycopg or asyncpg pool of the caller's
    close_pool: bool = False  # whether closing the storage closes that pool
    pool_min: int = 1
    pool_max: int = 8
    pool_timeout: float = 30.0  # how long a call waits for a free connection
    password: Password | None = None  # asked for every new connection
    prepare: bool = True  # False for a pooler that does not know prepared statements; found out by itself, too
    retry_seconds: float = 10.0  # how long a call waits for a server that went away
    call_timeout: float | None = CALL_TIMEOUT  # how long a call waits for an answer; None for ever


def check(options: Options) -> Options:
    """Return options that can be used; raise `InvalidInputError` otherwise."""
    check_schema(options.schema)
    check_call_timeout(options.call_timeout)
    if options.user_id_type not in ("string", "int", "bigint"):
        raise InvalidInputError(f'user_id_type must be "string", "int" or "bigint", not {options.user_id_type!r}')
    if not 0 <= options.pool_min <= options.pool_max or options.pool_max < 1:
        raise InvalidInputError(f"pool_min={options.pool_min} and pool_max={options.pool_max} do not fit together")
    for name, value in (("prepare", options.prepare), ("close_pool", options.close_pool)):
        if type(value) is not bool:
            raise InvalidInputError(f"{name} must be True or False, not {value!r}")
    if options.password is not None and not callable(options.password):
        raise InvalidInputError("password must be a function that returns the password")
    return options


def connection_arguments(url: str) -> dict[str, Any]:
    """What is added to the address for every connection."""
    named = urlsplit(url).query
    return {name: value for name, value in _PATIENCE.items() if f"{name}=" not in named}


def place_of(url: str, schema: str) -> str:
    """The address without its password, for people."""
    shown = display_url(url)
    return f"{shown.replace('///', '//(default host)/', 1)} (schema {schema})"
