"""The facts of one user in the memory of this process: which holds when, and full text over all of them.

It is read off the user's log and holds nothing that the log does not. The full text is SQLite's FTS5 with Porter
stemming and BM25, in a database in memory, so that every storage ranks alike.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from perdure.core.codec import decode
from perdure.core.search import spaced
from perdure.memory.facts import Fact, NewFact, fact_in, normal, public

_LAYOUT = """
CREATE TABLE fact (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, body BLOB NOT NULL, version INTEGER NOT NULL,
    created INTEGER NOT NULL, valid_from INTEGER NOT NULL, valid_to INTEGER, superseded_by TEXT, subject TEXT,
    normal TEXT NOT NULL, vector BLOB, embedder TEXT
);
CREATE INDEX fact_version ON fact (version);
CREATE INDEX fact_subject ON fact (subject) WHERE subject IS NOT NULL;
CREATE INDEX fact_normal ON fact (normal);
CREATE INDEX fact_successor ON fact (superseded_by) WHERE superseded_by IS NOT NULL;
CREATE TABLE wording (version INTEGER PRIMARY KEY, id TEXT NOT NULL);
CREATE INDEX wording_id ON wording (id);
CREATE VIRTUAL TABLE words USING fts5 (text, tokenize = 'porter unicode61 remove_diacritics 2');
"""
_FACT = "fact.body, fact.version, fact.created, fact.valid_from, fact.valid_to, fact.superseded_by"
_HOLDS = "fact.valid_from <= :at AND (fact.valid_to IS NULL OR fact.valid_to > :at)"
_WORD = re.compile(r"\w+")
MAX_QUERY_WORDS = 64
_FIRST_PAGE = 100  # facts that are read at first; more where filters or time leave too few of them
_WIDER = 10  # times
MIN_ROWS_RANKED, _RANKED_PART = 3_000, 20  # rows that one search ranks: so many, or a twentieth of all
_PAGE = 200  # facts of a list that are read at a time
_NO_VERSION = (1 << 63) - 1
_FREQUENCIES = 10_000  # words whose frequency is remembered
# They are in nearly every sentence: looking for them costs the most and tells the least.
_STOP_WORDS = frozenset(
    """
    a about am an and are as at be been but by can could did do does for from had has have he her his how i if in is it
    its me my of on or our she should so that the their them they this to user was we were what when where which who
    whom whose why will with would you your
    """.split()  # noqa: SIM905  # a list of them would be a page long
)


class Match(NamedTuple):
    """A fact that a search found."""

    fact: Fact
    score: float  # of BM25: higher is better
    asked: str  # the query as the full text was asked
    number: int


class FactIndex:
    """The facts of one user. Whoever reads the log applies each entry once, in order."""

    def __init__(self, user: str | int | None) -> None:
        self._user = user
        # Two threads of a synchronous store take turns with its baton.
        self._db = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._db.executescript(_LAYOUT)
        self._count = 0
        self._counted_at = 0  # how many facts there were when words were counted
        self._frequencies: dict[str, int] = {}
        self.latest = 0  # when the newest entry was written, by the clock of the storage

    # Reading the log.

    def put(self, body: bytes, version: int, micros: int) -> None:
        """Apply an entry that states a fact, or states one again under its id."""
        new = fact_in(decode(body))
        self.latest = max(self.latest, micros)
        known = self._db.execute("SELECT number FROM fact WHERE id = ?", (new.id,)).fetchone()
        self._db.execute("INSERT INTO wording VALUES (?, ?)", (version, new.id))
        (self._replace if known else self._insert)(new, body, version, micros)

    def _insert(self, new: NewFact, body: bytes, version: int, micros: int) -> None:
        begin = micros if new.valid_from is None else new.valid_from
        for id in self._superseded(new):
            self._db.execute(
                "UPDATE fact SET superseded_by = ?, valid_to = MIN(IFNULL(valid_to, ?), ?) WHERE id = ?",
                (new.id, begin, begin, id),
            )
        row = (version, new.id, body, version, micros, begin, new.valid_to, None, new.subject, normal(new.text),
               new.vector, new.embedder)  # fmt: skip
        self._db.execute("INSERT INTO fact VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)
        self._db.execute("INSERT INTO words (rowid, text) VALUES (?, ?)", (version, spaced(new.text)))
        self._count += 1

    def _replace(self, new: NewFact, body: bytes, version: int, micros: int) -> None:
        """State a fact again: what superseded it meanwhile stays its successor."""
        self._db.execute(
            "UPDATE fact SET body = :body, version = :version, subject = :subject, normal = :normal,"
            " vector = :vector, embedder = :embedder,"
            " valid_to = CASE WHEN superseded_by IS NULL THEN :valid_to ELSE valid_to END WHERE id = :id",
            {"body": body, "version": version, "subject": new.subject, "normal": normal(new.text),
             "valid_to": new.valid_to, "id": new.id, "vector": new.vector, "embedder": new.embedder},
        )  # fmt: skip
        number = self._db.execute("SELECT number FROM fact WHERE id = ?", (new.id,)).fetchone()
        self._db.execute("UPDATE words SET text = ? WHERE rowid = ?", (spaced(new.text), *number))

    def _superseded(self, new: NewFact) -> list[str]:
        """The facts that a new one takes the place of: of two writers who correct the same fact, the later one wins."""
        heads = [self._head(id) for id in new.supersedes]
        if new.subject is not None:
            heads += self._ids("SELECT id FROM fact WHERE subject = ? AND superseded_by IS NULL", new.subject)
        return [id for id in dict.fromkeys(heads) if id is not None and id != new.id]

    def _head(self, id: str) -> str | None:
        """The newest fact in the place of one."""
        seen = set[str]()
        found = self._successor(id)
        while found is not None and found[0] is not None and id not in seen:
            seen.add(id)
            id, found = found[0], self._successor(found[0])
        return None if found is None else id

    def _successor(self, id: str) -> Sequence[Any] | None:
        return self._db.execute("SELECT superseded_by FROM fact WHERE id = ?", (id,)).fetchone()

    def drop(self, id: str) -> None:
        """Apply an entry that takes a fact back."""
        for (number,) in self._db.execute("SELECT number FROM fact WHERE id = ?", (id,)).fetchall():
            self._db.execute("DELETE FROM words WHERE rowid = ?", (number,))
            self._db.execute("DELETE FROM fact WHERE number = ?", (number,))
            self._count -= 1
        self._db.execute("DELETE FROM wording WHERE id = ?", (id,))

    def close(self) -> None:
        """Give the memory back."""
        self._db.close()

    # Asking.

    def __len__(self) -> int:
        return self._count

    def get(self, id: str) -> Fact | None:
        """The fact of an id."""
        return next(self._facts(f"SELECT {_FACT} FROM fact WHERE id = ?", id), None)

    def stored(self, id: str) -> NewFact | None:
        """A fact as it was written."""
        row = self._db.execute("SELECT body FROM fact WHERE id = ?", (id,)).fetchone()
        return None if row is None else fact_in(decode(row[0]))

    def versions(self, id: str) -> tuple[int, ...]:
        """The entries that state a fact."""
        return tuple(self._ids("SELECT version FROM wording WHERE id = ? ORDER BY version", id))

    def same(self, text: str, at: int) -> Fact | None:
        """The fact that says the same and holds."""
        query = f"SELECT {_FACT} FROM fact WHERE normal = :text AND {_HOLDS} ORDER BY number DESC"
        return next(self._facts(query, at=at, text=normal(text)), None)

    def about(self, subject: str, at: int) -> list[Fact]:
        """The facts about a subject that hold."""
        query = f"SELECT {_FACT} FROM fact WHERE subject = :subject AND {_HOLDS} ORDER BY number DESC"
        return list(self._facts(query, at=at, subject=subject))

    def valid(self, at: int) -> Iterator[Fact]:
        """The facts that hold at a time, the newest first."""
        return self._pages(f"SELECT {_FACT} FROM fact WHERE version < :before AND {_HOLDS}", at=at)

    def all(self) -> Iterator[Fact]:
        """All facts, also those that hold no more, the newest first."""
        return self._pages(f"SELECT {_FACT} FROM fact WHERE version < :before")

    def chain(self, id: str) -> list[str]:
        """A fact and those whose place it took, themselves or one after the other; the oldest first."""
        query = """WITH RECURSIVE chain (id) AS (
            VALUES (?) UNION SELECT fact.id FROM fact JOIN chain ON fact.superseded_by = chain.id
        ) SELECT fact.id FROM chain JOIN fact ON fact.id = chain.id ORDER BY fact.number"""
        return self._ids(query, id)

    def head(self, id: str) -> Fact | None:
        """The newest fact in the place of one."""
        found = self._head(id)
        return None if found is None else self.get(found)

    def matches(self, query: str) -> Iterator[Match]:
        """Facts that have a word of the query, the best first, the newer one of two equal ones; also old ones."""
        asked, offset, page = _any_of(self._telling(_words_of(query))), 0, _FIRST_PAGE
        while asked:
            found = self._db.execute(
                f"SELECT {_FACT}, best.number, best.score FROM (SELECT rowid AS number, bm25(words) AS score FROM words"
                " WHERE words MATCH ? ORDER BY score, number DESC LIMIT ? OFFSET ?) AS best"
                " JOIN fact ON fact.number = best.number ORDER BY best.score, best.number DESC",
                (asked, page, offset),
            ).fetchall()
            for *fact, number, score in found:
                yield Match(self._fact(fact), -float(score), asked, number)
            if len(found) < page:
                return
            offset, page = offset + page, page * _WIDER

    def _telling(self, words: list[str]) -> list[str]:
        """The words that are looked for: from the rarest on, as many as cost no more than a few thousand rows.

        A word that is in a large part of many facts tells them hardly apart, and ranking them all would take as long as
        everything else together.
        """
        budget = max(MIN_ROWS_RANKED, self._count // _RANKED_PART)
        if self._count <= budget or len(words) < 2:
            return words
        rarity = sorted((self._frequency(word, budget), at) for at, word in enumerate(words))
        known = [(count, at) for count, at in rarity if count] or rarity
        chosen = [
            at for place, (_, at) in enumerate(known) if not place or sum(c for c, _ in known[: place + 1]) <= budget
        ]
        return [words[at] for at in chosen]

    def _frequency(self, word: str, most: int) -> int:
        """In how many facts a word is, as far as it matters."""
        if abs(self._count - self._counted_at) > self._count // 20:
            self._counted_at = self._count
            self._frequencies.clear()
        if word not in self._frequencies:
            if len(self._frequencies) >= _FREQUENCIES:
                self._frequencies.clear()
            query = "SELECT COUNT(*) FROM (SELECT 1 FROM words WHERE words MATCH ? LIMIT ?)"
            (self._frequencies[word],) = self._db.execute(query, (_any_of([word]), most + 1)).fetchone()
        return self._frequencies[word]

    def vectors(self, embedder: str, at: int) -> list[tuple[int, bytes]]:
        """The vectors of the facts that hold, by number."""
        query = f"SELECT number, vector FROM fact WHERE embedder = :embedder AND {_HOLDS}"
        return self._db.execute(query, {"embedder": embedder, "at": at}).fetchall()

    def numbered(self, number: int) -> Fact:
        """The fact of a number."""
        return next(self._facts(f"SELECT {_FACT} FROM fact WHERE number = ?", number))

    def words(self, match: Match) -> tuple[str, ...]:
        """The words of a fact that a query found it by."""
        query = "SELECT highlight(words, 0, char(2), char(3)) FROM words WHERE words MATCH ? AND rowid = ?"
        (text,) = self._db.execute(query, (match.asked, match.number)).fetchone()
        return tuple(dict.fromkeys(word.lower() for word in re.findall("\x02(.*?)\x03", text)))

    def _facts(self, query: str, *values: Any, **named: Any) -> Iterator[Fact]:
        return map(self._fact, self._db.execute(query, named or values).fetchall())

    def _pages(self, query: str, **named: Any) -> Iterator[Fact]:
        """Facts, the newest first, a page at a time: most callers want a few of many."""
        before = _NO_VERSION
        while True:
            page = f"{query} ORDER BY version DESC LIMIT {_PAGE}"
            rows = self._db.execute(page, {"before": before, **named}).fetchall()
            yield from map(self._fact, rows)
            if len(rows) < _PAGE:
                return
            before = rows[-1][1]

    def _fact(self, row: Sequence[Any]) -> Fact:
        body, *rest = row
        return public(fact_in(decode(body)), (rest[0], rest[1], rest[2], rest[3], rest[4]), self._user)

    def _ids(self, query: str, *values: Any) -> list[Any]:
        return [row[0] for row in self._db.execute(query, values)]


def _words_of(query: str) -> list[str]:
    words = list(dict.fromkeys(_WORD.findall(spaced(query).lower())))
    return ([word for word in words if word not in _STOP_WORDS] or words)[:MAX_QUERY_WORDS]


def _any_of(words: Sequence[str]) -> str:
    """Words in the language of FTS5: any of them, each as a plain string, so that nothing is an operator."""
    return " OR ".join(f'"{word}"' for word in words)
