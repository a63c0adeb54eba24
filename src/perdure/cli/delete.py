"""`perdure delete`: threads go, with everything that belongs to them."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from perdure.cli.common_options import (
    HERE,
    DryRun,
    Output,
    Owner,
    ThreadOptions,
    Yes,
    confirmed,
    opened_store,
)
from perdure.cli.lookup import thread_of
from perdure.cli.output import write, write_data, write_error
from perdure.cli.problems import UsageError
from perdure.core.retention_words import shown


def delete(
    *threads: Annotated[str, Parameter(help="The ids of the threads; with --yes whole ids.")],
    dry_run: DryRun = False,
    yes: Yes = False,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Delete threads with everything that belongs to them. Their forks keep their history.

    Nothing is deleted unless all of them exist.
    """
    if not threads:
        raise UsageError("delete which threads? give their ids")
    with opened_store(at) as store:
        found = [thread_of(store, each, user, exact=yes and not dry_run) for each in dict.fromkeys(threads)]
        rows = [{"thread": each.id, "user": each.user, "entries": each.info().version} for each in found]
        if not dry_run:
            confirmed("\n".join([*map(_line, rows), f"Delete {_counted(len(found))} for good?"]), yes)
            for each in found:
                each.delete()
    if output != "table":
        write_data([{**row, "deleted": not dry_run} for row in rows], output)
        return
    for row in rows:
        write(f"{'would delete' if dry_run else 'deleted':<18} {_line(row)}")
    if dry_run:
        write_error("nothing was changed")


def _line(row: dict[str, Any]) -> str:
    owner = "" if row["user"] is None else f" of {shown(str(row['user']))}"
    return f"{shown(row['thread'])}{owner}, {row['entries']:,} entr{'y' if row['entries'] == 1 else 'ies'}"


def _counted(count: int) -> str:
    return f"{count:,} thread{'' if count == 1 else 's'}"
