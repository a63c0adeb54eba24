"""A server that crashes under its writers loses nothing it acknowledged, and the writers go on by themselves."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from perdure import sync
from perdure.testing.servers import MariadbServer, PostgresServer, Server, require, shared_postgres
from tests.crash.outage_journal import DONE, UNKNOWN, Line
from tests.crash.outage_verify import Verdict, verify
from tests.crash.outage_writers import LEASED
from tests.crash.outages import is_built

ROOT = Path(__file__).parents[2]
SERVERS: dict[str, Callable[[], Server]] = {"postgres": PostgresServer, "mysql": MariadbServer}
CRASHES = "4"  # `make crash BACKEND=…` has a hundred


@pytest.mark.parametrize("backend", [name for name in SERVERS if is_built(name)])
def test_crashes_of_the_server_lose_nothing_acknowledged_and_double_nothing(backend: str) -> None:
    require(SERVERS[backend])
    words = ["--backend", backend, "--crashes", CRASHES, "--seed", "7", "--patient"]
    command = [sys.executable, "-m", "tests.crash.outage_campaign", *words]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    print(run.stdout)
    assert (run.returncode, run.stderr) == (0, ""), run.stdout


@pytest.fixture
def url() -> str:
    return require(shared_postgres).database(f"journal_{time.monotonic_ns()}")


def test_the_campaign_is_content_with_what_is_right(url: str) -> None:
    assert verify(url, {"w0": _three_appends(url)}) == Verdict()


def test_the_campaign_notices_a_lost_write(url: str) -> None:
    lines = [*_three_appends(url), Line(4, "append", "own w0 0", "w0.4", outcome=DONE, version=4)]
    assert verify(url, {"w0": lines}).lost == 1


def test_the_campaign_forgives_an_absent_write_that_nobody_acknowledged(url: str) -> None:
    lines = [*_three_appends(url), Line(4, "append", "own w0 0", "w0.4", outcome=UNKNOWN)]
    assert verify(url, {"w0": lines}) == Verdict()


def test_the_campaign_notices_a_write_made_twice(url: str) -> None:
    lines = _three_appends(url)
    with sync.Perdure.open(url) as store:
        store.thread("own w0 0", user="crash").append("tokens", "w0.3")
    assert verify(url, {"w0": lines}).duplicates == 1


def test_the_campaign_notices_a_broken_chain(url: str) -> None:
    lines = _three_appends(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE perdure.entry SET at = at + 1 WHERE idem_key = 'w0.2'")
    assert verify(url, {"w0": lines}).half >= 1


def test_the_campaign_notices_an_epoch_that_nobody_was_given(url: str) -> None:
    lines = _three_appends(url)
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("UPDATE perdure.thread SET epoch = 1")
    assert verify(url, {"w0": lines}).answers == 1


def _three_appends(url: str) -> list[Line]:
    lines: list[Line] = []
    with sync.Perdure.open(url) as store:
        store.thread(LEASED, user="crash").append("tokens", "made")
        for number in (1, 2, 3):
            token = f"w0.{number}"
            version = store.thread("own w0 0", user="crash").append("tokens", token, key=token)
            lines.append(Line(number, "append", "own w0 0", token, keyed=True, outcome=DONE, version=version))
    return lines
