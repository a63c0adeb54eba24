"""Making and upgrading the layout."""

from __future__ import annotations

from perdure.core.errors import NotAStorageError, SchemaOutdatedError, SchemaTooNewError
from perdure.storage.contract import READS, SCHEMA, Migrate, Schema
from perdure.storage.sql.schema import run_step, steps_after
from perdure.storage.sql.transactions import SqlPort, Transaction


async def set_up(port: SqlPort, place: str, migrate: Migrate) -> Schema:
    """Find the layout, and make or upgrade it in a transaction that is alone."""
    found = await port.read(schema_of)
    if found is not None and found.schema >= SCHEMA:
        return checked(place, found)
    if migrate == "check":
        raise outdated(place, found)
    return checked(place, await port.write(upgrade))


def outdated(place: str, found: Schema | None) -> SchemaOutdatedError:
    """What a check of an old or empty place says."""
    reason = f"schema {found.schema}, this release writes {SCHEMA}" if found else "there are no tables of ours yet"
    return SchemaOutdatedError(place, reason)


async def schema_of(tx: Transaction) -> Schema | None:
    """The layout that is there; None when there is none."""
    if not await tx.rows(tx.sql.HAS_META):
        return None
    values = {name: int(value) for name, value in await tx.rows(tx.sql.META) if name in Schema.__struct_fields__}
    return Schema(schema=values["schema"], min_reader=values["min_reader"], min_writer=values["min_writer"])


async def upgrade(tx: Transaction) -> Schema:
    """Run the missing steps. The transaction is alone: of several processes one does it, the others find it done."""
    found = await schema_of(tx)
    for step in steps_after(found.schema if found else 0):
        for statement in run_step(step, tx.sql.dialect):
            await tx.run(statement)
    upgraded = await schema_of(tx)
    if upgraded is None:
        raise NotAStorageError("the database", "its layout could not be made")
    return upgraded


def checked(place: str, schema: Schema) -> Schema:
    """The layout, if this release may use it."""
    if schema.min_reader > SCHEMA or schema.min_writer > SCHEMA:
        needed = max(schema.min_reader, schema.min_writer)
        raise SchemaTooNewError(place, f"it needs a release that knows schema {needed}, this one knows {SCHEMA}")
    if schema.schema < READS:
        raise SchemaTooNewError(place, f"schema {schema.schema} is older than this release can read")
    return schema
