"""`perdure compact`: disk that nothing uses any more goes back to the system."""

from __future__ import annotations

from perdure.cli.common_options import ANY_STORE, Output, StoreOptions, opened_store
from perdure.cli.output import write, write_data
from perdure.core.weights import shown_bytes


def compact(*, at: StoreOptions = ANY_STORE, output: Output = "table") -> None:
    """Give disk space that nothing uses any more back to the system.

    Prints first who has to wait meanwhile. What is stored does not change.
    """
    with opened_store(at) as store:
        waits = store.compacting()
        if output == "table":
            write(f"meanwhile          {waits}")
        freed = store.compact()
    if output == "table":
        write(f"given back         {shown_bytes(freed)}")
    else:
        write_data({"waits": waits, "bytes": freed}, output)
