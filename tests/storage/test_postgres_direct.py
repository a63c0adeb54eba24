"""Statements that go around psycopg's cursor, once they were asked for often enough: the same answers and errors."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import psycopg
import pytest
from psycopg.errors import UniqueViolation

from perdure.storage.postgres.wires import AsyncPsycopgWire, Lender, PsycopgWire
from perdure.testing.proxy import FaultProxy
from perdure.testing.servers import PostgresServer, require

OFTEN = 5
ECHO = "SELECT $1::bigint, $2::text, $3::bytea, $4::boolean, $5::text"
VALUES = (-(2**63), "é\U0001f600", b"\0\xff", True, None)
COUNT = "SELECT count(*) FROM taken"
TAKE = "INSERT INTO taken (name) VALUES ($1) RETURNING name"
Open = Callable[..., Awaitable[Any]]


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresServer]:
    with require(lambda: PostgresServer(durable=False)) as server:
        server.sql("CREATE TABLE taken (name text PRIMARY KEY DEFERRABLE INITIALLY DEFERRED)")
        yield server


@pytest.fixture(params=["in place", "on a loop"])
async def opened(request: pytest.FixtureRequest, server: PostgresServer) -> AsyncIterator[Open]:
    """Opens connections of ours."""
    made: list[Any] = []

    async def wire(url: str | None = None, seconds: float | None = None) -> Any:
        address, lender = url or server.url, Lender(seconds, ours=True)
        if request.param == "in place":
            connection: Any = psycopg.connect(address, autocommit=True)
            made.append(PsycopgWire(connection, True, lender))
        else:
            connection = await psycopg.AsyncConnection.connect(address, autocommit=True)
            made.append(AsyncPsycopgWire(connection, True, lender))
        return made[-1]

    yield wire
    for each in made:
        await each.discard()


async def prepared(wire: Any) -> int:
    """How many statements the server has prepared for a connection."""
    return (await wire.rows("SELECT count(*) FROM pg_prepared_statements WHERE name LIKE 'perdure_%'"))[0][0]


async def test_the_answers_are_those_of_the_cursor(opened: Open) -> None:
    wire = await opened()
    answers = [await wire.rows(ECHO, VALUES) for _ in range(OFTEN)]
    assert answers == [[VALUES]] * OFTEN
    assert await prepared(wire) == 1


async def test_other_types_of_values_are_another_statement(opened: Open) -> None:
    wire = await opened()
    for value in (None, "a") * OFTEN:
        assert await wire.rows("SELECT $1::text", (value,)) == [(value,)]
    assert await prepared(wire) == 2


async def test_many_rows_and_none(opened: Open) -> None:
    wire = await opened()
    for count in (0, 5000) * OFTEN:
        expected = [(each, str(each)) for each in range(count)]
        assert await wire.rows("SELECT n, n::text FROM generate_series(0, $1 - 1) AS n", (count,)) == expected


async def test_values_larger_than_what_a_socket_takes_at_once(opened: Open) -> None:
    wire = await opened()
    for size in (1, 20_000_000) * OFTEN:
        body = bytes(size)
        assert await wire.rows("SELECT $1::bytea, length($1)", (body,)) == [(body, size)]


async def test_an_int_of_more_than_eight_bytes_goes_through_the_cursor(opened: Open) -> None:
    wire = await opened()
    for value in (1, 2**70) * OFTEN:
        assert await wire.rows("SELECT 5 < $1", (value,)) == [(value > 5,)]


async def test_a_statement_that_cannot_be_prepared_goes_through_the_cursor(opened: Open) -> None:
    wire = await opened()  # a number of eight bytes cannot be added to a date
    answers = [await wire.rows("SELECT (date '2026-11-01' + $1)::text", (day,)) for day in range(OFTEN)]
    assert answers == [[(f"2026-11-0{day + 1}",)] for day in range(OFTEN)]
    assert await prepared(wire) == 0


async def test_inside_a_transaction_nothing_is_prepared_but_before_the_next_one(opened: Open) -> None:
    wire = await opened()
    await wire.run("BEGIN")
    for _ in range(OFTEN):
        await wire.rows(ECHO, VALUES)
    assert await prepared(wire) == 0
    await wire.run("COMMIT")
    await wire.run("BEGIN")  # just before it
    assert await prepared(wire) == 1
    assert await wire.rows(ECHO, VALUES) == [VALUES]
    await wire.run("COMMIT")


async def test_a_rollback_lets_go_of_nothing_that_was_prepared(opened: Open) -> None:
    """psycopg would let go of all statements of a connection after one, if it had prepared any itself."""
    wire = await opened()
    for _ in range(3 * OFTEN):
        await wire.run("BEGIN")
        await wire.rows(ECHO, VALUES)
        await wire.run("ROLLBACK")
        assert await wire.rows(ECHO, VALUES) == [VALUES]
    assert await prepared(wire) == 1


async def test_a_refusal_inside_a_transaction_is_rolled_back_as_ever(opened: Open) -> None:
    wire = await opened()
    divide = "SELECT 10 / $1"
    for _ in range(OFTEN):
        await wire.rows(divide, (2,))
    await wire.run("BEGIN")
    with pytest.raises(psycopg.errors.DivisionByZero):
        await wire.rows(divide, (0,))
    await wire.run("ROLLBACK")
    assert await wire.rows(divide, (5,)) == [(2,)]


async def test_a_refusal_is_raised_with_its_reason_and_the_connection_goes_on(opened: Open) -> None:
    wire = await opened()
    divide = "SELECT 10 / $1"
    for _ in range(OFTEN):
        assert await wire.rows(divide, (2,)) == [(5,)]
    with pytest.raises(psycopg.errors.DivisionByZero):
        await wire.rows(divide, (0,))
    assert await wire.rows(divide, (5,)) == [(2,)]
    assert wire.is_idle()


async def test_a_commit_that_fails_after_the_answer_is_not_acknowledged(opened: Open) -> None:
    wire = await opened()
    await wire.run("DELETE FROM taken")
    for at in range(OFTEN):
        assert await wire.rows(TAKE, (f"{at}",)) == [(f"{at}",)]
    with pytest.raises(UniqueViolation):
        await wire.rows(TAKE, ("1",))
    assert await wire.rows(COUNT) == [(OFTEN,)]


async def test_a_server_that_says_nothing_is_not_waited_for(opened: Open, server: PostgresServer) -> None:
    with FaultProxy(server.port) as proxy:
        wire = await opened(server.url.replace(f":{server.port}/", f":{proxy.port}/"), 0.5)
        for _ in range(OFTEN):
            await wire.rows(ECHO, VALUES)
        proxy.half_open()
        began = time.monotonic()
        with pytest.raises(psycopg.OperationalError, match=r"no answer within 0\.5 s"):
            await wire.rows(ECHO, VALUES)
        assert 0.4 < time.monotonic() - began < 20
        assert not wire.is_idle()


async def test_a_connection_that_is_cut_is_an_error_of_the_connection(opened: Open, server: PostgresServer) -> None:
    wire = await opened()
    for _ in range(OFTEN):
        await wire.rows(ECHO, VALUES)
    server.sql(f"SELECT pg_terminate_backend({wire.connection.info.backend_pid})")
    with pytest.raises(psycopg.Error) as refused:
        await wire.rows(ECHO, VALUES)
    assert refused.value.sqlstate in (None, "57P01")


async def test_a_task_that_is_cancelled_leaves_a_connection_that_nobody_takes_for_idle(server: PostgresServer) -> None:
    connection: Any = await psycopg.AsyncConnection.connect(server.url, autocommit=True)
    wire = AsyncPsycopgWire(connection, True, Lender(None, ours=True))
    wait = "SELECT $1::bigint, pg_sleep($2::bigint)::text"
    for at in range(OFTEN):
        await wire.rows(wait, (at, 0))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(wire.rows(wait, (1, 5)), 0.2)
    assert not wire.is_idle()  # whoever lent it closes it
    await wire.discard()
