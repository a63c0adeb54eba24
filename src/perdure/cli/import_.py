"""`perdure import FILE`: the threads of an export into a storage."""

from __future__ import annotations

from perdure.app.copying import Outcome
from perdure.app.importing import check_readable, import_file
from perdure.cli.common_options import ANY_STORE, Flag, Output, StoreOptions, opened_storage
from perdure.cli.copy import tell_outcomes
from perdure.cli.output import progress, write, write_data, write_next
from perdure.cli.problems import UsageError
from perdure.core.identity import FROM_FILE
from perdure.storage.drive import drive


def import_(
    file: str,
    /,
    *,
    user: str | None = None,
    user_from_file: Flag = False,
    to: str | None = None,
    trust: Flag = False,
    overwrite: bool = False,
    namespace: str | None = None,
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> int:
    """Add the threads of an export to a store, which is set up if it is empty.

    They arrive quarantined: they run nothing, and no decision of the file counts, until `perdure trust`. The whole file
    is checked first; if anything is wrong, nothing is imported. Each thread is put in one transaction and read back.
    Again, it changes nothing; an export that has grown brings the thread up to date if a key of this storage signed it.

    Parameters
    ----------
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
    with opened_storage(at, "auto") as storage, progress("threads") as tell:
        work = import_file(
            storage, file, namespace=into, to=to, user=FROM_FILE if user is None else user, trust=trust,
            overwrite=overwrite, limits=at.limits,
            progress=lambda count, total, _: tell(count, total),
        )  # fmt: skip
        done = drive(work)
    if output == "table":
        tell_outcomes(done, "imported")
        count = sum(each.quarantined for each in done)
        if count:
            write(
                f"quarantined        {count:,} thread{'' if count == 1 else 's'}: nothing runs until you trust it",
                "yellow",
            )
            options = {"--file": file, "--namespace": into or None, "--dry-run": True}
            write_next(at.hint("trust", options=options))
    else:
        write_data(done, output)
    return 1 if any(each.outcome is Outcome.REFUSED for each in done) else 0
