"""SQLite's own check of its file, and whether the full-text index has the words that it should."""

from __future__ import annotations

from collections import Counter

from perdure.storage.sql.dialect import MINUTE
from perdure.storage.sql.rows import scope_number
from perdure.storage.sql.transactions import Transaction

_MOST = 50  # findings: one damaged page leads to many
_STRUCTURE = f"PRAGMA integrity_check({_MOST})"
_SEARCH = "INSERT INTO perdure_message_search (perdure_message_search, rank) VALUES ('integrity-check', 0)"
_TERMS = "CREATE VIRTUAL TABLE IF NOT EXISTS temp.perdure_terms USING fts5vocab (main, perdure_message_search, row)"
_COUNTS = "SELECT term, doc FROM temp.perdure_terms"
_WORDS = "SELECT words FROM perdure_message_words"
_SAID_TWICE = {
    "threads in another place of the directory than their time says": (
        f"SELECT count(*) FROM perdure_thread WHERE updated_minute <> updated_at >> {MINUTE}"  # noqa: S608  # a number
    ),
    "lines of messages with a text beside the one of their entry": """SELECT count(*) FROM perdure_message
WHERE entry IS NOT NULL AND (payload IS NOT NULL OR digest IS NOT NULL)""",
}
_OWNERS = """SELECT DISTINCT t.namespace, t.user_id, m.space, m.scope
FROM perdure_message m JOIN perdure_thread t ON t."row" = m."row" >> 32"""
_BOTH_ORDERS = 2  # lines of each message in the index: one under its row, one under its moment


async def _structure(tx: Transaction) -> list[str]:
    """Pages, and tables against their indexes."""
    return [str(told) for (told,) in await tx.rows(_STRUCTURE) if told != "ok"]


async def _search(tx: Transaction) -> list[str]:
    """The full-text index against itself."""
    await tx.run(_SEARCH)
    return []


async def _words(tx: Transaction) -> list[str]:
    """The full-text index against the words that it was made from, which its own check cannot see."""
    await tx.run(_TERMS)
    stands = dict(await tx.rows(_COUNTS))  # type: ignore[arg-type]  # rows of two columns
    wanted: Counter[str] = Counter()
    for (words,) in await tx.rows(_WORDS):
        wanted.update({*words.split(" ")})
    wrong = sum(1 for word in {*stands, *wanted} if stands.get(word, 0) != _BOTH_ORDERS * wanted[word])
    return [f"the index over words of messages is wrong about {wrong:,} of them"] if wrong else []


async def _derived(tx: Transaction) -> list[str]:
    """Columns that only say again what other columns say."""
    found: list[str] = []
    for what, statement in _SAID_TWICE.items():
        ((count,),) = await tx.rows(statement)
        found += [f"{what}: {count:,}"] if count else []
    for namespace, user, space, scope in await tx.rows(_OWNERS):
        if (space, scope) != (scope_number(namespace, ""), scope_number(namespace, user)):
            found.append(f"messages of user {user!r} are listed as somebody else's")
    return found


CHECKS = (_structure, _search, _words, _derived)
