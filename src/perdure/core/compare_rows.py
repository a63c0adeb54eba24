"""Lists side by side: which of their items stand in one row."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec import Raw

from perdure.core import json_patch
from perdure.core.align import Gap, Pair, gaps
from perdure.core.compare_items import Items, paired, same
from perdure.core.diff import Difference, differences, value_of

RowKind = Literal["same", "changed", "left", "right", "some"]
Cells = tuple[int | None, ...]


class Row(msgspec.Struct, frozen=True):
    """One message of each side, or of those that have it.

    `kind` is "same" or "changed" where all have it; of two sides, "left" or "right" where only that one has it; of
    more, "some". `indexes` tell its place in each list, None where it is missing.
    """

    kind: RowKind
    indexes: Cells
    encoded: tuple[Raw | None, ...]

    def __repr__(self) -> str:
        return f"Row({self.kind!r}, {self.indexes!r})"

    @property
    def values(self) -> tuple[Any, ...]:
        """The message on each side, `MISSING` where there is none."""
        return tuple(map(value_of, self.encoded))

    @property
    def old_index(self) -> int | None:
        """Its place in the first list."""
        return self.indexes[0]

    @property
    def new_index(self) -> int | None:
        """Its place in the last list."""
        return self.indexes[-1]

    @property
    def old(self) -> Any:
        """The message of the first side."""
        return value_of(self.encoded[0])

    @property
    def new(self) -> Any:
        """The message of the last side."""
        return value_of(self.encoded[-1])

    @property
    def differences(self) -> list[Difference]:
        """What was changed inside the message, from the first side to the last; [] where one of them has none."""
        old, new = self.encoded[0], self.encoded[-1]
        return [] if old is None or new is None else differences(old, new)

    def data(self) -> dict[str, Any]:
        """The row as JSON has it; messages that are the same everywhere are left out."""
        shown = {"kind": self.kind, "indexes": list(self.indexes)}
        if self.kind == "same":
            return shown
        return {**shown, "values": [None if each is None else json_patch.rendered(each) for each in self.encoded]}


def aligned(columns: Sequence[Items]) -> list[Row]:
    """Put lists side by side, each beside all before it: what two of them added stands in one row."""
    table = _Table(columns[0])
    for column in columns[1:]:
        table.add(column, paired(table.shown, column))
    return table.rows(columns)


def beside(old: Items, new: Items, pairs: Sequence[Pair]) -> list[Row]:
    """Put two lists side by side whose pairs are known."""
    table = _Table(old)
    table.add(new, pairs)
    return table.rows((old, new))


def first_that_differs(rows: Sequence[Row]) -> Row | None:
    """The first row that is not the same everywhere."""
    return next((row for row in rows if row.kind != "same"), None)


class _Table:
    """Rows that grow by a column at a time."""

    def __init__(self, column: Items) -> None:
        self.shown = column  # of each row, the message that stands for it
        self._cells: list[Cells] = [(index,) for index in range(len(column))]
        self._empty: Cells = (None,)

    def add(self, column: Items, pairs: Sequence[Pair]) -> None:
        """Add a column; what only it has gets rows of its own."""
        cells: list[Cells] = []
        shown: list[Raw] = []
        done = 0
        for at, left, right in (*gaps(pairs, len(self._cells), len(column)), Gap(len(pairs), range(0), range(0))):
            both = pairs[done:at]
            cells += [(*self._cells[i], j) for i, j in both]
            cells += [(*self._cells[i], None) for i in left] + [(*self._empty, j) for j in right]
            shown += [self.shown[i] for i, _ in both] + [self.shown[i] for i in left] + [column[j] for j in right]
            done = at
        self.shown, self._cells, self._empty = shown, cells, (*self._empty, None)

    def rows(self, columns: Sequence[Items]) -> list[Row]:
        """The rows with their messages."""
        return [_row(cells, columns) for cells in self._cells]


def _row(cells: Cells, columns: Sequence[Items]) -> Row:
    encoded = tuple([None if at is None else column[at] for at, column in zip(cells, columns, strict=True)])
    return Row(_kind(encoded), cells, encoded)


def _kind(encoded: tuple[Raw | None, ...]) -> RowKind:
    first, *others = encoded
    if first is not None and None not in others:
        return "same" if all(same(first, other) for other in others if other is not None) else "changed"
    if len(others) > 1:
        return "some"
    return "right" if first is None else "left"
