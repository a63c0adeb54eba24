"""`perdure views URL`: SQL views of threads, states and messages, for people who live in SQL."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from perdure.cli.output import write, write_json
from perdure.cli.parameters import HERE, Address, Output, Place
from perdure.cli.stores import opened_store

_Flag = Annotated[bool, Parameter(negative="")]


def views(url: Address, /, *, drop: _Flag = False, at: Place = HERE, output: Output = "text") -> None:
    """Bring SQL views of threads, states and messages up with the logs.

    The first call makes them: agent_threads, agent_states and agent_messages, with states and messages as JSON. Only
    threads that were written to since the last call are read.

    Parameters
    ----------
    drop
        Remove the views, of all namespaces, and everything that they hold.
    """
    with opened_store(url, at) as store:
        if drop:
            removed = store.drop_views()
            if output == "json":
                write_json({"removed": removed})
            else:
                write("removed            the views" if removed else "there are no views")
            return
        done = store.refresh_views()
    if output == "json":
        write_json(done)
    else:
        write(str(done))
