"""`perdure restored `: what has to be done after a storage was restored from a backup."""

from __future__ import annotations

import getpass

from perdure.cli.common_options import HERE, Output, ThreadOptions, opened_store
from perdure.cli.output import write, write_data


def restored(*, by: str | None = None, at: ThreadOptions = HERE, output: Output = "table") -> None:
    """Make a storage that was restored from a backup safe to use.

    Run it once, before anything else opens the storage. Caches of before are not believed any more, and every
    unfinished run of all namespaces waits until somebody trusts its thread (`perdure trust`).

    Parameters
    ----------
    by
        Who restored it, as it stands in the logs; your account by default.
    """
    with opened_store(at) as store:
        done = store.restored(by=by or getpass.getuser())
    if output == "table":
        write(str(done))
    else:
        write_data(done, output)
