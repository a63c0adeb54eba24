"""Trying again while a server is away: every transaction, not only the save."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine
from typing import Any

from perdure.storage.sql.transactions import CommitUnknown, Job, ServerGone, SqlPort, T, Transaction, TryAgain

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
# After a commit whose answer was lost: the answer if it stands, None if it does not.
Landed = Callable[[Transaction, T | None], Coroutine[Any, Any, T | None]]


class Retrying:
    """Runs transactions on a port until one goes through, for at most `seconds`."""

    def __init__(self, port: SqlPort, seconds: float) -> None:
        self._port = port
        self._seconds = seconds

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        """A transaction that only looks."""
        return await self.patiently(lambda: self._port.read(job, alone=alone))

    async def write(self, job: Job[T], landed: Landed[T] | None = None, *, in_doubt: bool = False) -> T:
        """A transaction that changes something, once: `landed` finds out whether a try in doubt had been made."""
        doubt: list[Any] = [None] if in_doubt else []

        async def settled(tx: Transaction) -> T:
            found = await landed(tx, doubt[-1]) if doubt and landed is not None else None
            return found if found is not None else await job(tx)

        async def attempt() -> T:
            try:
                return await self._port.write(settled)
            except CommitUnknown as lost:
                doubt.append(lost.value)
                raise

        return await self.patiently(attempt)

    async def patiently(self, attempt: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Anything that may be done twice."""
        ends, pause = time.monotonic() + self._seconds, FIRST_PAUSE
        while True:
            try:
                return await attempt()
            except (ServerGone, TryAgain, CommitUnknown) as exc:
                if time.monotonic() + pause > ends:
                    raise exc.final() from exc.__cause__
            await self._port.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)
