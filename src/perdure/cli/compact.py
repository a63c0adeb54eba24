"""`perdure compact URL`: disk that nothing uses any more goes back to the system."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perdure.app.options import UserIdType
from perdure.cli.opened import Output, as_json
from perdure.cli.stores import opened_store
from perdure.core.weights import shown_bytes


def compact(
    url: str,
    /,
    *,
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """Give disk space that nothing uses any more back to the system.

    Says first who has to wait meanwhile. What is stored does not change.

    Parameters
    ----------
    url
        The address of the storage.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    console = Console(highlight=False)
    with opened_store(url, "", schema, user_id_type) as store:
        waits = store.compacting()
        if output == "text":
            console.print(Text(f"meanwhile          {waits}"), soft_wrap=True)
        freed = store.compact()
    text = f"given back         {shown_bytes(freed)}" if output == "text" else as_json({"waits": waits, "bytes": freed})
    console.print(Text(text), soft_wrap=True)
