"""The transactions that put lines of messages, take them away, and note how far logs were read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

from perdure.core.identity import ThreadKey
from perdure.core.messages import SHAPE, MessageRow, Owner, Projected, Projection
from perdure.core.threads import ThreadRow
from perdure.storage.sql.history import opened, pieces, thread
from perdure.storage.sql.reading import whose_rows
from perdure.storage.sql.rows import VERSIONS, StoredThread, line_values, read_to_of, sound_threads
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.words import Spoken, plain


async def projection(tx: Transaction, key: ThreadKey) -> Projection | None:
    """The projection of the contract."""
    found = await read_off(tx, key)
    return None if found is None else found[1]


async def read_off(tx: Transaction, key: ThreadKey) -> tuple[StoredThread, Projection] | None:
    """A thread, and how far it was read."""
    rows = await tx.rows(tx.sql.messages.PROJECTION, (bytes.fromhex(key.digest()),))
    if not rows:
        await thread(tx, key)  # raises for one that is damaged and not absent
        return None
    *line, shape, version, count = rows[0]
    stored = await opened(tx, key, tuple(line))
    if version is None:
        return stored, Projection(row=stored.row)
    shape, version, count = read_to_of((shape, version, count))
    return stored, Projection(row=stored.row, version=version, count=count, shape=shape)


async def project(tx: Transaction, made: Projected) -> bool:
    """The project of the contract."""
    seen = made.seen
    stored = await thread(tx, seen.row.key, lock=True)
    if stored is None or stored.row.uid != seen.row.uid:
        return False
    rows = await tx.rows(tx.sql.messages.READ_TO, (stored.number,))
    if (rows[0] if rows else (0, 0, SHAPE)) != (seen.version, seen.count, seen.shape):
        return False
    lines = {line.number: line for line in made.rows}
    for low, high in [(0, VERSIONS - 1)] if made.anew or not rows else _runs({*made.gone, *lines}):
        await _drop(tx, stored.place(low), stored.place(high))
    await _put(tx, stored, [lines[number] for number in sorted(lines)])
    await tx.run(tx.sql.messages.PUT_PROJECTION, (stored.number, SHAPE, made.version, made.count))
    return True


async def forget(tx: Transaction, number: int) -> None:
    """Drop everything that was read off the log of a thread."""
    await _drop(tx, number * VERSIONS, (number + 1) * VERSIONS - 1)
    await tx.run(tx.sql.messages.DROP_PROJECTION, (number,))


async def _drop(tx: Transaction, low: int, high: int) -> None:
    await tx.sql.dialect.words.drop(tx, low, high)
    await tx.run(tx.sql.messages.DROP_LINES, (low, high))


def _runs(numbers: Iterable[int]) -> Iterator[tuple[int, int]]:
    """Numbers as ranges without gaps, first and last of each."""
    run: tuple[int, int] | None = None
    for number in sorted(numbers):
        if run is not None and number > run[1] + 1:
            yield run
            run = None
        run = (number if run is None else run[0], number)
    if run is not None:
        yield run


async def _put(tx: Transaction, stored: StoredThread, lines: list[MessageRow]) -> None:
    if not lines:
        return
    words, columns = tx.sql.dialect.words, tx.sql.messages.columns
    place_of = await _places(tx, stored, lines)
    spoken = [Spoken(stored.place(line.number), line.micros, plain(line.words.split(" "))) for line in lines]
    values = (
        (*line_values(stored, line, place_of), *((words.kept(said.words),) if words.column else ()))
        for line, said in zip(lines, spoken, strict=True)
    )
    await tx.fill("message", columns, values)
    await words.put(tx, spoken)


async def _places(tx: Transaction, stored: StoredThread, lines: list[MessageRow]) -> Callable[[int], int]:
    """Where the entry of a version stands: that of a fork may be one of its parents'."""
    if all(line.version is None or line.version > stored.row.parent_version for line in lines):
        return stored.place
    history = await pieces(tx, stored, stored.row.head)

    def place(version: int) -> int:
        return next(owner.place(version) for owner, span in history if version > span.low)

    return place


async def unprojected(tx: Transaction, owner: Owner, limit: int) -> list[ThreadRow]:
    """The unprojected of the contract."""
    whose, user = whose_rows(owner.user)
    rows = await tx.rows(tx.sql.messages.unprojected(whose), (owner.namespace, *user, SHAPE, limit))
    return [each.row for each in sound_threads(rows)]
