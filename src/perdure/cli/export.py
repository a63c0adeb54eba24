"""`perdure export URL THREAD FILE`: a thread as one file."""

from __future__ import annotations

from perdure.app.exporting import Exported, export_thread
from perdure.cli.opened import found, opened
from perdure.cli.output import progress, write, write_json
from perdure.cli.parameters import ANY_SERVER, Output, Owner, Server, ThreadId, Untouched
from perdure.core.printable import printable
from perdure.core.weights import shown_bytes
from perdure.storage.drive import drive
from perdure.storage.permissions import PRIVATE


def export(
    url: Untouched,
    thread: ThreadId,
    file: str,
    /,
    *,
    user: Owner = None,
    forks: bool = False,
    namespace: str = "",
    server: Server = ANY_SERVER,
    output: Output = "text",
) -> None:
    """Write a thread into one file that any store can import.

    The file is there whole or not at all. An export that was there is replaced, any other file is left alone.

    Parameters
    ----------
    file
        The file to write.
    forks
        Whether the threads that descend from it come along.
    namespace
        The namespace of the thread.
    """
    with opened(url, server) as storage, progress("threads", output) as tell:
        row = found(storage, namespace, thread, user)
        work = export_thread(
            storage, row.key, file, forks=forks, file_mode=server.options.get("file_mode", PRIVATE),
            progress=lambda count, total, _: tell(count, total),
        )  # fmt: skip
        done = drive(work)
    if output == "json":
        write_json(done)
    else:
        write(_told(done))


def _told(done: Exported) -> str:
    threads, entries = len(done.threads), done.entries
    count = f"{threads:,} thread{'' if threads == 1 else 's'}, {entries:,} entr{'y' if entries == 1 else 'ies'}"
    return f"exported           {count}, {shown_bytes(done.bytes)} in {printable(done.path)}"
