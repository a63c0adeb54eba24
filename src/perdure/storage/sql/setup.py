"""Making and upgrading the layout."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.storage.contract import Migrate, Schema
from perdure.storage.sql.schema import SchemaStep, run_step
from perdure.storage.sql.transactions import SqlPort, Transaction
from perdure.storage.steps import complete, steps_after, usable


async def set_up(port: SqlPort, place: str, migrate: Migrate, steps: Sequence[SchemaStep]) -> Schema:
    """Find the layout, and make or upgrade it in a transaction that is alone."""
    found = complete(place, await port.read(schema_of), steps, migrate)
    return found or usable(place, await port.write(lambda tx: upgrade(tx, steps)), steps)


async def schema_of(tx: Transaction) -> Schema | None:
    """The layout that is there; None when there is none."""
    if not await tx.rows(tx.sql.HAS_META):
        return None
    values = {name: int(value) for name, value in await tx.rows(tx.sql.META) if name in Schema.__struct_fields__}
    return Schema(schema=values["schema"], min_reader=values["min_reader"], min_writer=values["min_writer"])


async def upgrade(tx: Transaction, steps: Sequence[SchemaStep]) -> Schema:
    """Run the missing steps. The transaction is alone: of several processes one does it, the others find it done."""
    found = await schema_of(tx)
    for step in steps_after(steps, found):
        for statement in run_step(step, tx.sql.dialect):
            await tx.run(statement)
        found = step.schema
    return found or steps[-1].schema
