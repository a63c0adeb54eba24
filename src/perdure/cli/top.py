"""`perdure top`: runs as they work, until Ctrl-C."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterator

from perdure.cli.common_options import (
    HERE,
    Flag,
    Output,
    Owned,
    ThreadOptions,
    opened_store,
    user_of,
)
from perdure.cli.durations import ago
from perdure.cli.lookup import short_ids, short_thread
from perdure.cli.output import Terminal, write_data, write_lines
from perdure.cli.pauses import now
from perdure.cli.runs import info_data
from perdure.core.errors import InvalidInputError
from perdure.core.printable import printable
from perdure.core.retention_words import shown, table
from perdure.runtime.infos import RunInfo
from perdure.sync import Perdure

_COLUMNS = ("status", "thread", "user", "agent", "run", "tries", "changed", "owner")
_SHORTEST_SECONDS = 0.2


def top(
    *,
    every: float = 2.0,
    once: Flag = False,
    user: Owned = None,
    limit: int = 20,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Watch runs as they work. Ctrl-C ends it. Without a terminal it prints once.

    Parameters
    ----------
    every
        Seconds between two looks.
    once
        Look once.
    limit
        At most this many runs, those that changed last.
    """
    if not every >= _SHORTEST_SECONDS:
        raise InvalidInputError(f"--every must be at least {_SHORTEST_SECONDS} seconds, not {every:g}")
    with opened_store(at) as store:
        if output != "table":
            write_data([info_data(each) for each in store.runs(limit, user=user_of(user, store))], output)
        elif once or not sys.stdout.isatty():
            write_lines(_lines(store, user, limit))
        else:
            Terminal().watch(_frames(store, user, limit, every))


def _frames(store: Perdure, user: str | None, limit: int, every: float) -> Iterator[list[tuple[str, str]]]:
    while True:
        yield _lines(store, user, limit)
        time.sleep(every)


def _lines(store: Perdure, user: str | None, limit: int) -> list[tuple[str, str]]:
    found = store.runs(limit, user=user_of(user, store))
    counts = Counter(each.status for each in found)
    head = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no runs"
    short = short_ids(each.id for each in found)
    columns, *rows = table([_COLUMNS, *(_row(each, short[each.id]) for each in found)], frozenset({"tries"}))
    at = now().strftime("%H:%M:%SZ")
    return [(f"{at}  {head}", "bold"), (columns, "dim"), *((row, "") for row in rows)]


def _row(run: RunInfo, short: str) -> tuple[str, ...]:
    user = None if run.user is None else str(run.user)
    owner = "" if run.owner is None else printable(run.owner)[:40]
    names = (shown(short_thread(run.thread)), shown(user), shown(run.agent), short)
    return (run.status, *names, str(run.attempts), ago(run.updated_at, now()), owner)
