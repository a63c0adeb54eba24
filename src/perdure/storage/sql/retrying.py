"""Trying again while a server is away, every transaction and not only the save; and telling of it once."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any

from perdure.core.errors import InvalidInputError
from perdure.core.ports import Telemetry
from perdure.storage.baton import Baton
from perdure.storage.sql.transactions import CommitUnknown, Job, Landed, ServerGone, SqlPort, T, Transaction, TryAgain

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 0.5
CALL_TIMEOUT = 30.0  # seconds that a server may take to answer, unless the options say otherwise
_LONGEST_CALL = 86_400  # more than a day does not fit into what sockets count with everywhere
Unsettled = ServerGone | TryAgain | CommitUnknown


class Retrying:
    """Runs transactions on a port until one goes through, for at most `seconds` after the first that did not.

    The time begins with the failure: a first try that waited in vain for `call_timeout` would else be the last one.
    """

    def __init__(self, port: SqlPort, seconds: float) -> None:
        self._port = port
        self._seconds = seconds

    async def read(self, job: Job[T], *, alone: bool = False) -> T:
        """A transaction that only looks."""
        return await self.patiently(lambda: self._port.read(job, alone=alone))

    async def glance(self, job: Job[T]) -> T:
        """The same for a line or two."""
        return await self.patiently(lambda: self._port.glance(job))

    async def write(self, job: Job[T], landed: Landed[T] | None = None, *, in_doubt: bool = False) -> T:
        """A transaction that changes something, once: `landed` finds out whether a try in doubt had been made."""
        if in_doubt:
            return await self._settled(job, landed, [None])
        try:
            return await self._port.write(job)
        except CommitUnknown as lost:
            return await self._settled(job, landed, [lost.value], lost)
        except (ServerGone, TryAgain) as exc:
            return await self._settled(job, landed, [], exc)

    async def _settled(
        self, job: Job[T], landed: Landed[T] | None, doubt: list[Any], failed: Unsettled | None = None
    ) -> T:
        """Try until it is known what became of a transaction, after a try that failed."""

        async def settled(tx: Transaction) -> T:
            found = await landed(tx, doubt[-1]) if doubt and landed is not None else None
            return found if found is not None else await job(tx)

        async def attempt() -> T:
            try:
                return await self._port.write(settled)
            except CommitUnknown as lost:
                doubt.append(lost.value)
                raise

        return await self.patiently(attempt, failed)

    async def patiently(
        self, attempt: Callable[[], Coroutine[Any, Any, T]], failed: Unsettled | None = None
    ) -> T:  # fmt: skip
        """Anything that may be done twice; after a first try that failed, once more."""
        ends, pause = None, FIRST_PAUSE
        while True:
            if failed is None:
                try:
                    return await attempt()
                except (ServerGone, TryAgain, CommitUnknown) as exc:
                    failed = exc
            now = time.monotonic()
            ends = now + self._seconds if ends is None else ends
            if now + pause > ends:
                raise failed.final() from failed.__cause__
            failed = None
            await self._port.pause(pause)
            pause = min(pause * 2, LONGEST_PAUSE)


class Outage:
    """Hears how each use of a server ends, and tells when it goes away and when it is back: once, not at every try."""

    def __init__(self, place: str, telemetry: Telemetry) -> None:
        self._place = place
        self._telemetry = telemetry
        self._lock = threading.Lock()
        self.since: float | None = None  # it is away

    def ended(self, error: BaseException | None) -> None:
        """A use of the server ended, with an error or well."""
        if error is None:
            self._over()
        elif isinstance(error, (ServerGone, CommitUnknown)):
            self._begun(error.reason)

    def _begun(self, reason: str) -> None:
        with self._lock:  # of several threads one tells
            known, self.since = self.since is not None, self.since or time.monotonic()
        if not known:
            self._telemetry.count("perdure.storage.outages")
            self._telemetry.log("warning", "the server is away, trying again", place=self._place, error=reason)

    def _over(self) -> None:
        with self._lock:
            since, self.since = self.since, None
        if since is not None:
            seconds = round(time.monotonic() - since, 3)
            self._telemetry.log("info", "the server is back", place=self._place, seconds=seconds)


class Asking:
    """Around each use of a server: other threads go on meanwhile, and how it ends is heard.

    One class for both, since two of them are felt at every save.
    """

    __slots__ = ("_baton", "_laid", "_outage")

    def __init__(self, baton: Baton | None, outage: Outage) -> None:
        self._baton = baton
        self._outage = outage

    def __enter__(self) -> None:
        self._laid = self._baton.lay_down() if self._baton else None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None or self._outage.since is not None:
                self._outage.ended(error)
        finally:
            if self._baton:
                self._baton.take_up(self._laid)


def check_call_timeout(seconds: object) -> float | None:
    """Return how long a server may take to answer, None for ever; raise `InvalidInputError` for what is no time."""
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= _LONGEST_CALL:
        raise InvalidInputError(
            f"call_timeout must be a number of seconds above 0, at most {_LONGEST_CALL}, or None, not {seconds!r}"
        )
    return seconds


def no_answer(seconds: float | None) -> str:
    """What is told of a call that took too long."""
    return f"no answer within {seconds} s (call_timeout)"
