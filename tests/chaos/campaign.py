"""Chaos on PostgreSQL: workers are killed and frozen, the database is crashed and stopped, and everything is done once.

    python -m tests.chaos.campaign [--dsn postgresql://…] [--threads 60] [--steps 20] [--workers 6] [--ttl 2]

Without `--dsn` a server of its own is started, and restarted twice: a crash after a third of the results, a stop after
two thirds. With it, the tables are made in a schema of their own, which is dropped at the end, and the server is left
alone.
"""

from __future__ import annotations

import argparse
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg

from perdure import sync
from perdure.testing.servers import PostgresServer
from tests.chaos.looking import Verdict, look
from tests.chaos.worker import HANDLER

ROOT = Path(__file__).parents[2]
PATIENCE = 600.0  # seconds after which a campaign that does not end is a finding of its own
LONG_FROZEN = 60.0  # seconds after which a worker wakes although nobody took its runs


@dataclass(frozen=True, kw_only=True)
class Size:
    """How large a campaign is."""

    threads: int = 60
    steps: int = 20
    workers: int = 6
    ttl: float = 2.0
    pace: float = 1.0  # seconds a step takes, about
    kills: int = 1000  # at most
    freezes: int = 1000
    between: float = 1.5  # seconds between two blows, about
    restarts: tuple[float, ...] = (1 / 3, 2 / 3)  # shares of the results after which the database goes down
    patient: bool = False  # this machine is busy: any time to take over will do, and the blows come one by one

    @property
    def takeover(self) -> float:
        """Seconds that taking over from a dead worker may take while the database is up."""
        return PATIENCE if self.patient else 2 * self.ttl + 1


@dataclass
class Told:
    """What was done to the workers and the database; times are seconds since 1970."""

    kills: list[tuple[float, list[str]]] = field(default_factory=list)  # when, and the uids of the threads it held
    freezes: list[tuple[float, float, list[str]]] = field(default_factory=list)  # when, when it woke, what it held
    downs: list[tuple[float, float]] = field(default_factory=list)  # from when to when there was no database
    seconds: float = 0.0


@dataclass(frozen=True)
class Frozen:
    """A worker that is frozen."""

    worker: subprocess.Popen[bytes]
    at: float  # seconds since 1970
    seconds: float  # at least
    held: list[str]


class Campaign:
    """One campaign on one database."""

    def __init__(self, url: str, size: Size, seed: int, server: PostgresServer | None) -> None:
        self._url, self._size, self._server = url, size, server
        self._rng = random.Random(seed)
        self._schema = f"perdure_chaos_{os.getpid()}"
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-chaos-"))
        self._workers: list[subprocess.Popen[bytes]] = []
        self._frozen: list[Frozen] = []
        self._ways: list[Callable[[], None]] = [server.crash, server.stop] if server else []
        self.told = Told()

    def run(self) -> Verdict:
        began = time.monotonic()
        try:
            self._start()
            while not self._is_done() and time.monotonic() < began + PATIENCE:
                self._replace_ended()
                self._blow()
                self._end_freezes()
                self._restart_when_due()
                time.sleep(0.1)
            self._stop_workers()
            self.told.seconds = time.monotonic() - began
            return look(
                self._open(), self._size.threads, self._size.steps, self._size.takeover, self.told, self._lost()
            )
        finally:
            self._clear()

    def _open(self) -> Any:
        return sync.Perdure.open(self._url, schema=self._schema)

    def _start(self) -> None:
        with self._open() as store:
            for number in range(self._size.threads):
                store.start(HANDLER, thread=f"thread {number}")
        self._workers = [self._worker() for _ in range(self._size.workers)]
        self._next_blow = time.monotonic()

    def _worker(self) -> subprocess.Popen[bytes]:
        size = self._size
        concurrency = -(-2 * size.threads // size.workers)  # half of them may be down
        words = [self._url, self._schema, self._folder, size.ttl, concurrency, size.steps, size.pace]
        return subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.worker", *map(str, words)], cwd=ROOT, stderr=subprocess.DEVNULL
        )

    def _replace_ended(self) -> None:
        """A worker that began while there was no database gave up: whoever supervises it starts it again."""
        for at, worker in enumerate(self._workers):
            if worker.poll() is not None:
                self._workers[at] = self._worker()

    def _blow(self) -> None:
        """Kill or freeze a worker, now and then."""
        frozen = {each.worker.pid for each in self._frozen}
        able = [worker for worker in self._workers if worker.pid in self._ready() and worker.pid not in frozen]
        if time.monotonic() < self._next_blow or len(able) <= self._size.workers // 2:
            return  # somebody has to be there to take over
        victims = [worker for worker in able if self._held(worker.pid)]
        if not victims or self._count("run.finished") > self._size.threads - self._size.workers:
            return  # the last runs would be hit again and again
        self._next_blow = time.monotonic() + self._rng.uniform(0.5, 1.5) * self._size.between
        kill = len(self.told.kills) < self._size.kills
        freeze = len(self.told.freezes) < self._size.freezes and not frozen
        if kill and not (freeze and self._rng.random() < 0.5):
            self._kill(self._rng.choice(victims))
        elif freeze:
            self._freeze(self._rng.choice(victims))

    def _kill(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGSTOP)  # what it holds must not change between the question and its end
        held = self._held(worker.pid)
        worker.kill()
        self.told.kills.append((time.time(), held))
        worker.wait()
        self._workers[self._workers.index(worker)] = self._worker()

    def _freeze(self, worker: subprocess.Popen[bytes]) -> None:
        worker.send_signal(signal.SIGSTOP)
        seconds = self._rng.uniform(1.5, 2.5) * self._size.ttl
        self._frozen.append(Frozen(worker, time.time(), seconds, self._held(worker.pid)))

    def _end_freezes(self, *, now: bool = False) -> None:
        for each in list(self._frozen):
            if now or self._may_wake(each):
                self.told.freezes.append((each.at, time.time(), each.held))
                each.worker.send_signal(signal.SIGCONT)
                self._frozen.remove(each)

    def _may_wake(self, frozen: Frozen) -> bool:
        """Once others have its runs, which takes them long where they hardly get to work."""
        slept = time.time() - frozen.at
        return slept > LONG_FROZEN or (slept > frozen.seconds and not self._held(frozen.worker.pid))

    def _restart_when_due(self) -> None:
        done = len(self.told.downs)
        shares = self._size.restarts[: len(self._ways)]
        results = self._size.threads * self._size.steps
        if self._server is None or done >= len(shares) or self._count("step.finished") < shares[done] * results:
            return
        if self._size.patient and self._frozen:
            return  # the runs of a frozen worker could not be taken from it
        began = time.time()
        self._ways[done]()
        time.sleep(self._rng.uniform(0, 0.5))
        self._server.start()
        self.told.downs.append((began, time.time()))

    def _is_done(self) -> bool:
        return self._count("run.finished") >= self._size.threads

    def _count(self, kind: str) -> int:
        return self._asked(f"SELECT count(*) FROM {self._schema}.entry WHERE kind = %s", (kind,))[0][0]

    def _held(self, pid: int) -> list[str]:
        query = f"SELECT uid FROM {self._schema}.thread WHERE lease_owner LIKE %s AND status = 'running'"
        return [uid for (uid,) in self._asked(query, (f"%/{pid}/%",))]

    def _asked(self, query: str, words: tuple[Any, ...]) -> list[Any]:
        with psycopg.connect(self._url) as connection:
            return connection.execute(query, words).fetchall()  # pyright: ignore

    def _ready(self) -> set[int]:
        return {int(line) for line in self._noted("ready")}

    def _lost(self) -> int:
        return len(self._noted("lost"))

    def _noted(self, what: str) -> list[str]:
        path = self._folder / what
        return path.read_text().splitlines() if path.exists() else []

    def _stop_workers(self) -> None:
        self._end_freezes(now=True)
        self._await_refusal()
        for worker in self._workers:
            worker.terminate()
        for worker in self._workers:
            worker.wait(60)

    def _await_refusal(self) -> None:
        """Those that woke a moment ago have to learn what became of their runs, over new connections maybe."""
        end = time.monotonic() + 20
        while self.told.freezes and not self._lost() and time.monotonic() < end:
            time.sleep(0.1)

    def _clear(self) -> None:
        for worker in self._workers:
            worker.kill()
            worker.wait()
        with psycopg.connect(self._url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA IF EXISTS {self._schema} CASCADE")  # pyright: ignore
        shutil.rmtree(self._folder, ignore_errors=True)


def table(verdict: Verdict, told: Told, size: Size) -> str:
    """The figures."""
    rows: list[tuple[str, object]] = [
        ("threads done", f"{verdict.finished} of {size.threads}"),
        ("results recorded", f"{verdict.results} of {size.threads * size.steps}"),
        ("workers killed / frozen", f"{len(told.kills)} / {len(told.freezes)}"),
        ("restarts of the database", len(told.downs)),
        ("runs of killed workers taken over", len(verdict.takeovers)),
        ("takeover, median / slowest (s)", f"{verdict.median:.2f} / {verdict.slowest:.2f}"),
        ("runs taken from frozen workers", verdict.overtaken),
        ("stale owners refused", verdict.refused),
        ("took (s)", f"{told.seconds:.0f}"),
        ("things wrong", len(verdict.wrong)),
    ]
    return "\n".join(f"{name:<36}{value!s:>14}" for name, value in rows)


def campaign(size: Size, seed: int, dsn: str | None = None) -> tuple[Verdict, Told]:
    """Run a campaign on a server of its own, or on that of a user."""
    if dsn is not None:
        made = Campaign(dsn, size, seed, None)
        return made.run(), made.told
    with PostgresServer(durable=True) as server:
        made = Campaign(server.database("chaos"), size, seed, server)
        return made.run(), made.told


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dsn")
    parser.add_argument("--threads", type=int, default=60)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--workers", type=int, default=6)
    parser.add_argument("--ttl", type=float, default=2.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 30))
    parser.add_argument("--short", action="store_true", help="6 threads, 5 steps, 2 workers, one blow of each kind")
    asked = parser.parse_args(words)
    size = Size(threads=asked.threads, steps=asked.steps, workers=asked.workers, ttl=asked.ttl)
    if asked.short:
        size = Size(
            threads=6, steps=5, workers=2, ttl=1.0, pace=0.8, kills=1, freezes=1, between=0.6, restarts=(0.6,),
            patient=True,
        )  # fmt: skip
    print(f"seed {asked.seed}", flush=True)
    verdict, told = campaign(size, asked.seed, asked.dsn)
    print(table(verdict, told, size))
    print("\n".join(verdict.wrong[:40]), end="")
    return int(bool(verdict.wrong))


if __name__ == "__main__":
    sys.exit(main())
