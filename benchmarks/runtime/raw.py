"""One commit of a step's size, and nothing else: what the disk and the database cost by themselves."""

from __future__ import annotations

from typing import Any

from benchmarks.databases import Database, RawCommits
from benchmarks.postgres.lab import RawInserts
from benchmarks.runtime.homes import Home


class Raw:
    """Commits of one size."""

    def __init__(self, commits: Any, size: int) -> None:
        self._commits = commits
        self._size = size

    def commit(self) -> float:
        return self._commits.commit(self._size)

    def close(self) -> None:
        self._commits.close()


def raw_of(home: Home, size: int) -> Raw:
    """In a database of either kind."""
    if isinstance(home, Database):
        home.close()
        return Raw(RawCommits(f"{home.path}.raw"), size)
    return Raw(RawInserts(home), size)  # pyright: ignore[reportArgumentType]
