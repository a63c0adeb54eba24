"""LangGraph's SqliteSaver as a child process: `python -m benchmarks.peers.langgraph_sqlite PATH VARIANT TURNS`.

It reads one command a line and answers with one line: the seconds of the call alone, or a number.

    save N    put() of the checkpoint after turn N, with WAL and synchronous=FULL as on every side
    get       get_tuple() of the newest checkpoint
    mark      make the system call that the counting of syncs looks for
    wal       1 when the WAL had to grow after all
    close     close the database and answer with its bytes
"""

from __future__ import annotations

import os
import sys
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.databases import Database, bytes_of, connect
from benchmarks.peers.langgraph import Play, newest
from benchmarks.peers.obeying import obey
from benchmarks.timing import timed


class Saver:
    """W through put(), the way a graph's super-step calls it. Its put_writes() is left out, in the peer's favour."""

    def __init__(self, path: str, variant: Any, count: int) -> None:
        self._path = path
        self._database = Database(path)
        self._connection = connect(path)
        self._connection.isolation_level = ""  # what sqlite3.connect gives SqliteSaver by default
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        self._play = Play("w", variant, count)

    def save(self, at: str) -> float:
        return self._play.put(self._saver.put, int(at))

    def get(self) -> float:
        return timed(lambda: self._saver.get_tuple(newest("w")))

    def mark(self) -> int:
        return os.getsid(0)

    def wal(self) -> int:
        return int(self._database.wal_grew())

    def close(self) -> int:
        self._connection.close()
        self._database.close()
        return bytes_of(self._path)


if __name__ == "__main__":
    obey(Saver(sys.argv[1], sys.argv[2], int(sys.argv[3])))
