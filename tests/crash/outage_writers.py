"""Writers that go on while their server is crashed and started again; a process of its own for each kind of caller.

    python -m tests.crash.outage_writers FOLDER URL sync|async NUMBER…

Each has a thread of its own, and one that all share until the next crash. It notes what it begins and what came of it
in its journal before it goes on. An error that says "try again" is answered by the same request with the same key.
"""

from __future__ import annotations

import asyncio
import logging
import random
import sys
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import perdure
from perdure import sync
from perdure.core.errors import LeaseHeldError, StorageBusyError, StorageUnavailableError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.threads import Lease
from perdure.storage.drive import drive
from tests.crash.outage_answers import WRITER, tell_answers
from tests.crash.outage_doubts import Doubts
from tests.crash.outage_journal import DONE, REFUSED, UNKNOWN, WRONG, Board, Journal, Line

LEASED = "leased by turns"
OWN_LENGTH = 60  # operations until a writer begins another thread of its own
TTL = 60 * 1_000_000
WEIGHTS = {"append": 22, "update": 16, "save": 10, "shared_append": 20, "shared_update": 10, "shared_save": 4}
WEIGHTS |= {"fork": 8, "lease": 10}
Call = Callable[[], Awaitable[Any]]


class Store:
    """A store of either face, its calls awaited: on the synchronous one they never wait."""

    def __init__(self, store: Any, mode: str) -> None:
        self._store, self._mode = store, mode
        self._inner = store._store if mode == "sync" else store

    def thread(self, name: str) -> Any:
        handle = self._store.thread(name, user="crash")
        return _Awaited(handle, lambda answer: answer) if self._mode == "sync" else handle

    @property
    def storage(self) -> Any:
        storage = self._inner._parts.storage
        return _Awaited(storage, self._store._run) if self._mode == "sync" else storage


class _Awaited:
    """Plain methods as coroutines that never wait."""

    def __init__(self, inner: Any, finish: Callable[[Any], Any]) -> None:
        self._inner, self._finish = inner, finish

    def __getattr__(self, name: str) -> Any:
        async def call(*values: Any, **options: Any) -> Any:
            answer = self._finish(getattr(self._inner, name)(*values, **options))
            return _Awaited(answer, self._finish) if isinstance(answer, sync.Thread) else answer

        return call


class Writer:
    """Does operations until it is told to stop."""

    def __init__(self, number: int, store: Store, journal: Journal, board: Board) -> None:
        self._name, self._slot = f"w{number}", number
        self._store, self._journal, self._board = store, journal, board
        self._rng = random.Random(self._name)
        self._made = 0
        self._shared_name, self._shared = "", store.thread("none")
        self._begin_own()

    def _begin_own(self) -> None:
        self._own_name = f"own {self._name} {self._made}"
        self._own = self._store.thread(self._own_name)
        self._tokens: list[str] = []  # what the own thread holds
        self._version = 0

    async def work(self) -> None:
        WRITER.set(self._slot)
        kinds, weights = list(WEIGHTS), list(WEIGHTS.values())
        while not self._board.stopped:
            if self._version >= OWN_LENGTH:
                self._begin_own()
            if self._shared_name != (name := f"shared {self._board.crashes}"):
                self._shared_name, self._shared = name, self._store.thread(name)
            await getattr(self, "_" + self._rng.choices(kinds, weights)[0])()

    async def _append(self) -> None:
        token = self._token()
        key = token if self._rng.random() < 0.5 else None
        await self._write_own("append", token, lambda: self._own.append("tokens", token, key=key), key)

    async def _update(self) -> None:
        token = self._token()
        change = {"set": {"last": token}, "append": {"tokens": [token]}, "key": token}
        await self._write_own("update", token, lambda: self._own.update(**change, checkpoint=True), token)

    async def _save(self) -> None:
        token = self._token()
        state = {"tokens": [*self._tokens, token], "last": token}
        await self._write_own("save", token, lambda: self._own.save(state, key=token), token)

    async def _write_own(self, kind: str, token: str, call: Call, key: str | None) -> None:
        """Nobody else writes there: every version is known beforehand, and a conflict is a fault."""
        line = await self._do(Line(0, kind, self._own_name, token, keyed=key is not None), call)
        if line.outcome != DONE:
            return self._begin_own()
        self._tokens.append(token)
        self._version += 1
        if line.version != self._version:
            self._journal.end(line, WRONG, f"version {line.version} was told, {self._version} is next")

    async def _shared_append(self) -> None:
        token, handle = self._token(), self._shared
        key = token if self._rng.random() < 0.5 else None
        line = Line(0, "append", self._shared_name, token, keyed=key is not None)
        await self._do(line, lambda: handle.append("tokens", token, key=key))

    async def _shared_update(self) -> None:
        token, handle = self._token(), self._shared

        async def update() -> Any:
            change = {"set": {f"last.{self._name}": token}, "append": {"tokens": [token]}, "key": token}
            while True:
                try:
                    return await handle.update(**change)
                except VersionConflictError:
                    await handle.load()

        await self._do(Line(0, "update", self._shared_name, token, keyed=True), update)

    async def _shared_save(self) -> None:
        token, handle = self._token(), self._shared

        async def save() -> Any:
            while True:
                state = await handle.load(default={})
                first = None if state else 0
                state.setdefault("tokens", []).append(token)
                try:
                    return await handle.save(state, key=token, expected=first)
                except VersionConflictError:
                    continue

        # Not with the same key after an error: the state that is saved then is another one.
        await self._do(Line(0, "save", self._shared_name, token), save)

    async def _fork(self) -> None:
        if not self._tokens:
            return
        token = self._token()
        target, size = f"fork {token}", len(self._tokens) + 1
        made = await self._do(Line(0, "fork", self._own_name, target=target), lambda: self._own.fork(to=target))
        if made.outcome != DONE:
            return
        fork = self._store.thread(target)
        line = Line(0, "append", target, token, size=size, keyed=True)
        await self._do(line, lambda: fork.append("tokens", token, key=token))
        if self._rng.random() < 0.7:
            await self._do(Line(0, "delete", target), lambda: self._deleted(fork))

    async def _deleted(self, fork: Any) -> None:
        if not await fork.delete():
            raise AssertionError("a thread that was there was not there to be deleted")

    async def _lease(self) -> None:
        key, storage, now = ThreadKey("", "crash", LEASED), self._store.storage, time.time_ns() // 1000
        line = Line(0, "claim", LEASED)
        claimed = await self._do(line, lambda: storage.claim(key, self._name, until=now + TTL, now=now))
        if claimed.outcome != DONE:
            return
        epoch = claimed.version
        renewing = Line(0, "renew", LEASED, keyed=True)
        await self._do(renewing, lambda: storage.renew(key, epoch, until=now + TTL, now=now))
        await self._do(Line(0, "release", LEASED), lambda: storage.release(key, epoch))

    async def _do(self, line: Line, call: Call) -> Line:
        """Note it, do it, note what came of it. With a key it is done again as often as it takes."""
        self._journal.begin(line)
        while True:
            try:
                _answered(line, await call())
                self._journal.end(line, DONE, line.words)
            except LeaseHeldError as exc:
                self._journal.end(line, REFUSED, str(exc))
            except (StorageUnavailableError, StorageBusyError) as exc:
                line.words = f"{type(exc).__name__}: {exc}"
                if line.keyed:
                    continue
                self._journal.end(line, UNKNOWN, line.words)
            except Exception as exc:
                self._journal.end(line, WRONG, f"{type(exc).__name__}: {exc}")
            self._board.answered(self._slot)
            self._board.finished(self._slot)
            return line

    def _token(self) -> str:
        self._made += 1
        return f"{self._name}.{self._made}"


def _answered(line: Line, answer: Any) -> None:
    if isinstance(answer, perdure.Checkpoint):
        line.version, line.point = answer.version, answer.id
    elif isinstance(answer, Lease):
        line.version = answer.epoch
    elif isinstance(answer, int):
        line.version = answer


def on_threads(folder: Path, url: str, numbers: list[int]) -> None:
    """Several threads, one store."""
    with sync.Perdure.open(url) as store:
        shared = Store(store, "sync")
        writers = [Writer(number, shared, Journal(folder, f"w{number}"), Board(folder)) for number in numbers]
        with ThreadPoolExecutor(len(writers)) as pool:
            list(pool.map(lambda writer: drive(writer.work()), writers))


async def on_a_loop(folder: Path, url: str, numbers: list[int]) -> None:
    """Several tasks, one store."""
    async with perdure.Perdure.open(url) as store:
        shared = Store(store, "async")
        writers = [Writer(number, shared, Journal(folder, f"w{number}"), Board(folder)) for number in numbers]
        await asyncio.gather(*(writer.work() for writer in writers))


def main(folder: Path, url: str, mode: str, numbers: list[int]) -> None:
    logging.getLogger("psycopg").setLevel(logging.CRITICAL)  # the pool tells of every try to connect
    tell_answers(Board(folder))
    with Doubts(folder, f"{mode}-{numbers[0]}"):
        if mode == "sync":
            on_threads(folder, url, numbers)
        else:
            asyncio.run(on_a_loop(folder, url, numbers))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], [int(number) for number in sys.argv[4:]])
