"""The checkpointers: one for each kind of storage. Making one neither connects nor fails; the first call does."""

from __future__ import annotations

import inspect
import os
from typing import Any

from perdure.app.options import BACKGROUND, SERVERS, UserIdType
from perdure.app.servers import Mode
from perdure.checkpointer.base import BaseCheckpointer
from perdure.core.errors import InvalidInputError, InvalidUrlError

_ANY = ("durability", *BACKGROUND)
_POSTGRES = ("pool_min", "prepare")


class InMemoryCheckpointer(BaseCheckpointer):
    """For tests and demos: nothing to set up, and everything is gone when it is released or the process ends."""

    _takes = ("user_id_type",)

    def __init__(self, **options: Any) -> None:
        super().__init__("memory://", **options)


class SQLiteCheckpointer(BaseCheckpointer):
    """One file: durable, for one machine. Redis in front is possible, and seldom worth it."""

    _takes = ("user_id_type", *_ANY)

    def __init__(
        self,
        path: str | os.PathLike[str] = "checkpoints.db",
        *,
        redis_url: str | None = None,
        cache_ttl: float | None = None,
        max_cached_threads: int | None = None,
        **options: Any,
    ) -> None:
        super().__init__(None, **options)
        self._options["hot"] = redis_url
        self._path = os.fspath(path)
        self._tuning = {"cache_ttl": cache_ttl, "max_cached_threads": max_cached_threads}

    def _address(self, mode: Mode) -> tuple[str, dict[str, Any]]:
        url = self._path if self._path.startswith("sqlite:") else f"sqlite:///{_quoted(self._path)}"
        return url, self._hot(self._tuning)


class PgCheckpointer(BaseCheckpointer):
    """PostgreSQL, with Redis in front where there is one: durable, for many machines.

    Without `postgres_dsn` the environment's `DATABASE_URL` counts, without `redis_url` its `CACHE_URL`, without
    `cache_ttl` its `CACHE_TTL`. A pool of your own (psycopg or asyncpg) is used as `pg_pool`, and closed by `arelease`
    only with `release_resources`; calls that it cannot serve, such as synchronous ones, go to `postgres_dsn` where that
    is given too. `schema` is where the tables are, `user_id_type` the type of their user column.
    """

    _takes = (*_ANY, *SERVERS, *_POSTGRES)

    def __init__(
        self,
        postgres_dsn: str | None = None,
        redis_url: str | None = None,
        *,
        cache_ttl: float | None = None,
        max_cached_threads: int | None = None,
        user_id_type: UserIdType | None = None,
        schema: str | None = None,
        pg_pool: Any = None,
        release_resources: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(None, **options)
        self._options |= {"hot": redis_url, "user_id_type": user_id_type, "schema": schema, "pool": pg_pool}
        if pg_pool is not None and release_resources:
            self._options["close_pool"] = True
        self._dsn = postgres_dsn
        self._tuning = {"cache_ttl": cache_ttl, "max_cached_threads": max_cached_threads}

    def _address(self, mode: Mode) -> tuple[str, dict[str, Any]]:
        pool, options = self._options["pool"], self._hot(self._tuning)
        if pool is not None and self._dsn:
            unread = ("password", "pool_min", "pool_max") if _serves(pool, mode) else ("pool", "close_pool")
            options = {name: value for name, value in options.items() if name not in unread}
        return _server(self._dsn, "postgresql", "postgres_dsn", pool), options


class MySQLCheckpointer(BaseCheckpointer):
    """MySQL or MariaDB, with Redis in front where there is one."""

    _takes = (*_ANY, *SERVERS)

    def __init__(
        self,
        mysql_dsn: str | None = None,
        redis_url: str | None = None,
        *,
        cache_ttl: float | None = None,
        max_cached_threads: int | None = None,
        user_id_type: UserIdType | None = None,
        **options: Any,
    ) -> None:
        super().__init__(None, **options)
        self._options |= {"hot": redis_url, "user_id_type": user_id_type}
        self._dsn = mysql_dsn
        self._tuning = {"cache_ttl": cache_ttl, "max_cached_threads": max_cached_threads}

    def _address(self, mode: Mode) -> tuple[str, dict[str, Any]]:
        return _server(self._dsn, "mysql", "mysql_dsn", None), self._hot(self._tuning)


def _serves(pool: Any, mode: Mode) -> bool:
    """Whether a pool is for callers of this kind."""
    is_asyncpg = type(pool).__module__.partition(".")[0] == "asyncpg"
    waits = is_asyncpg or inspect.iscoroutinefunction(getattr(pool, "getconn", None))
    return waits == (mode == "async")


def _server(dsn: str | None, scheme: str, option: str, pool: Any) -> str:
    url = dsn or os.environ.get("DATABASE_URL") or (f"{scheme}://pool" if pool is not None else None)
    if url is None:
        raise InvalidInputError(f"there is no database to connect to: give {option}, or set DATABASE_URL")
    known = {"postgresql": ("postgresql:", "postgres:"), "mysql": ("mysql:", "mariadb:")}
    if not url.startswith(known[scheme]):
        raise InvalidUrlError(url, f"{option} has to be a {scheme}:// address")
    return url


def _quoted(path: str) -> str:
    """A path inside an address: what has a meaning there is escaped."""
    return path.replace("%", "%25").replace("?", "%3F").replace("#", "%23")
