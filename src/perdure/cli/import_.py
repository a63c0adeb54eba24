"""`perdure import URL FILE`: the threads of an export into a storage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from cyclopts import Parameter

from perdure.app.copying import Copied, Outcome
from perdure.app.importing import check_readable, import_file
from perdure.cli.copy import tell_outcomes
from perdure.cli.hints import hint
from perdure.cli.main import UsageError
from perdure.cli.opened import opened
from perdure.cli.output import progress, write_json, write_lines
from perdure.cli.parameters import ANY_SERVER, Output, Server
from perdure.core.identity import FROM_FILE
from perdure.storage.drive import drive

_Flag = Annotated[bool, Parameter(negative="")]


def import_(
    url: str,
    file: str,
    /,
    *,
    user: str | None = None,
    user_from_file: _Flag = False,
    to: str | None = None,
    trust: _Flag = False,
    overwrite: bool = False,
    namespace: str | None = None,
    server: Server = ANY_SERVER,
    output: Output = "text",
) -> int:
    """Add the threads of an export to a storage.

    They arrive quarantined: they run nothing, and no decision of the file counts, until `perdure trust`. The whole file
    is checked first; if anything is wrong, nothing is imported. Each thread is put in one transaction and read back.
    Again, it changes nothing; an export that has grown brings the thread up to date if a key of this storage signed it.

    Parameters
    ----------
    url
        The address of the storage; it is set up if it is empty.
    file
        The export.
    user
        Whose the threads are; "" for nobody.
    user_from_file
        Give each thread to the owner, and put it into the namespace, that the file names: for backups of your own.
    to
        Another id for the thread; its forks are then called TO/FORK.
    trust
        For backups: threads of a file that a key of this storage signed are awake if they were. Others are refused.
    overwrite
        Whether a thread of the same id with another history is deleted first.
    namespace
        The namespace of the threads.
    """
    if (user is None) == (not user_from_file):
        raise UsageError("say whose the imported threads are: --user NAME, --user '', or --user-from-file for backups")
    into = namespace if namespace is not None or user_from_file else ""
    check_readable(file)
    with opened(url, server, "auto") as storage, progress("threads", output) as tell:
        work = import_file(
            storage, file, namespace=into, to=to, user=FROM_FILE if user is None else user, trust=trust,
            overwrite=overwrite, limits=server.limits,
            progress=lambda count, total, _: tell(count, total),
        )  # fmt: skip
        done = drive(work)
    if output == "text":
        tell_outcomes(done, "imported")
        write_lines((line, "yellow") for line in _quarantined(done, url, file, into))
    else:
        write_json(done)
    return 1 if any(each.outcome is Outcome.REFUSED for each in done) else 0


def _quarantined(done: Sequence[Copied], url: str, file: str, namespace: str | None) -> list[str]:
    """How many run nothing yet, and what to type."""
    count = sum(each.quarantined for each in done)
    if not count:
        return []
    look = hint("trust", url, [], {"--file": file, "--namespace": namespace or None, "--dry-run": True})
    said = f"{count:,} thread{'' if count == 1 else 's'}"
    return [f"quarantined        {said}: nothing runs until you trust it; what would go on: {look}"]
