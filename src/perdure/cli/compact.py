"""`perdure compact URL`: disk that nothing uses any more goes back to the system."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perdure.cli.opened import as_json
from perdure.cli.parameters import ANY_SERVER, Address, Output, Server
from perdure.cli.stores import opened_store
from perdure.core.weights import shown_bytes


def compact(
    url: Address,
    /,
    *,
    server: Server = ANY_SERVER,
    output: Output = "text",
) -> None:
    """Give disk space that nothing uses any more back to the system.

    Says first who has to wait meanwhile. What is stored does not change.
    """
    console = Console(highlight=False)
    with opened_store(url, server) as store:
        waits = store.compacting()
        if output == "text":
            console.print(Text(f"meanwhile          {waits}"), soft_wrap=True)
        freed = store.compact()
    text = f"given back         {shown_bytes(freed)}" if output == "text" else as_json({"waits": waits, "bytes": freed})
    console.print(Text(text), soft_wrap=True)
