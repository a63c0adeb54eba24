"""Servers to be crashed, and the ways to do it. Each way returns when the server is back."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from abc import ABC, abstractmethod
from collections.abc import Callable

import psycopg

from perdure import sync
from perdure.testing.servers import MariadbServer, PostgresServer

DATABASE = "crash"
CLEAN = "stop"  # the way that is no crash: what a deploy does
DOWN = 0.3  # seconds a server stays down, at most


class Victim(ABC):
    """A durable server with one database."""

    ways: dict[str, Callable[[], None]]
    server: PostgresServer | MariadbServer

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng

    @abstractmethod
    def open(self) -> str:
        """Start it, and return the url of its database."""

    def close(self) -> None:
        self.server.close()

    def _kill(self) -> None:
        """SIGKILL for all its processes at once."""
        self.server.crash()
        self._start()

    def _stop(self) -> None:
        """A clean stop that does not wait for anybody."""
        self.server.stop()
        self._start()

    def _start(self) -> None:
        time.sleep(self._rng.uniform(0, DOWN))
        self.server.start()


class PostgresVictim(Victim):
    """PostgreSQL."""

    server: PostgresServer

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.server = PostgresServer(durable=True)
        self.ways = {"immediate": self._immediate, "backend": self._backend, "kill": self._kill, CLEAN: self._stop}

    def open(self) -> str:
        self.server.start()
        return self.server.database(DATABASE)

    def _immediate(self) -> None:
        """`pg_ctl stop -m immediate`."""
        self.server.immediate()
        self._start()

    def _backend(self) -> None:
        """SIGKILL for the process that serves one of our connections: the server restarts all of them."""
        with psycopg.connect(self.server.url, autocommit=True) as witness:
            ours = witness.execute(
                "SELECT pid FROM pg_stat_activity WHERE datname = %s ORDER BY state = 'active' DESC, random()",
                (DATABASE,),
            ).fetchall()
            os.kill(ours[0][0], signal.SIGKILL)
            self._await_end(witness)
        self._await_return()

    def _await_end(self, witness: psycopg.Connection) -> None:
        with contextlib.suppress(psycopg.OperationalError):
            while True:
                witness.execute("SELECT 1")
                time.sleep(0.001)

    def _await_return(self) -> None:
        while True:
            try:
                return psycopg.connect(self.server.url).close()
            except psycopg.OperationalError:
                time.sleep(0.005)


class MysqlVictim(Victim):
    """MariaDB."""

    server: MariadbServer

    def __init__(self, rng: random.Random) -> None:
        super().__init__(rng)
        self.server = MariadbServer(durable=True)
        self.ways = {"kill": self._kill, CLEAN: self._stop}

    def open(self) -> str:
        self.server.start()
        return self.server.database(DATABASE)


VICTIMS: dict[str, type[Victim]] = {"postgres": PostgresVictim, "mysql": MysqlVictim}
_URLS = {"postgres": "postgresql://localhost/x", "mysql": "mysql://root@localhost/x"}


def is_built(backend: str) -> bool:
    """Whether there is a storage for this server, reached by its address."""
    store = sync.Perdure.open(_URLS[backend])
    module = type(store._store._parts.storage).__module__
    store.close()
    return module.startswith(f"perdure.storage.{backend}")
