"""`perdure sizes URL [THREAD]`: where the bytes are."""

from __future__ import annotations

from perdure.app.weighing import weigh_store, weigh_thread
from perdure.checkpoints.restoring import Restorer
from perdure.cli.common_options import ANY_STORE, Output, Owner, StoreOptions, opened_storage
from perdure.cli.lookup import find_row
from perdure.cli.output import progress, write, write_data
from perdure.core.identity import check_namespace
from perdure.core.ports import Silence
from perdure.core.weights import check_depth
from perdure.storage.drive import drive


def sizes(
    thread: str | None = None,
    /,
    *,
    user: Owner = None,
    depth: int = 2,
    threads: int = 10,
    namespace: str | None = None,
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> None:
    """Say where the bytes of a storage or of a thread are.

    Of a storage: what it has, and its largest threads. Of a thread: its log by kind of entry, and its newest state down
    to the key.

    Parameters
    ----------
    thread
        The id of a thread.
    depth
        How far to look into the state.
    threads
        How many of the largest threads to name.
    namespace
        Only threads of this namespace.
    """
    with opened_storage(at) as storage, progress("threads") as tell:
        if thread is None:
            named = None if namespace is None else check_namespace(namespace)
            done = drive(weigh_store(storage, named, threads, tell))
        else:
            row = find_row(storage, namespace or "", thread, user)
            head = drive(Restorer(storage, Silence()).restore(row.key, row.head))
            done = drive(weigh_thread(storage, row, row.head, head.document, check_depth(depth)))
    if output != "table":
        write_data(done, output)
    else:
        write(str(done))
