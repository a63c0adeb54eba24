"""What commands on one storage share: opening it, telling how far the work is, and answers for programs."""

from __future__ import annotations

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

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


@contextmanager
def telling(console: Console, output: str, what: str = "threads") -> Generator[Callable[[int, int], None]]:
    """A bar of what is done while the work goes on, on a terminal only."""
    columns = (TextColumn(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    disable = output == "json" or not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=disable) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


def as_json(value: Any) -> str:
    """A value for programs, with two spaces for people who look."""
    return msgspec.json.format(msgspec.json.encode(value), indent=2).decode()
