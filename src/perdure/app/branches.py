"""The tree of forks: which thread began where."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

import msgspec

from perdure.core.errors import NotFoundError, StorageDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.retention_words import shown
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime
from perdure.storage.contract import Storage
from perdure.storage.listing import all_threads


class Branch(msgspec.Struct, frozen=True, kw_only=True):
    """A thread and the forks that began from it, oldest first."""

    thread_id: str
    version: int  # its newest
    forked_at: int | None  # the version of its parent it began at; None for a thread that is no fork
    created: datetime
    name: str | None = None
    asked: bool = False  # the thread that was asked about
    forks: tuple[Branch, ...] = ()

    @property
    def depth(self) -> int:
        """How many threads follow each other on the longest way down."""
        return 1 + max((fork.depth for fork in self.forks), default=0)

    def leaves(self) -> Iterator[Branch]:
        """The threads nothing was forked from."""
        if not self.forks:
            yield self
        for fork in self.forks:
            yield from fork.leaves()

    def path(self, thread_id: str) -> list[Branch]:
        """The way from here down to a thread; [] when it is not below."""
        if self.thread_id == thread_id:
            return [self]
        ways = (fork.path(thread_id) for fork in self.forks)
        return next(([self, *way] for way in ways if way), [])

    def __str__(self) -> str:
        return "\n".join(_drawn(self, "", ""))


def _drawn(branch: Branch, first: str, rest: str) -> Iterator[str]:
    began = f" (from @{branch.forked_at})" if branch.forked_at is not None else ""
    mark = " *" if branch.asked else ""
    yield f"{first}{shown(branch.thread_id)} @{branch.version}{began}{mark}"
    for at, fork in enumerate(branch.forks):
        last = at == len(branch.forks) - 1
        yield from _drawn(fork, rest + ("└─ " if last else "├─ "), rest + ("   " if last else "│  "))


async def tree(storage: Storage, key: ThreadKey) -> Branch:
    """The tree that a thread is part of, from the oldest of its parents that can still be seen."""
    found = await all_threads(storage, key.namespace, key.user)  # a fork has the owner of its parent
    rows = {row.uid: row for row in found}
    asked = next((row for row in rows.values() if row.key == key), None)
    if asked is None:
        raise NotFoundError(f"thread {key.id!r}")
    root, above = asked, {asked.uid}
    while root.parent_uid in rows:
        root = rows[root.parent_uid]
        if root.uid in above:  # a damaged row: this would go round for ever
            raise StorageDamagedError(f"the row of thread {root.key.id!r}", "it descends from itself")
        above.add(root.uid)
    return _branch(root, sorted(rows.values(), key=lambda row: (row.created, row.uid)), asked.uid)


def _branch(row: ThreadRow, rows: list[ThreadRow], asked: str) -> Branch:
    return Branch(
        thread_id=row.key.id,
        version=row.head,
        forked_at=row.parent_version if row.parent_uid else None,
        created=to_datetime(row.created),
        name=row.name,
        asked=row.uid == asked,
        forks=tuple(_branch(each, rows, asked) for each in rows if each.parent_uid == row.uid),
    )
