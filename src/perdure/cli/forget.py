"""`perdure forget URL USER`: everything of a user is erased, after showing what there is."""

from __future__ import annotations

import sys
from typing import Annotated, Any

from cyclopts import Parameter

from perdure.app.store import parts_of
from perdure.cli.main import UsageError
from perdure.cli.output import Terminal, progress, write_json, write_lines
from perdure.cli.parameters import HERE, Address, Output, Place
from perdure.cli.stores import inner, opened_store
from perdure.cli.values import data
from perdure.core.erasure import Forgotten
from perdure.core.retention_words import shown

_Flag = Annotated[bool, Parameter(negative="")]


def forget(
    url: Address,
    user: str,
    /,
    *,
    yes: _Flag = False,
    dry_run: _Flag = False,
    force: _Flag = False,
    at: Place = HERE,
    output: Output = "text",
) -> int:
    """Erase everything of a user, after showing what there is.

    Threads, messages, runs, questions, tool results, forks, imports, cached values, items of LangGraph's store. What
    cannot be reached from here, such as backups, is named. It cannot be undone; interrupted, run it again. Exit code 1
    when something was left, or you said no.

    Parameters
    ----------
    user
        Whose threads; an id that only looks alike is somebody else.
    yes
        Do not ask.
    dry_run
        Only show what there is.
    force
        Also threads that are being run: their runs stop at the next write.
    """
    asks = not (yes or dry_run)
    if asks and (output == "json" or not (sys.stdin.isatty() and sys.stdout.isatty())):
        raise UsageError("nobody can be asked here: say --yes to erase, or --dry-run to only look")
    with opened_store(url, at) as store:
        whose: Any = parts_of(inner(store)).users.typed(user)
        if not yes or dry_run:
            with progress("threads", output) as tell:
                found = store.forget(whose, progress=lambda done, total, _: tell(done, total))
            if dry_run or not found.threads:
                return _answered(found, output)
            _write(found)
            if not _is_confirmed(found):
                return 1
        with progress("threads", output) as tell:
            done = store.forget(whose, dry_run=False, force=force, progress=lambda done, total, _: tell(done, total))
    return _answered(done, output)


def _is_confirmed(found: Forgotten) -> bool:
    count = len(found.threads)
    question = f"Erase {count:,} thread{'' if count == 1 else 's'} of {shown(str(found.user))} for good? [y/N]"
    return Terminal().ask(question).strip().lower() in ("y", "yes")


def _answered(done: Forgotten, output: Output) -> int:
    if output == "json":
        write_json(data(done) | {"counts": done.counts, "is_complete": done.is_complete})
    else:
        _write(done)
    return 0 if done.dry_run or done.is_complete else 1


def _write(done: Forgotten) -> None:
    write_lines((line, "red" if line.startswith("  left: ") else "") for line in str(done).split("\n"))
