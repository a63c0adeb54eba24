"""Asking the tests' MariaDB directly."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote, urlsplit

import pymysql


def run_mysql(url: str, statement: str) -> list[tuple[Any, ...]]:
    with connected(url) as cursor:
        return asked(cursor, statement)


@contextmanager
def connected(url: str) -> Iterator[Any]:
    at = urlsplit(url)
    where: dict[str, Any] = {
        "host": at.hostname,
        "port": at.port,
        "user": at.username,
        "database": unquote(at.path[1:]),
    }
    with pymysql.connect(**where, autocommit=True) as connection, connection.cursor() as cursor:
        yield cursor


def asked(cursor: Any, statement: str) -> list[tuple[Any, ...]]:
    cursor.execute(statement)
    return list(cursor.fetchall())
