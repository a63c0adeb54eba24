"""`perdure schema URL`: the layout of a storage, for people whose programs may not change one."""

from __future__ import annotations

from perdure.app.opening import Address, parse, plain_storage
from perdure.app.options import UserIdType, given
from perdure.cli.output import write_plain

_SQL = ("sqlite", "postgresql", "mysql")


def schema(url: str, /, *, schema: str | None = None, user_id_type: UserIdType = "string") -> None:
    """Print the SQL that sets up a storage, for people who run it themselves.

    Nothing is opened and nothing is changed. Afterwards `Perdure.open(url, migrate="check")` works.

    Parameters
    ----------
    url
        The address of the storage, such as sqlite:///agents.db.
    schema
        PostgreSQL: the schema that the tables are in.
    user_id_type
        Servers: the type of the column with user ids.
    """
    address = parse(url)
    options = given({"schema": schema, "user_id_type": user_id_type}, address.scheme)
    for statement in plain_storage(address, options).migration():
        write_plain(_line(address, statement))


def _line(address: Address, statement: str) -> str:
    """A statement of SQL with its end; the other storages have steps in words."""
    return f"{statement};\n" if address.scheme in _SQL else statement
