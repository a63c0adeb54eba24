"""No call waits for ever: a server may hang while the kernel of its machine acknowledges every byte.

psycopg has no such limit, and cancelling a task that waits for it asks the same server to cancel, which takes longer
still. Every wait of its connections, blocking or not, goes through a generator that it wakes ten times a second; here
another one is put around it, which ends the wait.
"""

from __future__ import annotations

from collections.abc import Generator
from time import monotonic
from typing import Any
from weakref import ref

from perdure.storage.sql.retrying import no_answer

# Seconds: a wait that ends sooner has heard something, else psycopg woke us (every 0.1 s). What psycopg itself says is
# no help: before 3.2.13 it says that there is something to read, also when there is not.
_WAKES = 0.09


def limit(connection: Any, seconds: float | None) -> None:
    """Have a connection of psycopg close itself and raise `OperationalError` when it gets no answer for so long."""
    if seconds is None:
        return
    itself = ref(connection)  # a store that was forgotten is collected at once: no circle
    wait = type(connection).wait

    def within(waits: Any, *args: Any, **named: Any) -> Any:
        connection = itself()
        return wait(connection, _ending(connection, waits, seconds), *args, **named)

    connection.wait = within


def unlimit(connection: Any) -> None:
    """Let a connection wait for as long as its owner wants."""
    vars(connection).pop("wait", None)


def _ending(connection: Any, waits: Any, seconds: float) -> Generator[Any, Any, Any]:
    heard = monotonic()
    try:
        wanted = next(waits)
        while True:
            asked = monotonic()
            wanted = waits.send((yield wanted))  # first, so that an answer that came late is still one
            now = monotonic()
            if now - asked < _WAKES:
                heard = now
            elif now - heard > seconds:
                raise given_up(connection.pgconn, seconds)
    except StopIteration as done:
        return done.value


def given_up(libpq: Any, seconds: float | None) -> Exception:
    """The error of a call that took too long; its connection is closed, so that not even a ROLLBACK waits again."""
    from psycopg import OperationalError

    libpq.finish()
    return OperationalError(no_answer(seconds))
