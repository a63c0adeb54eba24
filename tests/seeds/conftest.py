"""Real places for the tests of promises."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from redis import Redis

from perdure.testing.servers import RedisServer, require, shared_mariadb, shared_postgres
from perdure.testing.servers.shared import Databases
from tests.seeds.places import PATIENT

_NUMBERS = itertools.count()


def _emptied(server: Databases) -> Iterator[str]:
    name = f"seeds_{os.getpid()}_{next(_NUMBERS)}"
    yield server.database(name)
    server.drop(name)


@pytest.fixture
def postgres() -> Iterator[str]:
    """The address of an empty database."""
    yield from _emptied(require(shared_postgres))


@pytest.fixture
def mariadb() -> Iterator[str]:
    yield from _emptied(require(shared_mariadb))


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty database, in a file and on a server."""
    return f"sqlite:///{tmp_path}/agents.db" if request.param == "sqlite" else request.getfixturevalue(request.param)


@pytest.fixture(params=["file", "sqlite", "postgres", "mariadb"])
def anywhere(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The address of an empty place that outlives its process."""
    local = {"file": f"file://{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/agents.db"}
    return local.get(request.param) or request.getfixturevalue(request.param)


@pytest.fixture(scope="session")
def _redis_server() -> Iterator[RedisServer]:
    with require(lambda: RedisServer(durable=False)) as server:
        yield server


@pytest.fixture
def redis_server(_redis_server: RedisServer) -> RedisServer:
    """A Redis of the test's own; it may be killed."""
    return _redis_server.start()


@pytest.fixture
def redis(redis_server: RedisServer) -> Iterator[Redis]:
    """An empty Redis, looked at directly."""
    with Redis.from_url(redis_server.url) as redis:
        redis.flushall()
        yield redis


@pytest.fixture
def hot(redis_server: RedisServer, redis: Redis) -> str:
    """The address of that Redis."""
    return f"{redis_server.url}?{PATIENT}"
