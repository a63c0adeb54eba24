"""`perdure import URL FILE`: the threads of an export into a storage."""

from __future__ import annotations

from perdure.app.copying import Outcome
from perdure.app.importing import check_readable, import_file
from perdure.cli.copy import tell_outcomes
from perdure.cli.opened import opened
from perdure.cli.output import progress, write_json
from perdure.cli.parameters import ANY_SERVER, Output, Server
from perdure.storage.drive import drive


def import_(
    url: str,
    file: str,
    /,
    *,
    to: str | None = None,
    user: str | None = None,
    overwrite: bool = False,
    namespace: str | None = None,
    server: Server = ANY_SERVER,
    output: Output = "text",
) -> int:
    """Add the threads of an export to a storage.

    The whole file is checked first; if anything is wrong, nothing is imported. Each thread is put in one transaction
    and read back. Again, it changes nothing; an export that has grown brings the thread up to date.

    Parameters
    ----------
    url
        The address of the storage; it is set up if it is empty.
    file
        The export.
    to
        Another id for the thread; its forks are then called TO/FORK.
    user
        Another owner; "" for nobody.
    overwrite
        Whether a thread of the same id with another history is deleted first.
    namespace
        Another namespace.
    """
    check_readable(file)
    with opened(url, server, "auto") as storage, progress("threads", output) as tell:
        work = import_file(
            storage, file, namespace=namespace, to=to, user=user, overwrite=overwrite,
            progress=lambda count, total, _: tell(count, total), limits=server.limits,
        )  # fmt: skip
        done = drive(work)
    if output == "text":
        tell_outcomes(done, "imported")
    else:
        write_json(done)
    return 1 if any(each.outcome is Outcome.REFUSED for each in done) else 0
