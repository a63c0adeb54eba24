"""What commands on an open store share: opening it untouched, and users as its threads have them."""

from __future__ import annotations

from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from perdure.app import store as app
from perdure.app.store import parts_of
from perdure.app.users import UserArg
from perdure.cli.parameters import Server
from perdure.cli.places import check_there, place_of, warn_of_exposed_files
from perdure.core.identity import ANY_USER
from perdure.sync import Perdure

T = TypeVar("T")


@contextmanager
def opened_store(url: str, at: Server) -> Generator[Perdure]:
    """The store at a place; one that is not there, or has an older layout, is refused and stays as it is."""
    address, options = place_of(url, at)
    check_there(address)
    warn_of_exposed_files(address, options)
    with Perdure.open(address, **options) as store:
        yield store


def inner(store: Perdure) -> app.Perdure:
    """The store inside of a synchronous one."""
    return store._store  # pyright: ignore[reportPrivateUsage]


def driven(store: Perdure, work: Coroutine[Any, Any, T]) -> T:
    """What a synchronous store has no method for."""
    return store._run(work)  # pyright: ignore[reportPrivateUsage]


def user_of(user: str | None, store: Perdure | app.Perdure) -> UserArg:
    """A user as it was typed; "" is nobody. Without one an operator means everybody, or the only match."""
    if user is None:
        return ANY_USER
    return parts_of(inner(store) if isinstance(store, Perdure) else store).users.typed(user)
