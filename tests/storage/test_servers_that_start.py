"""A store may be opened while its server starts: `retry_seconds` counts for opening, too."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perdure import Perdure, sync
from perdure.core.errors import StorageUnavailableError
from perdure.testing.servers import MariadbServer, PostgresServer, require
from tests.faults.hanging import Heard

MAKES: dict[str, Callable[[], Any]] = {"postgres": PostgresServer, "mariadb": MariadbServer}
AWAY = "the server is away, trying again"
LATE = 1.5  # seconds until the server is started
PATIENCE = 60


@pytest.fixture(scope="module", params=MAKES)
def server(request: pytest.FixtureRequest) -> Iterator[Any]:
    with require(MAKES[request.param]) as server:
        yield server


def opened(mode: str, url: str, **options: Any) -> int:
    """Open a store, write once, and return the version."""
    if mode == "sync":
        with sync.Perdure.open(url, **options) as store:
            return store.thread("t").append("a", 1)

    async def on_a_loop() -> int:
        async with Perdure.open(url, **options) as store:
            return await store.thread("t").append("a", 1)

    return asyncio.run(on_a_loop())


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_opening_waits_for_a_server_that_starts(server: Any, mode: str) -> None:
    url = server.database(f"starting_{mode}")
    server.stop()
    starting = threading.Timer(LATE, server.start)
    starting.start()
    try:
        assert opened(mode, url, retry_seconds=PATIENCE) == 1
    finally:
        starting.join()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_server_that_does_not_come_is_told_after_that_time(server: Any, mode: str) -> None:
    url = server.database(f"away_{mode}")
    server.stop()
    began = time.monotonic()
    try:
        with pytest.raises(StorageUnavailableError):
            opened(mode, url, retry_seconds=2)
        assert time.monotonic() - began > 1
    finally:
        server.start()


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("wrong", ["database", "user"])
def test_what_the_server_will_never_admit_is_told_at_once(server: Any, mode: str, wrong: str) -> None:
    if wrong == "database":
        url = f"{server.database(f'known_{mode}')}_gone"
    else:
        scheme, _, rest = server.database(f"user_{mode}").partition("://")
        url = f"{scheme}://nobody:hunter2@{rest.rpartition('@')[2]}"
    heard = Heard()
    with pytest.raises(StorageUnavailableError) as caught:
        opened(mode, url, retry_seconds=PATIENCE, telemetry=heard)
    assert "hunter2" not in str(caught.value)
    assert AWAY not in [each[1] for each in heard.logged]
