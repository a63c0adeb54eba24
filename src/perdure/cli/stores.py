"""What commands on an open store share: opening it untouched, and users as its threads have them."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

from perdure.app.options import StorageOptions, UserIdType
from perdure.app.users import UserId
from perdure.cli.places import check_there
from perdure.core.errors import InvalidIdError
from perdure.sync import Perdure


@contextmanager
def opened_store(url: str, namespace: str, schema: str | None, user_id_type: UserIdType | None) -> Generator[Perdure]:
    """The store at an address; one that is not there, or has an older layout, is refused and stays as it is."""
    check_there(url)
    options: StorageOptions = {"schema": schema}
    if user_id_type is not None:
        options["user_id_type"] = user_id_type
    with Perdure.open(url, namespace=namespace, migrate="check", **options) as store:
        yield store


def user_of(user: str | None, user_id_type: UserIdType | None) -> UserId | None:
    """A user as it was typed; "" is nobody."""
    if not user or user_id_type in (None, "string"):
        return user
    try:
        return int(user)
    except ValueError:
        raise InvalidIdError("the user id", f"is {user!r}, and user_id_type is {user_id_type!r}") from None
