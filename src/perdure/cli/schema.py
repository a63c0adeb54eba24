"""`perdure schema URL`: the layout of a storage, for people whose programs may not change one."""

from __future__ import annotations

from perdure.app.opening import Address, open_storage, parse
from perdure.core.ports import Silence


def schema(url: str, /) -> None:
    """Print the SQL that sets up a storage, for people who run it themselves.

    Nothing is opened and nothing is changed. Afterwards `Perdure.open(url, migrate="check")` works.

    Parameters
    ----------
    url
        The address of the storage, such as sqlite:///agents.db.
    """
    address = parse(url)
    for statement in open_storage(address, "sync", Silence()).migration():
        print(_line(address, statement))


def _line(address: Address, statement: str) -> str:
    """A statement of SQL with its end; the other storages have steps in words."""
    return f"{statement};\n" if address.scheme == "sqlite" else statement
