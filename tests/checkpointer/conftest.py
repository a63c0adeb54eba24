"""Places for checkpointers: one database of each kind for all tests of a process, a namespace for each test."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from perdure.testing.clock import ManualClock
from perdure.testing.servers import require, shared_mariadb, shared_postgres, shared_redis
from perdure.testing.servers.shared import Databases
from tests.checkpointer.places import FACES, PATIENT, Face, Making


def _database(server: Databases) -> Iterator[str]:
    name = f"checkpointer_{os.getpid()}"
    yield server.database(name)
    server.drop(name)


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    yield from _database(require(shared_postgres))


@pytest.fixture(scope="session")
def mariadb() -> Iterator[str]:
    yield from _database(require(shared_mariadb))


@pytest.fixture(scope="session")
def redis() -> str:
    return f"{require(shared_redis).url}?{PATIENT}"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=FACES)
async def make(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Making]:
    """Makes checkpointers of each kind, for asynchronous or synchronous callers."""
    making = Making(request.param, tmp_path, request.getfixturevalue)
    yield making
    await making.close()


@pytest.fixture
def face(make: Making) -> Face:
    """A checkpointer of each kind."""
    return make()
