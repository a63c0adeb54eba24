"""What an outage writes to stderr: nothing, unless the program set up logging."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from perdure.testing.servers import PostgresServer, require

# In a process of its own: pytest sets up logging, and stderr is its own.
OUTAGE = """
import asyncio, logging, sys
from perdure import Perdure, sync
from perdure.errors import StorageUnavailableError

url, mode, logs = sys.argv[1:]
if logs == "before":
    logging.basicConfig(level="WARNING")

def wait_for_outage():
    print("ready", flush=True)
    sys.stdin.readline()
    if logs == "after":
        logging.basicConfig(level="WARNING")

def in_place():
    with sync.Perdure.open(url, retry_seconds=2) as store:
        store.thread("t").append("a", 1)
        wait_for_outage()
        try:
            store.thread("t").append("a", 2)
        except StorageUnavailableError:
            print("told", flush=True)

async def on_loop():
    async with Perdure.open(url, retry_seconds=2) as store:
        await store.thread("t").append("a", 1)
        wait_for_outage()
        try:
            await store.thread("t").append("a", 2)
        except StorageUnavailableError:
            print("told", flush=True)

in_place() if mode == "sync" else asyncio.run(on_loop())
"""


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False)) as server:
        yield server


@pytest.mark.parametrize("logs", ["never", "before", "after"])
@pytest.mark.parametrize("mode", ["sync", "async"])
def test_an_outage_is_told_to_whoever_asked_to_be_told(server: PostgresServer, mode: str, logs: str) -> None:
    said, errors = _during_an_outage(server, mode, logs)
    assert said == "told\n"
    assert ("psycopg.pool" in errors) == (logs != "never")
    assert bool(errors) == (logs != "never")


def _during_an_outage(server: PostgresServer, mode: str, logs: str) -> tuple[str, str]:
    """What a program prints to stdout and stderr while the server is stopped."""
    words = [sys.executable, "-c", OUTAGE, server.database(f"{mode}_{logs}"), mode, logs]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, stderr=pipe, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        server.stop()
        try:
            return child.communicate("go\n")
        finally:
            server.start()
