"""Statements that are run without psycopg's cursor: bound, sent and read by a few calls of libpq.

The cursor takes a seventh of the time of a short statement for itself, and twice that on an event loop. What is asked
for again and again on one of our connections is prepared there, and goes this way from then on. Anything unusual goes
through the cursor: the first times, values of other types, a statement that cannot be prepared, a transaction.
"""

from __future__ import annotations

import select
from struct import Struct
from struct import error as struct_error
from typing import Any

from perdure.storage.ports import stirred
from perdure.storage.postgres.naming import number_apart
from perdure.storage.sql.retrying import no_answer
from perdure.storage.sql.rows import Row

_OFTEN = 3  # times that a statement goes through the cursor
_MOST = 200  # statements of a connection
_BINARY = 1
_GOOD = (1, 2)  # libpq's PGRES_COMMAND_OK and PGRES_TUPLES_OK
_int8 = Struct("!q")
_WORDS: dict[type, str] = {int: "bigint", str: "text", bytes: "bytea", bool: "boolean", type(None): "unknown"}
_BOUND: dict[type, Any] = {int: _int8.pack, str: str.encode, bool: lambda value: b"\1" if value else b"\0"}
Kinds = tuple[type, ...]
Ready = tuple[bytes, list[bytes | None]]


class Direct:
    """The statements that one connection of psycopg has prepared, and the way to run them."""

    def __init__(self, libpq: Any) -> None:
        from psycopg.adapt import Transformer

        self._libpq = libpq
        self._reading = Transformer()
        self._names: dict[tuple[str, Kinds], bytes] = {}
        self._asked: dict[tuple[str, Kinds], int] = {}
        self._prefix = f"perdure_{number_apart(libpq):x}_"
        self._results: list[Any] = []
        self._poll = select.poll()
        self._poll.register(libpq.socket, select.POLLIN)

    def ready(self, sql: str, values: Row) -> Ready | None:
        """A statement that was prepared, with its values; None where it has to go through the cursor."""
        name = self._names.get((sql, tuple(map(type, values))))
        if name is None:
            return None
        try:
            return name, [_BOUND[type(value)](value) if type(value) in _BOUND else value for value in values]
        except struct_error:  # an int of more than eight bytes
            return None

    def preparation(self, sql: str, values: Row) -> str | None:
        """The statement that prepares another one, once it was asked for so often that it pays."""
        key = sql, tuple(map(type, values))
        self._asked[key] = asked = self._asked.get(key, 0) + 1
        if asked != _OFTEN or len(self._asked) > _MOST or not set(key[1]) <= _WORDS.keys():
            return None
        types = f" ({', '.join(_WORDS[kind] for kind in key[1])})" if values else ""
        return f"PREPARE {self._next_name()}{types} AS {sql}"

    def _next_name(self) -> str:
        return f"{self._prefix}{len(self._names)}"

    def prepared(self, sql: str, values: Row) -> None:
        """It was: from now on it goes this way."""
        self._names[sql, tuple(map(type, values))] = self._next_name().encode()

    def run(self, ready: Ready, seconds: float | None) -> list[Row]:
        """Run a statement in place; close the connection and raise when nothing is heard for so long."""
        libpq, most = self._libpq, None if seconds is None else seconds * 1000
        self._send(*ready)
        while libpq.flush():  # the server may have something to say before it takes the rest of a large value
            self._poll.modify(libpq.socket, select.POLLIN | select.POLLOUT)
            self._heard(self._poll.poll(most), seconds)
            self._poll.modify(libpq.socket, select.POLLIN)
        while True:
            self._heard(self._poll.poll(most), seconds)
            if (found := self._answer()) is not None:
                return found

    async def run_on_loop(self, ready: Ready, seconds: float | None) -> list[Row]:
        """The same while the event loop goes on."""
        libpq = self._libpq
        self._send(*ready)
        while libpq.flush():
            self._heard(await stirred(libpq.socket, seconds, writing=True), seconds)
        while True:
            self._heard(await stirred(libpq.socket, seconds), seconds)
            if (found := self._answer()) is not None:
                return found

    def _send(self, name: bytes, bound: list[bytes | None]) -> None:
        self._libpq.send_query_prepared(name, bound, [_BINARY] * len(bound), _BINARY)

    def _heard(self, ready: object, seconds: float | None) -> None:
        if not ready:
            raise given_up(self._libpq, seconds)
        self._libpq.consume_input()

    def _answer(self) -> list[Row] | None:
        """The rows of the answer, once all of it is there: what comes last may be that the commit failed."""
        while not self._libpq.is_busy():
            result = self._libpq.get_result()
            if result is None:
                results, self._results = self._results, []
                return [row for each in results for row in self._read(each)]
            self._results.append(result)
        return None

    def _read(self, result: Any) -> list[Row]:
        if result.status not in _GOOD:
            from psycopg.errors import error_from_result

            raise error_from_result(result)
        self._reading.set_pgresult(result)
        return self._reading.load_rows(0, result.ntuples, tuple)


def given_up(libpq: Any, seconds: float | None) -> Exception:
    """The error of a call that took too long; its connection is closed, so that not even a ROLLBACK waits again."""
    from psycopg import OperationalError

    libpq.finish()
    return OperationalError(no_answer(seconds))
