"""What commands on one storage share: opening it, and finding a thread there."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure.app.opening import parse, plain_storage
from perdure.app.options import given
from perdure.cli.parameters import Server
from perdure.cli.places import check_there, warn_of_exposed_files
from perdure.core.errors import AmbiguousThreadError, NotFoundError
from perdure.core.identity import ThreadKey, check_id, check_namespace
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Migrate, Storage
from perdure.storage.drive import drive


@contextmanager
def opened(url: str, server: Server, migrate: Migrate = "check") -> Generator[Storage]:
    """The storage at an address; one that is not there is made only with "auto"."""
    if migrate == "check":
        check_there(url)
    address = parse(url)
    options = given(server.options, address.scheme)
    warn_of_exposed_files(url, options)
    storage = plain_storage(address, options)
    try:
        drive(storage.setup(migrate))
        yield storage
    finally:
        drive(storage.close())


def found(storage: Storage, namespace: str, thread: str, user: str | None) -> ThreadRow:
    """The line of the only thread of this id, or of that of a user."""
    check_namespace(namespace)
    check_id(thread, "the thread id")
    if user is not None:
        row = drive(storage.thread(ThreadKey(namespace, user, thread)))
        rows = [row] if row else []
    else:
        rows = drive(storage.find(namespace, thread))
    if len(rows) > 1:
        raise AmbiguousThreadError(thread, [row.key.user or None for row in rows])
    if not rows:
        raise NotFoundError(f"thread {thread!r}")
    return rows[0]
