"""One server of each kind per test process, started at first use and ended with it; or one that is there already.

`PERDURE_TEST_POSTGRES`, `PERDURE_TEST_MYSQL` and `PERDURE_TEST_REDIS` name existing servers by their urls. Those are
never stopped, and what tests make in them is removed at the end.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Protocol, TypeVar

from perdure.testing.servers.binaries import ServerMissing
from perdure.testing.servers.existing import ExistingMysql, ExistingPostgres, ExistingRedis
from perdure.testing.servers.mariadb import MariadbServer
from perdure.testing.servers.postgres import PostgresServer
from perdure.testing.servers.redis import RedisServer

Made = TypeVar("Made")


class Reachable(Protocol):
    """A server, ours or not."""

    @property
    def url(self) -> str: ...
    @property
    def host(self) -> str: ...
    @property
    def port(self) -> int: ...


class Databases(Reachable, Protocol):
    """A server of databases, ours or not."""

    def database(self, name: str) -> str:
        """Make an empty database and return its url."""
        ...

    def drop(self, name: str) -> None:
        """Remove a database."""
        ...


@functools.cache
def shared_postgres() -> Databases:
    """The PostgreSQL of this process, quick and not durable. Raises `ServerMissing`."""
    url = os.environ.get("PERDURE_TEST_POSTGRES")
    return ExistingPostgres(url) if url else PostgresServer(durable=False).start()


@functools.cache
def shared_mariadb() -> Databases:
    """The MariaDB of this process, quick and not durable. Raises `ServerMissing`."""
    url = os.environ.get("PERDURE_TEST_MYSQL")
    return ExistingMysql(url) if url else MariadbServer(durable=False).start()


@functools.cache
def shared_redis() -> Reachable:
    """The Redis of this process, quick and not durable. Raises `ServerMissing`."""
    url = os.environ.get("PERDURE_TEST_REDIS")
    return ExistingRedis(url) if url else RedisServer(durable=False).start()


def require(make: Callable[[], Made]) -> Made:
    """What `make` returns; if its server is missing, skip the test, or with `PERDURE_TEST_ALL=1` fail it."""
    try:
        return make()
    except ServerMissing as missing:
        if os.environ.get("PERDURE_TEST_ALL") == "1":  # a skip is not a pass
            raise
        import pytest

        pytest.skip(str(missing))
