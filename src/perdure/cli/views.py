"""`perdure views`: SQL views of threads, states and messages, for people who live in SQL."""

from __future__ import annotations

from perdure.cli.common_options import HERE, Flag, Output, ThreadOptions, opened_store
from perdure.cli.output import write, write_data


def views(*, drop: Flag = False, at: ThreadOptions = HERE, output: Output = "table") -> None:
    """Bring SQL views of threads, states and messages up with the logs.

    The first call makes them: agent_threads, agent_states and agent_messages, with states and messages as JSON. Only
    threads that were written to since the last call are read.

    Parameters
    ----------
    drop
        Remove the views, of all namespaces, and everything that they hold.
    """
    with opened_store(at) as store:
        if drop:
            removed = store.drop_views()
            if output == "table":
                write("removed            the views" if removed else "there are no views")
            else:
                write_data({"removed": removed}, output)
            return
        done = store.refresh_views()
    if output == "table":
        write(str(done))
    else:
        write_data(done, output)
