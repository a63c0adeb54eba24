"""Kill a process in the middle of set-up, after its first statement, its second …, and let another one finish it.

    python -m tests.crash.set_up_kills URL [KILLS]

Every try is a forked child; this process opens nothing itself. It prints a line for each kill.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import msgspec
import psycopg

from perdure.storage.drive import drive
from perdure.storage.postgres import wires
from perdure.storage.postgres.store import PostgresStorage


class Kill(msgspec.Struct):
    """What came of one kill."""

    after: int  # how many statements the server had answered
    killed: bool
    left: int  # the tables that were there afterwards
    finished: bool  # whether the next start set everything up, and could write


def main(url: str, kills: int) -> None:
    for after in range(1, kills + 1):
        killed = _in_a_child(lambda after=after: _set_up(url, after)) == -signal.SIGKILL
        left = _tables(url)
        finished = _in_a_child(lambda: _set_up(url, 0)) == 0
        print(msgspec.json.encode(Kill(after, killed, left, finished)).decode(), flush=True)
        _empty(url)


def _in_a_child(work: Callable[[], None]) -> int:
    """The exit code of a child that does it, or the signal that ended it, negative."""
    pid = os.fork()
    if not pid:
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _set_up(url: str, fatal: int) -> None:
    if fatal:
        _end_after(fatal)
    storage = PostgresStorage(url, mode="sync")
    schema = drive(storage.setup())
    assert drive(storage.keep("finished", b"yes")) == b"yes"
    assert schema.schema >= 1
    drive(storage.close())


def _end_after(fatal: int) -> None:
    """Count the statements of this process; the last one is not survived."""
    count = 0

    def counting(inner: Callable[..., Any]) -> Callable[..., Any]:
        async def run(*values: Any) -> Any:
            nonlocal count
            answer = await inner(*values)
            count += 1
            if count == fatal:
                os.kill(os.getpid(), signal.SIGKILL)
            return answer

        return run

    for name in ("rows", "run"):
        setattr(wires.PsycopgWire, name, counting(getattr(wires.PsycopgWire, name)))


def _tables(url: str) -> int:
    with psycopg.connect(url) as connection:
        found = connection.execute("SELECT count(*) FROM pg_tables WHERE schemaname = 'perdure'").fetchone()
    return found[0] if found else 0


def _empty(url: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA IF EXISTS perdure CASCADE")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
