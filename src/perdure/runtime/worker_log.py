"""What a worker says of its runs: one line when it takes one up, and one when that run leaves it."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from perdure.core.calls import reason
from perdure.core.errors import HandlerMissingError, StorageError
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.runs import DEAD, FAILED, PAUSED
from perdure.core.threads import ThreadRow
from perdure.core.vocabulary import nearest

if TYPE_CHECKING:
    from perdure.runtime.run import Run

LOGGER = "perdure.worker"
_AGAIN = 3600 * 1_000_000  # microseconds until a name that nobody registers is told of again
_TOLD = 1000  # names that are remembered
_LONGEST = 200  # characters of an error
_SECOND = 1_000_000
_log = logging.getLogger(LOGGER)


class WorkerLog:
    """Writes the lines of one worker to the logger `"perdure.worker"`."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}  # names that nobody registers, and when they were told of

    @contextmanager
    def of(self, run: Run) -> Generator[None]:
        """Around a run that was taken up."""
        began = run.runtime.clock.now()
        attempt = f", attempt {run.attempt}" if run.attempt > 1 else ""
        _log.info("took up %s%s", _named(run), attempt)
        try:
            yield
        except BaseException as exc:
            _raised(run, exc, began)
            raise
        _left(run, began)

    def strangers(self, rows: Sequence[ThreadRow], known: Sequence[str], now: int) -> None:
        """Warn of runs that wait for a handler that is not registered here; of each name once, and rarely again."""
        counts: dict[str, int] = {}
        for row in rows:
            counts[row.agent or ""] = counts.get(row.agent or "", 0) + 1
        for name, count in counts.items():
            last = self._told.get(name)
            if last is not None and 0 <= now - last < _AGAIN:
                continue
            if len(self._told) >= _TOLD:
                self._told.clear()
            self._told[name] = now
            near = nearest(name, known)
            advice = "register it in a process that serves this store" if near is None else f"did you mean {near!r}?"
            _log.warning(
                "%s of handler %s %s due, and nobody takes %s up: no such handler is registered here; %s",
                "1 run" if count == 1 else f"{count:,} runs", shown(name), "is" if count == 1 else "are",
                "it" if count == 1 else "them", printable(advice),
            )  # fmt: skip


def _named(run: Run) -> str:
    started = run.current.started
    return f"{started.run} of thread {shown(run.journal.key.id)}: handler {shown(started.name)}"


def _took(run: Run, began: int) -> str:
    return f"{max(0, run.runtime.clock.now() - began) / _SECOND:.1f} s"


def _left(run: Run, began: int) -> None:
    """A run that ended, or that waits."""
    if run.over:
        _log.info("finished %s, in %s", _named(run), _took(run, began))
    elif run.journal.status == DEAD:
        _log.warning("failed for good %s: its process died again and again", _named(run))
    elif run.journal.status == PAUSED:
        _log.info("paused %s: it waits for a person (perdure pauses)", _named(run))
    else:
        _log.info("paused %s: it waits for a signal or a time", _named(run))


def _raised(run: Run, error: BaseException, began: int) -> None:
    """A run that failed, or that another one goes on with."""
    text = printable(f"{type(error).__name__}: {reason(error)}")[:_LONGEST]
    if run.journal.held.lost is not None:
        _log.info("gave back %s: another owner has it", _named(run))
    elif isinstance(error, (StorageError, HandlerMissingError)):
        _log.warning("gave back %s: %s", _named(run), text)
    elif not isinstance(error, Exception):
        _log.info("gave back %s, after %s: the worker stops", _named(run), _took(run, began))
    elif run.journal.status == FAILED:
        _log.warning("failed %s: %s; it is tried again", _named(run), text)
    else:
        _log.warning("failed for good %s: %s; perdure why says more", _named(run), text)
