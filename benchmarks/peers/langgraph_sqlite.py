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
import time
from datetime import UTC, datetime
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from benchmarks.databases import Database, bytes_of, connect
from benchmarks.workload import State, opening_context, turns

CHANNELS = ("messages", "context")


class Saver:
    """W through put(), the way a graph's super-step calls it. Its put_writes() is left out, in the peer's favour."""

    def __init__(self, path: str, variant: Any, count: int) -> None:
        self._path = path
        self._database = Database(path)
        self._connection = connect(path)
        self._connection.isolation_level = ""  # what sqlite3.connect gives SqliteSaver by default
        self._saver = SqliteSaver(self._connection)
        self._saver.setup()
        self._turns = turns(variant, count)
        self._state = State(opening_context(variant))
        self._config: Any = {"configurable": {"thread_id": "w", "checkpoint_ns": ""}}

    def save(self, at: str) -> float:
        turn = int(at)
        checkpoint = self._checkpoint(turn, self._state.take(self._turns[turn]))
        metadata: Any = {"source": "loop", "step": turn, "parents": {}}
        versions = {name: checkpoint["channel_versions"][name] for name in CHANNELS}
        start = time.perf_counter()
        config = self._saver.put(self._config, checkpoint, metadata, versions)
        seconds = time.perf_counter() - start
        self._config = config
        return seconds

    def _checkpoint(self, turn: int, state: dict[str, Any]) -> Any:
        versions = dict.fromkeys(CHANNELS, f"{turn + 1:032}.{0.5:016}")
        return empty_checkpoint() | {
            "id": str(uuid6(clock_seq=turn)),
            "ts": datetime.now(UTC).isoformat(),
            "channel_values": state,
            "channel_versions": versions,
            "versions_seen": {"__input__": {}, "agent": dict(versions)},
            "updated_channels": list(CHANNELS),
        }

    def get(self) -> float:
        config: Any = {"configurable": {"thread_id": "w", "checkpoint_ns": ""}}
        start = time.perf_counter()
        self._saver.get_tuple(config)
        return time.perf_counter() - start

    def mark(self) -> int:
        return os.getsid(0)

    def wal(self) -> int:
        return int(self._database.wal_grew())

    def close(self) -> int:
        self._connection.close()
        self._database.close()
        return bytes_of(self._path)


def main(path: str, variant: str, count: str) -> None:
    """Obey until the commands end."""
    saver = Saver(path, variant, int(count))
    print("ready", flush=True)
    for line in sys.stdin:
        command, *arguments = line.split()
        print(getattr(saver, command)(*arguments), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
