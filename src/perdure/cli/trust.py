"""`perdure trust URL THREAD` and `perdure trust URL --file FILE`: imported threads are let run."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from perdure.cli.main import UsageError
from perdure.cli.output import Terminal, write, write_json, write_lines
from perdure.cli.parameters import HERE, Address, Output, Owner, Place
from perdure.cli.stores import opened_store, user_of
from perdure.cli.values import data
from perdure.core.retention_words import shown
from perdure.core.trust_preview import TrustPreview
from perdure.sync import Perdure

_Flag = Annotated[bool, Parameter(negative="")]


def trust(
    url: Address,
    thread: str | None = None,
    /,
    *,
    file: str | None = None,
    by: str | None = None,
    user: Owner = None,
    yes: _Flag = False,
    dry_run: _Flag = False,
    at: Place = HERE,
    output: Output = "text",
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
    yes
        Do not ask.
    dry_run
        Only show what would go on.
    """
    if (thread is None) == (file is None):
        raise UsageError("name what to trust: the THREAD, or --file FILE for all threads that came from it")
    name = by or getpass.getuser()
    with opened_store(url, at) as store:
        whose = user_of(user, store)
        if thread is not None:
            found = [store.trust(thread, by=name, user=whose, dry_run=True)]
        else:
            found = store.trust_file(str(file), by=name, user=whose, dry_run=True)
        waiting = [each for each in found if each.is_quarantined]
        if output == "json":
            write_json([_data(each) for each in found])
        else:
            write_lines((line, "") for line in _lines(found))
        if dry_run or not waiting:
            return 0
        if not (yes or _is_confirmed(len(waiting))):
            return 1
        _trust(store, waiting, name)
    if output == "text":
        write(f"trusted            {_counted(len(waiting))}, by {shown(name)}")
    return 0


def _trust(store: Perdure, found: Sequence[TrustPreview], by: str) -> None:
    """Exactly what was shown."""
    for each in found:
        store.trust(each.thread, by=by, user="" if each.user is None else each.user, version=each.version)


def _is_confirmed(count: int) -> bool:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError("nobody can be asked here: say --yes, or --dry-run to only look")
    answer = Terminal().ask(f"Trust {_counted(count)} and let this go on? [y/N]")
    return answer.strip().lower() in ("y", "yes")


def _lines(found: Sequence[TrustPreview]) -> list[str]:
    if not found:
        return ["no quarantined thread came from this file"]
    return [line for each in found for line in str(each).split("\n")]


def _counted(count: int) -> str:
    return f"{count:,} thread{'' if count == 1 else 's'}"


def _data(found: TrustPreview) -> dict[str, Any]:
    runs = [data(run, "input") | {"unverified": [data(each, "args") for each in run.unverified]} for run in found.runs]
    return data(found) | {
        "runs": runs,
        "decisions": [data(each, "args", "answer") for each in found.decisions],
        "pauses": [data(each, "args") for each in found.pauses],
    }
