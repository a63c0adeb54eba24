"""`perdure export URL THREAD FILE`: a thread as one file."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from perdure.app.exporting import Exported, export_thread
from perdure.cli.common_options import ANY_STORE, Output, Owner, StoreOptions, ThreadId, opened_storage
from perdure.cli.lookup import find_row
from perdure.cli.output import progress, write, write_data
from perdure.core.printable import printable
from perdure.core.weights import shown_bytes
from perdure.storage.drive import drive
from perdure.storage.permissions import PRIVATE


def export(
    thread: ThreadId,
    file: str,
    /,
    *,
    user: Owner = None,
    forks: bool = False,
    unsigned: Annotated[bool, Parameter(negative="")] = False,
    namespace: str = "",
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> None:
    """Write a thread into one file that any store can import.

    The file is there whole or not at all. An export that was there is replaced, any other file is left alone. It is
    signed with the key of the storage, which is made at the first export (`perdure key show`).

    Parameters
    ----------
    file
        The file to write.
    forks
        Whether the threads that descend from it come along.
    unsigned
        Do not sign it: its threads are then quarantined wherever it is imported.
    namespace
        The namespace of the thread.
    """
    with opened_storage(at) as storage, progress("threads") as tell:
        row = find_row(storage, namespace, thread, user)
        work = export_thread(
            storage, row.key, file, forks=forks, sign=not unsigned, file_mode=at.options.get("file_mode", PRIVATE),
            progress=lambda count, total, _: tell(count, total),
        )  # fmt: skip
        done = drive(work)
    if output != "table":
        write_data(done, output)
    else:
        write(_told(done))


def _told(done: Exported) -> str:
    threads, entries = len(done.threads), done.entries
    count = f"{threads:,} thread{'' if threads == 1 else 's'}, {entries:,} entr{'y' if entries == 1 else 'ies'}"
    signed = "not signed" if done.key is None else f"signed with key {done.key}"
    return f"exported           {count}, {shown_bytes(done.bytes)} in {printable(done.path)}, {signed}"
