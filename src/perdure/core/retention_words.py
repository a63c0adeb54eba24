"""How retention speaks: numbers, names and tables for people."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.printable import printable


def days(count: float) -> str:
    """1 day, 0.5 days; 7 and 7.0 are both 7 days."""
    whole = int(count) if isinstance(count, float) and count.is_integer() else count
    return f"{whole} day" if whole == 1 else f"{whole} days"


def ordinal(rank: int) -> str:
    """1st, 2nd, 3rd, 4th, 11th …"""
    teen = rank % 100 in (11, 12, 13)
    return f"{rank:,}{'th' if teen else {1: 'st', 2: 'nd', 3: 'rd'}.get(rank % 10, 'th')}"


def shown(name: str | None) -> str:
    """A name as it is; quoted where it would break a line or a column, vanish or be taken for another; "-" for none."""
    if name is None:
        return "-"
    plain = printable(name) == name and name.strip() == name and "  " not in name and name not in ("", "-")
    return name if plain else printable(repr(name))


def table(rows: Sequence[Sequence[str]], right: frozenset[str]) -> list[str]:
    """Lines of aligned columns below the first row; the named columns stand to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    aligned = [
        [cell.rjust(width) if head in right else cell.ljust(width) for head, cell, width in zip(*line, strict=True)]
        for line in ((rows[0], row, widths) for row in rows)
    ]
    return ["  ".join(cells).rstrip() for cells in aligned]
