"""`perdure compact URL`: disk that nothing uses any more goes back to the system."""

from __future__ import annotations

from perdure.cli.output import write, write_json
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
    with opened_store(url, server) as store:
        waits = store.compacting()
        if output == "text":
            write(f"meanwhile          {waits}")
        freed = store.compact()
    if output == "json":
        write_json({"waits": waits, "bytes": freed})
    else:
        write(f"given back         {shown_bytes(freed)}")
