"""`perdure export URL THREAD FILE`: a thread as one file."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perdure.app.exporting import Exported, export_thread
from perdure.app.options import UserIdType
from perdure.cli.opened import Output, as_json, found, opened, telling
from perdure.core.weights import shown_bytes
from perdure.storage.drive import drive


def export(
    url: str,
    thread: str,
    file: str,
    /,
    *,
    user: str | None = None,
    forks: bool = False,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """Write a thread into one file that any store can import.

    The file is there whole or not at all. An export that was there is replaced, any other file is left alone.

    Parameters
    ----------
    url
        The address of the storage; nothing is changed there.
    thread
        The id of the thread.
    file
        The file to write.
    user
        Whose thread it is, where several users have one of this id; "" for nobody's.
    forks
        Whether the threads that descend from it come along.
    namespace
        The namespace of the thread.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    console = Console(highlight=False)
    with opened(url, schema, user_id_type) as storage, telling(console, output) as tell:
        row = found(storage, namespace, thread, user)
        done = drive(
            export_thread(storage, row.key, file, forks=forks, progress=lambda count, total, _: tell(count, total))
        )
    console.print(Text(_told(done) if output == "text" else as_json(done)), soft_wrap=True)


def _told(done: Exported) -> str:
    threads, entries = len(done.threads), done.entries
    count = f"{threads:,} thread{'' if threads == 1 else 's'}, {entries:,} entr{'y' if entries == 1 else 'ies'}"
    return f"exported           {count}, {shown_bytes(done.bytes)} in {done.path}"
