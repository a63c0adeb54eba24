"""The transactions that list messages, find them by their words, and add them up."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any

from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery, MessageRow, Owner, Projection, Tallies, Tally
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
from perdure.storage.sql.messages import read_off
from perdure.storage.sql.rows import Row, StoredThread, line_of, tally_of
from perdure.storage.sql.transactions import Transaction
from perdure.storage.sql.words import LISTED, Walk

_MORE = 10  # lines beyond a page, to see where the next moment begins
_LONG = 20_000  # lines of a thread that take longer to tell from all others than those with a word
_FEW_WORDS = 10
_NOTHING = Tallies(threads=0, roles=[])
Look = Callable[[int, int], Coroutine[Any, Any, list[Row]]]  # at so many lines, for so many that answer


async def messages(tx: Transaction, of: ThreadKey | Owner, query: MessageQuery) -> list[MessageRow]:
    """The messages of the contract."""
    if query.limit == 0 or not can_answer(query):
        return []
    return await _of_thread(tx, of, query) if isinstance(of, ThreadKey) else await _of_owner(tx, of, query)


async def _of_thread(tx: Transaction, key: ThreadKey, query: MessageQuery) -> list[MessageRow]:
    found = await read_off(tx, key)
    if found is None:
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


async def _of_owner(tx: Transaction, owner: Owner, query: MessageQuery) -> list[MessageRow]:
    whose, asked, searched = whose_of(owner), asked_of_several(tx.sql, query), is_searched(tx.sql, query)
    if query.limit is None:
        return await _sorted(tx, whose, query, asked)
    walk = _walk_of(tx, query) if searched else None
    if walk is not None:
        words = has_words(tx.sql, query)
        rare = tx.sql.messages.rare_of_owner(walk, words.conditions, whose.kind)
        lines = await _sorted(tx, whose, query, asked.and_(rare, whose.scope, *words.values))
        if lines:
            return lines
        rows, is_all = await _first_walked(tx, whose, query, walk, query.limit + _MORE) or [], False
    else:
        rows, is_all = await _first(tx, whose, query, asked, query.limit + _MORE)
    lines = sorted(map(line_of, rows), key=lambda line: (line.micros, line.uid, line.number), reverse=True)
    lines = lines[: query.limit]
    if is_all or (len(rows) > query.limit and lines[-1].micros > rows[-1][-1]):
        return lines
    if len(lines) == query.limit:  # so many of one time that others may come before these
        asked = asked.and_(f" AND {tx.sql.messages.found(searched).since}", lines[-1].micros)
    return await _sorted(tx, whose, query, asked)


async def _sorted(tx: Transaction, whose: Whose, query: MessageQuery, asked: Asked) -> list[MessageRow]:
    searched = is_searched(tx.sql, query)
    statement = tx.sql.messages.owned_lines(whose.kind, asked.conditions, searched=searched)
    rows = await tx.rows(statement, (whose.scope, *whose.named, *asked.values, limit_of(query)))
    return [line_of(row) for row in rows]


async def _first(tx: Transaction, whose: Whose, query: MessageQuery, asked: Asked, most: int) -> tuple[list[Row], bool]:
    """The first lines by time, as far as that is an order to find them in, and whether there are no more of them.

    The last column of each tells how late those after it can be.
    """
    searched = is_searched(tx.sql, query)
    statement = tx.sql.messages.first_lines(whose.kind, asked.conditions, searched=searched)
    rows = await tx.rows(statement, (whose.scope, *whose.named, *asked.values, most)) if statement else []
    return rows, bool(statement) and len(rows) < most


async def _first_walked(tx: Transaction, whose: Whose, query: MessageQuery, walk: Walk, most: int) -> list[Row] | None:
    """The same by looking at lines, if that is enough."""
    conditions, values = asked_of_several(tx.sql, query, walks=True)
    until = () if query.beyond is None else query.beyond[:1]
    bound = f" AND {LISTED.until}" if until else ""
    statement = tx.sql.messages.first_walked_lines(whose.kind, conditions, until=bound)

    async def look(lines: int, most: int) -> list[Row]:
        return await tx.rows(statement, (whose.scope, *until, lines, *whose.named, *values, most))

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
