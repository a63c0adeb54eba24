"""The transactions that list messages, find them by their words, and add them up."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from perdure.core.identity import ThreadKey
from perdure.core.messages import SHAPE, MessageQuery, MessageRow, Owner, Projection, Tallies, Tally
from perdure.storage.sql.asking import (
    ALL,
    Asked,
    Whose,
    asked_of,
    asked_of_several,
    between,
    can_answer,
    has_words,
    is_searched,
    limit_of,
    order_of,
    whose_of,
)
from perdure.storage.sql.messages import read_off, unprojected
from perdure.storage.sql.rows import Row, StoredThread, line_of, tally_of
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.words import LISTED, Walk

_MORE = 10  # lines beyond a page, to see where the next moment begins
_LONG = 20_000  # lines of a thread that take longer to tell from all others than those with a word
_FEW_WORDS = 10
_NOTHING = Tallies(threads=0, roles=[])
_VERDICT = 16  # the column after a line with its thread
Look = Callable[[int, int], Coroutine[Any, Any, list[Row]]]  # at so many lines, for so many that answer


class _Behind(Exception):
    """A log is not read to its end."""


class _Judge:
    """Hears from the answers themselves whether the logs of an owner were read to their ends, until one has told.

    What a later question finds was read off since, and is only newer.
    """

    def __init__(self, tx: Transaction, owner: Owner, *, asks: bool) -> None:
        self._tx = tx
        self._owner = owner
        self.asks = asks

    @property
    def values(self) -> Row:
        """The values of the column that tells."""
        return (*whose_of(self._owner).named, SHAPE) if self.asks else ()

    def heard(self, rows: list[Row]) -> list[Row]:
        """Rows that tell, unless there are none."""
        if self.asks and rows:
            self._told(rows[0][_VERDICT])
        return rows

    async def settle(self) -> None:
        """Ask for nothing else, where no row has told."""
        if self.asks:
            self._told(await unprojected(self._tx, self._owner, 1))

    def _told(self, is_behind: object) -> None:
        if is_behind:
            raise _Behind
        self.asks = False


async def messages(tx: Transaction, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
    """The messages of the contract."""
    return await _messages(tx, of, query, judged=False)


async def current(tx: Transaction, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow] | None:
    """The current of the contract."""
    try:
        return await _messages(tx, of, query, judged=True)
    except _Behind:
        return None


async def _messages(tx: Transaction, of: ThreadKey | Owner, query: MessageQuery, *, judged: bool) -> list[MessageRow]:
    if isinstance(of, ThreadKey):
        return await _of_thread(tx, of, query, judged=judged)
    judge, is_answered = _Judge(tx, of, asks=judged), _is_answered(query)
    if not is_answered or (query.words and not is_searched(tx.sql, query)):
        await judge.settle()  # looking through all lines for a word that is nowhere takes too long to be done twice
    lines = await _of_owner(tx, of, query, judge) if is_answered else []
    if lines or not judge.asks:
        return lines
    await judge.settle()
    return await _of_owner(tx, of, query, judge)  # those that were put before it was told


def _is_answered(query: MessageQuery) -> bool:
    return query.limit != 0 and can_answer(query)


async def _of_thread(tx: Transaction, key: ThreadKey, query: MessageQuery, *, judged: bool) -> list[MessageRow]:
    found = await read_off(tx, key) if judged or _is_answered(query) else None
    if judged and found is not None and not found[1].is_current:
        raise _Behind
    if found is None or not _is_answered(query):
        return []
    rows = await (_found_in_thread if is_searched(tx.sql, query) else _listed)(tx, *found, query)
    return [line_of((*row, key.id, key.user, found[0].row.uid)) for row in rows]


async def _listed(tx: Transaction, stored: StoredThread, read: Projection, query: MessageQuery) -> list[Row]:
    conditions, values = asked_of(tx.sql, query)
    statement = tx.sql.messages.lines(conditions, order=order_of(query))
    return await tx.rows(statement, (*between(stored, query), *values, limit_of(query)))


async def _found_in_thread(tx: Transaction, stored: StoredThread, read: Projection, query: MessageQuery) -> list[Row]:
    """The lines with some words: by the index over words, unless these are common or the thread is short."""
    sql, order, part = tx.sql.messages, order_of(query), between(stored, query)
    is_long, walk, words = read.count > _LONG, _walk_of(tx, query), has_words(tx.sql, query)

    async def by_index(asked: Asked) -> list[Row]:
        if walk is not None and not is_long:
            # A planner may go through the thread instead. Its lines' words in the index's shape took 15 µs a line.
            asked = asked.and_(words.conditions, *words.values)
        statement = sql.found_lines(asked.conditions, order=order, is_long=is_long)
        return await tx.rows(statement, (*part, *asked.values, limit_of(query)))

    if walk is None or query.limit is None:
        return await by_index(asked_of(tx.sql, query))
    if read.count > walk.whole:
        rare = sql.rare_in_thread(walk, words.conditions, order=order)
        rows = await by_index(asked_of(tx.sql, query).and_(rare, *part, *words.values))
        if rows:
            return rows
    looked = asked_of(tx.sql, query, walks=True)
    statement = sql.walked_lines(looked.conditions, order=order)

    async def look(lines: int, most: int) -> list[Row]:
        return await tx.rows(statement, (*part, lines, *looked.values, most))

    rows = await _walked(walk, query.limit, read.count, look)
    return rows if rows is not None else await by_index(asked_of(tx.sql, query))


def _walk_of(tx: Transaction, query: MessageQuery) -> Walk | None:
    """How lines are looked at, if that may be quicker than the index: so many words are never common."""
    return tx.sql.dialect.words.walk if 0 < len(query.words) <= _FEW_WORDS else None


async def _walked(walk: Walk, most: int, count: int, look: Look) -> list[Row] | None:
    """Look at the first of `count` lines, and at more where enough of them answer; None when these are not all."""
    lines = count if count <= walk.whole else walk.lines
    for _ in range(2):
        rows = await look(lines, most)
        if len(rows) == most or lines >= count:
            return rows
        if len(rows) < walk.common:
            return None
        lines = 2 * lines * most // len(rows)
    return None


async def _of_owner(tx: Transaction, owner: Owner, query: MessageQuery, judge: _Judge) -> list[MessageRow]:
    whose, asked, searched = whose_of(owner), asked_of_several(tx.sql, query), is_searched(tx.sql, query)
    if query.limit is None:
        return await _sorted(tx, whose, query, asked, judge)
    walk, most = _walk_of(tx, query) if searched else None, query.limit + _MORE
    if walk is None:
        rows, is_all = await _first(tx, whose, query, asked, most, judge)
    else:
        words = has_words(tx.sql, query)
        rare = tx.sql.messages.rare_of_owner(walk, words.conditions, whose.kind)
        rarely = asked.and_(rare, whose.scope, *words.values)
        if query.beyond is not None and (lines := await _sorted(tx, whose, query, rarely, judge)):
            return lines
        rows, is_all = await _newest(tx, whose, rarely, most, judge) if query.beyond is None else ([], False)
        rows = rows or await _first_walked(tx, whose, query, walk, most, judge) or []
        await judge.settle()  # neither rare nor common: what no row has told by now, none might
    lines = sorted(map(line_of, rows), key=lambda line: (line.micros, line.uid, line.number), reverse=True)
    lines = lines[: query.limit]
    if is_all or (len(rows) > query.limit and lines[-1].micros > rows[-1][-1]):
        return lines
    if len(lines) == query.limit:  # so many of one time that others may come before these
        asked = asked.and_(f" AND {tx.sql.messages.found(searched).since}", lines[-1].micros)
    return await _sorted(tx, whose, query, asked, judge)


async def _sorted(tx: Transaction, whose: Whose, query: MessageQuery, asked: Asked, judge: _Judge) -> list[MessageRow]:
    searched = is_searched(tx.sql, query)
    statement = tx.sql.messages.owned_lines(whose.kind, asked.conditions, searched=searched, judged=judge.asks)
    values = (*judge.values, whose.scope, *whose.named, *asked.values, limit_of(query))
    return [line_of(row) for row in judge.heard(await tx.rows(statement, values))]


async def _newest(tx: Transaction, whose: Whose, asked: Asked, most: int, judge: _Judge) -> tuple[list[Row], bool]:
    """The first lines by time with rare words, and whether there are no more of them."""
    statement = tx.sql.messages.newest_lines(whose.kind, asked.conditions, judged=judge.asks)
    values = (*judge.values, whose.scope, *asked.values, most, *whose.named)
    rows = judge.heard(await tx.rows(statement, values))
    taken = rows[0][-2] if rows else 0
    # Lines of an owner with the same number may have taken the place of ours: they are looked for in another way.
    return (rows, taken < most) if rows and len(rows) == taken else ([], False)


async def _first(
    tx: Transaction, whose: Whose, query: MessageQuery, asked: Asked, most: int, judge: _Judge
) -> tuple[list[Row], bool]:
    """The first lines by time, as far as that is an order to find them in, and whether there are no more of them.

    The last column of each tells how late those after it can be.
    """
    searched = is_searched(tx.sql, query)
    statement = tx.sql.messages.first_lines(whose.kind, asked.conditions, searched=searched, judged=judge.asks)
    values = (*judge.values, whose.scope, *whose.named, *asked.values, most)
    rows = judge.heard(await tx.rows(statement, values)) if statement else []
    return rows, bool(statement) and len(rows) < most


async def _first_walked(
    tx: Transaction, whose: Whose, query: MessageQuery, walk: Walk, most: int, judge: _Judge
) -> list[Row] | None:
    """The same by looking at lines, if that is enough."""
    conditions, values = asked_of_several(tx.sql, query, walks=True)
    until = () if query.beyond is None else query.beyond[:1]
    bound = f" AND {LISTED.until}" if until else ""
    sql = tx.sql.messages

    async def look(lines: int, most: int) -> list[Row]:
        statement = sql.first_walked_lines(whose.kind, conditions, until=bound, judged=judge.asks)
        found = (*judge.values, whose.scope, *until, lines, *whose.named, *values, most)
        return judge.heard(await tx.rows(statement, found))

    return await _walked(walk, most, ALL, look)


async def tally(tx: Transaction, of: ThreadKey | Owner, query: MessageQuery) -> Tallies:
    """The tally of the contract."""
    if not can_answer(query):
        return _NOTHING
    if isinstance(of, Owner):
        return await _tally_of_owner(tx, of, query)
    found = await read_off(tx, of)
    if found is None:
        return _NOTHING
    conditions, values = asked_of(tx.sql, query)
    statement = tx.sql.messages.tally(conditions, searched=is_searched(tx.sql, query))
    roles = _tallies(await tx.rows(statement, (*between(found[0], query), *values)))
    return Tallies(threads=int(bool(roles)), roles=roles)


async def _tally_of_owner(tx: Transaction, owner: Owner, query: MessageQuery) -> Tallies:
    sql, searched, whose = tx.sql.messages, is_searched(tx.sql, query), whose_of(owner)
    conditions, asked = asked_of_several(tx.sql, query)
    values = (whose.scope, *whose.named, *asked)
    rows = await tx.rows(sql.owned_tally(whose.kind, conditions, searched=searched), values)
    ((threads,),) = await tx.rows(sql.owned_threads(whose.kind, conditions, searched=searched), values)
    return Tallies(threads=threads, roles=_tallies(rows))


def _tallies(rows: list[Row]) -> list[Tally]:
    return sorted(map(tally_of, rows), key=lambda tally: tally.role)
