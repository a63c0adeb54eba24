"""Reading a log as it stands, every link and every payload checked."""

from __future__ import annotations

from perdure.core.derived import same_line
from perdure.core.digest import GENESIS, body_of, verify_links
from perdure.core.entries import Entry
from perdure.core.identity import ThreadKey
from perdure.core.pruning import is_blank
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage


async def line_fits(storage: Storage, row: ThreadRow) -> bool:
    """Whether the newest entry is the one that a directory line names, or somebody moved the line meanwhile."""
    newest = await storage.headers(row.key, at=row.head)
    is_named = not row.head or (newest and newest[0].chain == row.head_digest)
    return bool(is_named) or not await is_where_it_was(storage, row)


async def is_where_it_was(storage: Storage, row: ThreadRow) -> bool:
    """Whether nobody wrote to a thread since its line was read: what does not fit then is damaged."""
    now = await storage.thread(row.key)
    return now is not None and same_line(now, row)


async def read_log(storage: Storage, key: ThreadKey, after: int, limit: int | None) -> list[Entry]:
    """The entries after a version; raise `EntryDamagedError` where one fails its digest or does not follow.

    The entry before the first one is read too: its chain digest is what the first one must follow from.
    """
    start = max(after - 1, 0)
    wanted = limit if limit is None else limit + after - start
    found = await storage.entries(key, after=start, limit=wanted)
    anchor = found[0] if after and found and found[0].version == after else None
    entries = found[1:] if anchor else found
    if entries:
        verify_links(key.id, after, anchor.chain if anchor else GENESIS, entries)
    for entry in entries:
        if not is_blank(entry):
            body_of(key.id, entry)
    return entries
