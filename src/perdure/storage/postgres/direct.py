"""Statements that are run without psycopg's cursor: bound, sent and read by a few calls of libpq.

The cursor takes about an eighth of the time of a short statement for itself, on an event loop a twelfth. What is asked
for again and again on one of our connections is prepared there, and goes this way from then on. Anything unusual goes
through the cursor: the first times, values of other types, a statement that cannot be prepared.

Nothing else may prepare statements on such a connection: psycopg lets go of all of them after a ROLLBACK, if it has
prepared one itself. A task that is cancelled leaves its statement to the server, and its connection has to be closed.
"""

from __future__ import annotations

import select
from collections.abc import Callable
from struct import Struct
from struct import error as struct_error
from typing import Any

from perdure.storage.ports import stirred
from perdure.storage.postgres.naming import number_apart
from perdure.storage.sql.retrying import no_answer
from perdure.storage.sql.rows import Row

_OFTEN = 3  # times that a statement goes through the cursor
_MOST = 200  # statements of a connection
_NOTED = 1000  # … that are counted
_IDLE = 0  # libpq's PQTRANS_IDLE
_BINARY = 1
_GOOD = (1, 2)  # libpq's PGRES_COMMAND_OK and PGRES_TUPLES_OK
_int8 = Struct("!q")
_TYPES: dict[type, int] = {int: 20, str: 25, bytes: 17, bool: 16, type(None): 0}  # int8, text, bytea, bool, any
_BOUND: dict[type, Any] = {int: _int8.pack, str: str.encode, bool: lambda value: b"\1" if value else b"\0"}
Kinds = tuple[type, ...]
Binds = tuple[Callable[[Any], bytes] | None, ...]  # None: as it is
Ready = tuple[bytes, list[bytes | None], list[int], int]  # as libpq's PQsendQueryPrepared takes it
Preparation = tuple[tuple[str, Kinds], bytes]


class Direct:
    """The statements that one connection of psycopg has prepared, and the way to run them."""

    def __init__(self, libpq: Any) -> None:
        from psycopg.adapt import Transformer

        self._libpq = libpq
        self._reading = Transformer()
        self._names: dict[tuple[str, Kinds], tuple[bytes, Binds, list[int]]] = {}
        self._asked: dict[tuple[str, Kinds], int] = {}
        self._due: list[tuple[str, Kinds]] = []
        self._made = 0
        self._prefix = f"perdure_{number_apart(libpq):x}_"
        self._results: list[Any] = []
        self._poll = select.poll()
        self._poll.register(libpq.socket, select.POLLIN)

    def ready(self, sql: str, values: Row) -> Ready | None:
        """A statement that was prepared, with its values; None where it has to go through the cursor."""
        known = self._names.get((sql, tuple(map(type, values))))
        if known is None:
            return None
        name, binds, formats = known
        try:
            bound = [bind(value) if bind else value for bind, value in zip(binds, values, strict=True)]
        except struct_error:  # an int of more than eight bytes
            return None
        return name, bound, formats, _BINARY

    def note(self, sql: str, values: Row) -> None:
        """A statement went through the cursor; one that did so often is prepared when there is a moment for it."""
        key = sql, tuple(map(type, values))
        if len(self._asked) >= _NOTED:
            self._asked.clear()
        self._asked[key] = asked = self._asked.get(key, 0) + 1
        if asked == _OFTEN and len(self._names) < _MOST and set(key[1]) <= _TYPES.keys():
            self._due.append(key)

    def next_due(self) -> Preparation | None:
        """The next statement to prepare. In a transaction there is none: a failure would end that."""
        if not self._due or self._libpq.transaction_status != _IDLE:
            return None
        self._made += 1
        return self._due.pop(0), f"{self._prefix}{self._made}".encode()

    def prepared(self, preparation: Preparation) -> None:
        """It was: from now on it goes this way."""
        key, name = preparation
        self._names[key] = name, tuple(map(_BOUND.get, key[1])), [_BINARY] * len(key[1])

    def prepare(self, preparation: Preparation, seconds: float | None) -> None:
        """Prepare a statement, in place; raises what the server refused it with."""
        self._send_prepare(preparation)
        self._wait(seconds)

    async def prepare_on_loop(self, preparation: Preparation, seconds: float | None) -> None:
        """The same while the event loop goes on."""
        self._send_prepare(preparation)
        await self._wait_on_loop(seconds)

    def _send_prepare(self, preparation: Preparation) -> None:
        (sql, kinds), name = preparation
        self._libpq.send_prepare(name, sql.encode(), [_TYPES[kind] for kind in kinds])

    def run(self, ready: Ready, seconds: float | None) -> list[Row]:
        """Run a statement in place; close the connection and raise when nothing is heard for so long."""
        self._libpq.send_query_prepared(*ready)
        return self._wait(seconds)

    async def run_on_loop(self, ready: Ready, seconds: float | None) -> list[Row]:
        """The same while the event loop goes on."""
        self._libpq.send_query_prepared(*ready)
        return await self._wait_on_loop(seconds)

    def _wait(self, seconds: float | None) -> list[Row]:
        libpq, most = self._libpq, None if seconds is None else seconds * 1000
        while libpq.flush():  # the server may have something to say before it takes the rest of a large value
            self._poll.modify(libpq.socket, select.POLLIN | select.POLLOUT)
            self._heard(self._poll.poll(most), seconds)
            self._poll.modify(libpq.socket, select.POLLIN)
        while (found := self._answer()) is None:
            self._heard(self._poll.poll(most), seconds)
        return found

    async def _wait_on_loop(self, seconds: float | None) -> list[Row]:
        libpq = self._libpq
        while libpq.flush():
            self._heard(await stirred(libpq.socket, seconds, writing=True), seconds)
        while (found := self._answer()) is None:
            self._heard(await stirred(libpq.socket, seconds), seconds)
        return found

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
