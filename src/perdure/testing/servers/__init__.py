"""Real servers that tests start themselves: PostgreSQL, MariaDB, Redis, PgBouncer.

Each lives on a free loopback port with its data in a folder, and ends with the tests, however they end. No driver is
needed but PyMySQL, to make databases in MariaDB.
"""

from __future__ import annotations

from perdure.testing.servers.binaries import ServerMissing
from perdure.testing.servers.mariadb import MariadbServer
from perdure.testing.servers.pgbouncer import PgBouncer
from perdure.testing.servers.postgres import PostgresServer
from perdure.testing.servers.redis import RedisServer
from perdure.testing.servers.server import Server, ServerFailed
from perdure.testing.servers.shared import require, shared_mariadb, shared_postgres, shared_redis

__all__ = [
    "MariadbServer",
    "PgBouncer",
    "PostgresServer",
    "RedisServer",
    "Server",
    "ServerFailed",
    "ServerMissing",
    "require",
    "shared_mariadb",
    "shared_postgres",
    "shared_redis",
]
