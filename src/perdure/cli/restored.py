"""`perdure restored URL`: what has to be done after a storage was restored from a backup."""

from __future__ import annotations

import getpass

from perdure.cli.output import write, write_json
from perdure.cli.parameters import HERE, Address, Output, Place
from perdure.cli.stores import opened_store


def restored(url: Address, /, *, by: str | None = None, at: Place = HERE, output: Output = "text") -> None:
    """Make a storage that was restored from a backup safe to use.

    Run it once, before anything else opens the storage. Caches of before are not believed any more, and every
    unfinished run of all namespaces waits until somebody trusts its thread (`perdure trust`).

    Parameters
    ----------
    by
        Who restored it, as it stands in the logs; your account by default.
    """
    with opened_store(url, at) as store:
        done = store.restored(by=by or getpass.getuser())
    if output == "text":
        write(str(done))
    else:
        write_json(done)
