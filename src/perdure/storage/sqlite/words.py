"""The words of messages in SQLite: a table of their own, and two lines each in a full-text index.

FTS5 finds lines in the order of their numbers and no other. The one under the row of the message finds the newest of a
thread; the one under its moment, which is a larger number and rises with time, the newest of a user. Sorting all that
was found instead took a hundred times as long where a word is common.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Any

from perdure.storage.sql.words import Found, Spoken, WordIndex, Words

_TICK, _SLOTS = 14, 22  # bits: a moment is a tick of 16 milliseconds, and one of four million slots in it
_LAST_TICK = (1 << 40) - 1  # in the year 2540; what is later has no order here
_BEGINNING = 1 << 62  # of moments; rows of messages are below
_TICK_OF_ROW = f"((w.rowid - {_BEGINNING}) >> {_SLOTS})"
_END_OF_TICK = f"(({_TICK_OF_ROW} + 1) << {_TICK}) - 1"
_TICK_OF_TIME = f"min(? >> {_TICK}, {_LAST_TICK})"
_LAYOUT = (
    """CREATE TABLE perdure_message_words (
  "row"            INTEGER PRIMARY KEY,        -- that of the message
  moment           INTEGER NOT NULL UNIQUE,    -- rises with its time
  words            TEXT NOT NULL
)""",
    """CREATE VIRTUAL TABLE perdure_message_search USING fts5 (
  words, content = '', columnsize = 0, detail = none, tokenize = "unicode61 remove_diacritics 0 tokenchars '_'"
)""",
)
_SEARCH = "perdure_message_search w"
_MESSAGE = "CROSS JOIN perdure_message m"
_MOMENT = "CROSS JOIN perdure_message_words k"
_FORGET = """INSERT INTO perdure_message_search (perdure_message_search, rowid, words)
SELECT 'delete', {0}, words FROM perdure_message_words WHERE "row" >= ? AND "row" <= ? ORDER BY {0}"""
_FORGET_ROWS, _FORGET_MOMENTS = _FORGET.format('"row"'), _FORGET.format("moment")
_DROP = 'DELETE FROM perdure_message_words WHERE "row" >= ? AND "row" <= ?'
_LAST = "SELECT max(moment) FROM perdure_message_words WHERE moment >= ? AND moment < ?"
OPTIMIZE = "INSERT INTO perdure_message_search (perdure_message_search) VALUES ('optimize')"
HAS_FTS5 = "SELECT 1 FROM pragma_module_list WHERE name = 'fts5'"


def _quoted(words: list[str]) -> str:
    return " ".join(f'"{word}"' for word in words)


class WordsApart(Words, frozen=True, kw_only=True):
    """Words by row and by moment."""

    async def put(self, tx: Any, lines: Sequence[Spoken]) -> None:
        spoken = [line for line in lines if line.words]
        moments = await _moments(tx, spoken)
        texts = {line.row: " ".join(line.words) for line in spoken}
        await tx.fill("message_words", ("row", "moment", "words"), ((row, moments[row], texts[row]) for row in texts))
        # One order after the other: whenever a number is smaller than the one before, FTS5 writes a segment.
        await tx.fill("message_search", ("rowid", "words"), texts.items())
        by_moment = sorted((moment, texts[row]) for row, moment in moments.items())
        await tx.fill("message_search", ("rowid", "words"), by_moment)

    async def drop(self, tx: Any, low: int, high: int) -> None:
        for statement in (_FORGET_ROWS, _FORGET_MOMENTS, _DROP):
            await tx.run(statement, (low, high))


async def _moments(tx: Any, lines: Sequence[Spoken]) -> dict[int, int]:
    """A moment for each row: the next free slot of its tick."""
    moments: dict[int, int] = {}
    for tick, together in groupby(sorted(lines, key=_tick), key=_tick):
        first = (tick << _SLOTS) + _BEGINNING
        ((last,),) = await tx.rows(_LAST, (first, first + (1 << _SLOTS)))
        free = first if last is None else last + 1
        moments |= {line.row: free + at for at, line in enumerate(together)}
    return moments


def _tick(line: Spoken) -> int:
    return min(line.at >> _TICK, _LAST_TICK)


WORDS = WordsApart(
    kept=_quoted,
    index=WordIndex(
        layout=_LAYOUT,
        holds="w.perdure_message_search MATCH ?",
        asked=_quoted,
        in_thread=Found(source=f'{_SEARCH} {_MESSAGE} ON m."row" = w.rowid', row="w.rowid"),
        of_owner=Found(
            source=f'{_SEARCH} {_MOMENT} ON k.moment = w.rowid {_MESSAGE} ON m."row" = k."row"',
            where=f" AND w.rowid >= {_BEGINNING}",
            order="w.rowid",
            latest=f"CASE WHEN {_TICK_OF_ROW} < {_LAST_TICK} THEN {_END_OF_TICK} ELSE {_BEGINNING} END",
            since=f"w.rowid >= ({_TICK_OF_TIME} << {_SLOTS}) + {_BEGINNING}",
            until=f"w.rowid < (({_TICK_OF_TIME} + 1) << {_SLOTS}) + {_BEGINNING}",
        ),
    ),
)
