"""Kill a process in the middle of an upgrade: after its first statement or file operation, its second …

    python -m tests.crash.upgrade_kills BACKEND never PLACE      upgrade, and print how many operations that took
    python -m tests.crash.upgrade_kills BACKEND kill PLACE…      kill the upgrade of the first place after one
                                                                 operation, of the second after two …

Every upgrade is a forked child; this process opens nothing itself. It prints how each child ended.
"""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

from perdure.storage.drive import drive
from perdure.storage.file.disk import RealDisk, RealFile
from perdure.storage.mysql import wires as mysql
from perdure.storage.postgres import wires as postgres
from perdure.storage.sqlite.connection import SqliteTransaction
from tests.storage.made_up import NEXT, PLACES

# What reaches the database or the disk.
OPERATIONS: dict[str, tuple[tuple[type[Any], tuple[str, ...]], ...]] = {
    "file": (
        (RealDisk, ("make_folder", "replace", "remove", "sync_folder")),
        (RealFile, ("write", "truncate", "sync", "lock")),
    ),
    "sqlite": ((SqliteTransaction, ("rows", "run")),),
    "postgres": ((postgres.PsycopgWire, ("rows", "run")),),
    "mysql": ((mysql.InPlaceWire, ("ask",)),),
}


class Deadly:
    """Counts operations; one is not survived."""

    def __init__(self, backend: str, last: int) -> None:
        self.count = 0
        self._last = last
        for kind, names in OPERATIONS[backend]:
            for name in names:
                setattr(kind, name, self._counting(getattr(kind, name), waits=backend != "file"))

    def _counting(self, inner: Callable[..., Any], *, waits: bool) -> Callable[..., Any]:
        async def asked(*values: Any, **named: Any) -> Any:
            answer = await inner(*values, **named)
            self._done()
            return answer

        def done(*values: Any, **named: Any) -> Any:
            answer = inner(*values, **named)
            self._done()
            return answer

        return asked if waits else done

    def _done(self) -> None:
        self.count += 1
        if self.count == self._last:
            os.kill(os.getpid(), signal.SIGKILL)


def upgrade(backend: str, at: str, last: int) -> int:
    """Upgrade a place in a child; its exit code, or the signal that ended it, negative."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        deadly = Deadly(backend, last)
        drive(PLACES[backend](at).open(NEXT).setup())
        if not last:
            print(deadly.count, flush=True)
        os._exit(0)
    except BaseException:
        traceback.print_exc()
        os._exit(1)


if __name__ == "__main__":
    backend, how, *places = sys.argv[1:]
    ended = [upgrade(backend, at, number if how == "kill" else 0) for number, at in enumerate(places, 1)]
    if how == "kill":
        print(*ended)
    elif any(ended):
        sys.exit(1)
