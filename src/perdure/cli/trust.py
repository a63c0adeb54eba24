"""`perdure trust THREAD` and `perdure trust --file FILE`: imported threads may run from then on."""

from __future__ import annotations

import getpass
from collections.abc import Sequence
from typing import Any

from perdure.cli.common_options import (
    HERE,
    DryRun,
    Output,
    Owner,
    ThreadOptions,
    Yes,
    confirmed,
    fields_of_struct,
    opened_store,
    user_of,
)
from perdure.cli.lookup import thread_of
from perdure.cli.output import write, write_data, write_lines
from perdure.cli.problems import UsageError
from perdure.core.retention_words import shown
from perdure.core.trust_preview import TrustPreview
from perdure.sync import Perdure


def trust(
    thread: str | None = None,
    /,
    *,
    file: str | None = None,
    by: str | None = None,
    user: Owner = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Let imported threads run, after showing what would go on.

    Shown are runs that are not over, tools of which nobody knows whether they ran, decisions that would count, timers
    and open questions. A thread that is written to meanwhile is refused.

    Parameters
    ----------
    thread
        The id of the thread.
    file
        All quarantined threads that came from this file, instead of a thread.
    by
        Who trusts them, as it stands in the log; your account by default.
    """
    if (thread is None) == (file is None):
        raise UsageError("name what to trust: the THREAD, or --file FILE for all threads that came from it")
    name = by or getpass.getuser()
    with opened_store(at) as store:
        if thread is not None:
            found = [store.trust(thread_of(store, thread, user), by=name, dry_run=True)]
        else:
            found = store.trust_file(str(file), by=name, user=user_of(user, store), dry_run=True)
        waiting = [each for each in found if each.is_quarantined]
        if output != "table":
            write_data([_data(each) for each in found], output)
        else:
            write_lines((line, "") for line in _lines(found))
        if dry_run or not waiting:
            return 0
        confirmed(f"Trust {_counted(len(waiting))} and let this go on?", yes)
        _trust(store, waiting, name)
    if output == "table":
        write(f"trusted            {_counted(len(waiting))}, by {shown(name)}")
    return 0


def _trust(store: Perdure, found: Sequence[TrustPreview], by: str) -> None:
    """Exactly what was shown."""
    for each in found:
        store.trust(each.thread, by=by, user="" if each.user is None else each.user, version=each.version)


def _lines(found: Sequence[TrustPreview]) -> list[str]:
    if not found:
        return ["no quarantined thread came from this file"]
    return [line for each in found for line in str(each).split("\n")]


def _counted(count: int) -> str:
    return f"{count:,} thread{'' if count == 1 else 's'}"


def _data(found: TrustPreview) -> dict[str, Any]:
    runs = [
        fields_of_struct(run, "input") | {"unverified": [fields_of_struct(each, "args") for each in run.unverified]}
        for run in found.runs
    ]
    return fields_of_struct(found) | {
        "runs": runs,
        "decisions": [fields_of_struct(each, "args", "answer") for each in found.decisions],
        "pauses": [fields_of_struct(each, "args") for each in found.pauses],
    }
