"""Listing all there is, page by page: by the call that every storage has."""

from __future__ import annotations

from typing import Protocol

import msgspec

from perdure.core.threads import ThreadQuery, ThreadRow

_PAGE = 2000  # each page of a minute sorts all that changed in it


class Directory(Protocol):
    """A storage, as far as its threads can be listed."""

    async def threads(self, query: ThreadQuery) -> list[ThreadRow]: ...


async def all_threads(storage: Directory, namespace: str, user: str | None) -> list[ThreadRow]:
    """The lines of all threads of a namespace, or of one user's; each once, even if it is written to meanwhile."""
    found: dict[str, ThreadRow] = {}
    first = ThreadQuery(namespace=namespace, user=user, limit=_PAGE)
    while True:
        known, query = len(found), first
        while page := await storage.threads(query):
            fresh = [row for row in page if row.uid not in found]
            if known and not fresh:
                break  # a later look: everything below was listed
            found |= {row.uid: row for row in page if row.uid not in found}
            query = msgspec.structs.replace(query, before=(page[-1].updated, page[-1].uid))
        # One that was written to moves to the front, perhaps from a page that was not read yet.
        if len(found) - known < _PAGE:
            return list(found.values())
