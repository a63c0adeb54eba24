"""`perdure forget USER`: everything of a user is erased, after showing what there is."""

from __future__ import annotations

from typing import Any

from perdure.app.store import parts_of
from perdure.cli.common_options import (
    HERE,
    DryRun,
    Flag,
    Output,
    ThreadOptions,
    Yes,
    check_can_ask,
    confirmed,
    fields_of_struct,
    inner,
    opened_store,
)
from perdure.cli.output import progress, write_data, write_lines
from perdure.core.erasure import Forgotten
from perdure.core.retention_words import shown


def forget(
    user: str,
    /,
    *,
    yes: Yes = False,
    dry_run: DryRun = False,
    force: Flag = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Erase everything of a user, after showing what there is.

    Threads, messages, runs, questions, tool results, forks, imports, cached values, items of LangGraph's store. What
    cannot be reached from here, such as backups, is named. It cannot be undone; interrupted, run it again. Exit code 1
    when something was left, or you said no.

    Parameters
    ----------
    user
        Whose threads; an id that only looks alike is somebody else.
    force
        Also threads that are being run: their runs stop at the next write.
    """
    if not (yes or dry_run):
        check_can_ask()
    with opened_store(at) as store:
        whose: Any = parts_of(inner(store)).users.typed(user)
        if not yes or dry_run:
            with progress("threads") as tell:
                found = store.forget(whose, progress=lambda done, total, _: tell(done, total))
            if dry_run or not found.threads:
                return _answered(found, output)
            _write(found)
            confirmed(_question(found), yes)
        with progress("threads") as tell:
            done = store.forget(whose, dry_run=False, force=force, progress=lambda done, total, _: tell(done, total))
    return _answered(done, output)


def _question(found: Forgotten) -> str:
    count = len(found.threads)
    return f"Erase {count:,} thread{'' if count == 1 else 's'} of {shown(str(found.user))} for good?"


def _answered(done: Forgotten, output: Output) -> int:
    if output == "table":
        _write(done)
    else:
        write_data(fields_of_struct(done) | {"counts": done.counts, "is_complete": done.is_complete}, output)
    return 0 if done.dry_run or done.is_complete else 1


def _write(done: Forgotten) -> None:
    write_lines((line, "red" if line.startswith("  left: ") else "") for line in str(done).split("\n"))
