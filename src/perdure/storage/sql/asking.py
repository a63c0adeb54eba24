"""What a query about messages asks, as conditions of statements and their values."""

from __future__ import annotations

from typing import NamedTuple

from perdure.core.messages import MessageQuery, Owner
from perdure.storage.sql.message_statements import AFTER, BEFORE, BEYOND
from perdure.storage.sql.reading import whose_rows
from perdure.storage.sql.rows import VERSIONS, Row, StoredThread, scope_number
from perdure.storage.sql.statements import Statements
from perdure.storage.sql.words import LISTED, WordIndex, plain

ALL = 1 << 62


class Asked(NamedTuple):
    """Conditions of a statement, each with ` AND ` before it, and their values."""

    conditions: str
    values: Row

    def and_(self, conditions: str, *values: str | int) -> Asked:
        """With another condition."""
        return Asked(self.conditions + conditions, (*self.values, *values))


class Whose(NamedTuple):
    """Whose lines are asked for: of what kind the owner is, the number that finds them, and the owner's name."""

    kind: str
    scope: int
    named: Row


def can_answer(query: MessageQuery) -> bool:
    """Whether any line could answer a query: there are none with a text that no line can have."""
    return len(plain(query.words)) == len(query.words) and _is_kept(query.node) and _is_kept(query.run)


def _is_kept(text: str | None) -> bool:
    return text is None or ("\0" not in text and not any("\ud800" <= char <= "\udfff" for char in text))


def whose_of(owner: Owner) -> Whose:
    """An owner as statements know it."""
    kind, user = whose_rows(owner.user)
    return Whose(kind, scope_number(owner.namespace, owner.user or ""), (owner.namespace, *user))


def order_of(query: MessageQuery) -> str:
    """In which order lines of a thread come."""
    return "DESC" if query.after is None else "ASC"


def limit_of(query: MessageQuery) -> int:
    """How many lines at most."""
    return ALL if query.limit is None else query.limit


def between(stored: StoredThread, query: MessageQuery) -> Row:
    """The rows before the first and after the last of the numbers that are asked for."""
    after = 0 if query.after is None else min(max(query.after, 0), VERSIONS)
    before = VERSIONS if query.before is None else min(max(query.before, 0), VERSIONS)
    return stored.place(after), stored.place(before)


def is_searched(sql: Statements, query: MessageQuery) -> bool:
    """Whether the index over words is asked."""
    return bool(query.words) and sql.dialect.words.index is not None


def asked_of(sql: Statements, query: MessageQuery, *, walks: bool = False) -> Asked:
    """What is asked of each line, wherever it is: of the index over words, or with `walks` of the line itself."""
    index = sql.dialect.words.index
    asked = has_words(sql, query) if walks or index is None else _holds_words(index, query)
    for column, values in (("m.id", query.ids), ("m.role", query.roles)):
        if values is not None:
            condition, given = sql.dialect.among(column, filter(_is_kept, values))
            asked = asked.and_(f" AND {condition}", *given)
    named = {"m.node = ?": query.node, "m.run = ?": query.run, "m.at >= ?": query.since, "m.at < ?": query.until}
    for condition, value in named.items():
        asked = asked if value is None else asked.and_(f" AND {condition}", value)
    return asked


def has_words(sql: Statements, query: MessageQuery) -> Asked:
    """That a line which is looked at has the words."""
    walk = sql.dialect.words.walk
    if walk is None:
        return Asked("", ())
    return Asked(f" AND {walk.has}" * len(query.words), tuple(map(walk.word, query.words)))


def _holds_words(index: WordIndex, query: MessageQuery) -> Asked:
    parts = [list(query.words[at : at + index.most]) for at in range(0, len(query.words), index.most)]
    return Asked(f" AND {index.holds}" * len(parts), tuple(map(index.asked, parts)))


def asked_of_several(sql: Statements, query: MessageQuery, *, walks: bool = False) -> Asked:
    """What is asked of each line in a list of several threads."""
    asked = asked_of(sql, query, walks=walks)
    for condition, number in ((BEFORE, query.before), (AFTER, query.after)):
        asked = asked if number is None else asked.and_(condition, number)
    if query.beyond is None:
        return asked
    found = LISTED if walks else sql.messages.found(is_searched(sql, query))
    return asked.and_(f" AND {found.until}{BEYOND}", query.beyond[0], *query.beyond)
