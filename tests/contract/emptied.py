"""Places whose layout stands already: making and dropping one took longer than most tests.

A test may have what another one left, emptied. Nobody can tell that from a fresh one, but by the numbers of its rows.
"""

from __future__ import annotations

import functools
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

from perdure.storage.contract import SCHEMA
from perdure.storage.sql.schema import TABLES
from perdure.testing.contract import Mode
from perdure.testing.servers import require, shared_mariadb
from tests.contract.backends import BACKENDS, Backend, behind_redis, mysql, postgres, postgres_url

USES = 50  # of one place: what was deleted is in the way of those who search until it is cleared away
_NUMBERS = ", ".join(f"('{name}', '{SCHEMA}')" for name in ("schema", "min_reader", "min_writer"))


class Emptied:
    """Places of one server, by their names."""

    def __init__(
        self, make: Callable[[str], object], run: Callable[[str], object], drop: Callable[[str], object]
    ) -> None:
        self._make, self._run, self._drop = make, run, drop
        self._free: list[str] = []
        self._uses: Counter[str] = Counter()
        self._numbers = count()

    def take(self) -> str:
        """One that is free, or a new one."""
        if self._free:
            return self._free.pop()
        name = f"emptied_{os.getpid()}_{next(self._numbers)}"
        self._make(name)
        return name

    def give_back(self, name: str, tables: str) -> None:
        """Empty it for the next one, or drop it when it is worn or was never set up."""
        self._uses[name] += 1
        try:
            self._empty(tables)
        except (psycopg.Error, pymysql.Error):
            self._uses[name] = USES
        if self._uses[name] < USES:
            self._free.append(name)
        else:
            self._drop(name)

    def _empty(self, tables: str) -> None:
        for table in TABLES:
            self._run(f"DELETE FROM {tables}{table}")
        self._run(f"INSERT INTO {tables}meta (name, value) VALUES {_NUMBERS}")


@functools.cache
def schemas() -> Emptied:
    run: Any = psycopg.connect(postgres_url(), autocommit=True).execute
    return Emptied(lambda name: None, run, lambda name: run(f"DROP SCHEMA IF EXISTS {name} CASCADE"))


@functools.cache
def databases() -> Emptied:
    server = shared_mariadb()
    at = urlsplit(server.url)
    where: dict[str, Any] = {"host": at.hostname, "port": at.port, "user": at.username, "ssl_disabled": True}
    return Emptied(server.database, pymysql.connect(**where, autocommit=True).cursor().execute, server.drop)


def _postgres(mode: Mode, folder: Path) -> Backend:
    name = require(schemas).take()
    return replace(postgres(mode, folder, name), clear=lambda: schemas().give_back(name, f"{name}."))


def _mysql(mode: Mode, folder: Path) -> Backend:
    name = require(databases).take()
    url = f"{shared_mariadb().url.rpartition('/')[0]}/{name}"
    return replace(mysql(mode, folder, url), clear=lambda: databases().give_back(name, f"{name}.perdure_"))


EMPTIED: dict[str, Callable[[Mode, Path], Backend]] = BACKENDS | {
    "postgres": _postgres,
    "mysql": _mysql,
    "hot_postgres": lambda mode, folder: behind_redis(_postgres(mode, folder), mode),
}
