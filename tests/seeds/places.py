"""What the tests of promises ask of real servers, and processes of their own."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from redis import Redis

# Answers of Redis may take long here: a slow machine is not what is tested.
PATIENT = "socket_timeout=5&socket_connect_timeout=5"
IMPATIENT = "options=-c%20lock_timeout%3D5s"  # who waits for a lock that is held fails instead of hanging
TRIES = 3000


def rows(url: str, question: str) -> list[tuple[Any, ...]]:
    """What PostgreSQL answers."""
    with psycopg.connect(url) as connection:
        return connection.execute(question.encode()).fetchall()


@contextmanager
def locked(url: str, table: str, mode: str) -> Iterator[None]:
    """Somebody else holds a table of PostgreSQL."""
    with psycopg.connect(url) as connection:
        connection.execute(f"LOCK TABLE {table} IN {mode} MODE".encode())
        yield
        connection.rollback()


def threads_in(redis: Redis) -> set[str]:
    """The ids of the threads that lie in this database of Redis."""
    names: Any = redis.keys("perdure:*:tail:*")
    return {name.decode().rpartition(":")[2] for name in names}


def started(program: str, *arguments: str) -> subprocess.Popen[bytes]:
    """A process of its own that runs a program."""
    return subprocess.Popen([sys.executable, "-c", program, *arguments])


def eventually(holds: Callable[[], bool]) -> bool:
    """Whether it holds before long."""
    for _ in range(TRIES):
        if holds():
            return True
        time.sleep(0.01)
    return False
