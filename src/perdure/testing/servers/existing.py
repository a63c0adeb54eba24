"""Servers that were there before the tests: databases are made in them under names of our own, and removed."""

from __future__ import annotations

import atexit
import os
import secrets
from abc import ABC, abstractmethod
from urllib.parse import quote, unquote, urlsplit

from perdure.testing.servers.mariadb import mysql_quoted, mysql_sql
from perdure.testing.servers.ports import LOOPBACK
from perdure.testing.servers.postgres import quoted


class Existing:
    """A server by its url."""

    def __init__(self, url: str, port: int) -> None:
        self.url = url
        self.host = urlsplit(url).hostname or LOOPBACK
        self.port = urlsplit(url).port or port


class ExistingDatabases(Existing, ABC):
    """A server of databases; what was made here goes when this process ends."""

    def __init__(self, url: str, port: int) -> None:
        super().__init__(url, port)
        self._prefix = f"perdure_{secrets.token_hex(4)}_"  # two test processes may share the server
        self._made: set[str] = set()
        self._owner = os.getpid()
        atexit.register(self._drop_all)

    @abstractmethod
    def _create(self, name: str) -> None: ...

    @abstractmethod
    def _drop(self, name: str) -> None: ...

    def database(self, name: str) -> str:
        """Make an empty database and return its url."""
        self._create(self._prefix + name)
        self._made.add(name)
        return urlsplit(self.url)._replace(path="/" + quote(self._prefix + name, safe="")).geturl()

    def drop(self, name: str) -> None:
        """Remove a database made here."""
        self._drop(self._prefix + name)
        self._made.discard(name)

    def _drop_all(self) -> None:
        if self._owner == os.getpid():
            for name in list(self._made):
                self.drop(name)


class ExistingPostgres(ExistingDatabases):
    """A PostgreSQL whose user may make databases."""

    def __init__(self, url: str) -> None:
        super().__init__(url, 5432)

    def _create(self, name: str) -> None:
        self._sql(f"CREATE DATABASE {quoted(name)}")

    def _drop(self, name: str) -> None:
        self._sql(f"DROP DATABASE {quoted(name)} WITH (FORCE)")

    def _sql(self, statement: str) -> None:
        # By the driver: where the server is elsewhere, psql is not here.
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement.encode())


class ExistingMysql(ExistingDatabases):
    """A MySQL or MariaDB whose user may make databases."""

    def __init__(self, url: str) -> None:
        super().__init__(url, 3306)
        parts = urlsplit(url)
        login = {"user": unquote(parts.username or "root"), "password": unquote(parts.password or "")}
        self._where = {"host": self.host, "port": self.port, **login}

    def _create(self, name: str) -> None:
        mysql_sql(self._where, f"CREATE DATABASE {mysql_quoted(name)}")

    def _drop(self, name: str) -> None:
        mysql_sql(self._where, f"DROP DATABASE {mysql_quoted(name)}")


class ExistingRedis(Existing):
    """A Redis; tests give their keys a prefix of their own."""

    def __init__(self, url: str) -> None:
        super().__init__(url, 6379)
