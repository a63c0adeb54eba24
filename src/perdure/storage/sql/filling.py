"""Adding many rows where a database has no way of its own for it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

from perdure.storage.sql.rows import Row
from perdure.storage.sql.transactions import Transaction

_ROWS, _BYTES = 100, 1 << 19  # of one INSERT


async def fill_in_batches(tx: Transaction, table: str, columns: Sequence[str], rows: Iterable[Row]) -> None:
    """The `fill` of such a database: many rows with each INSERT."""
    batch: list[Row] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, bytes | str))
        if len(batch) == _ROWS or size > _BYTES:
            await _insert(tx, table, columns, batch)
            batch, size = [], 0
    if batch:
        await _insert(tx, table, columns, batch)


async def _insert(tx: Transaction, table: str, columns: Sequence[str], batch: list[Row]) -> None:
    dialect = tx.sql.dialect
    await tx.run(dialect.bound(dialect.insert(table, columns, len(batch))), tuple(chain.from_iterable(batch)))
