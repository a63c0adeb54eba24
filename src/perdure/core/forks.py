"""Rules about forks: when one that is asked for stands already, and what they need of the thread they came from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from perdure.core.errors import ThreadExistsError
from perdure.core.threads import ThreadRow

NOTHING: Mapping[str, Sequence[int]] = {}


def same_fork(standing: ThreadRow, parent_uid: str, version: int, target: ThreadRow) -> ThreadRow:
    """Return the thread that stands at the target's key if it is this very fork, made by a try whose answer was lost.

    Raises `ThreadExistsError` when it is any other thread.
    """
    made = (standing.uid, standing.parent_uid, standing.parent_version)
    if made != (target.uid, parent_uid, version):
        raise ThreadExistsError(target.key.id)
    return standing


def needed(uid: str, lines: Sequence[ThreadRow], targets: Mapping[str, Sequence[int]] = NOTHING) -> list[int]:
    """The versions of a thread that its forks, and forks of those, need, in rising order.

    `lines` are at least all that descend from it, `targets` the versions that rewinds of each of them went back to. A
    fork of a fork may have been made before where that one began, and a rewind may have gone back to before it.
    """
    return sorted(set(_needed(uid, lines, targets, None)))


def _needed(
    uid: str, lines: Sequence[ThreadRow], targets: Mapping[str, Sequence[int]], bound: int | None
) -> Iterable[int]:
    for line in lines:
        if line.parent_uid == uid:
            version = line.parent_version if bound is None else min(line.parent_version, bound)
            yield version
            yield from (target for target in targets.get(line.uid, ()) if target < version)
            yield from _needed(line.uid, lines, targets, version)


def parents_first(rows: Sequence[ThreadRow]) -> list[ThreadRow]:
    """These lines so that none comes before the thread it was forked from."""
    by_uid = {row.uid: row for row in rows}

    def depth(row: ThreadRow) -> int:
        parent, found = by_uid.get(row.parent_uid or ""), 0
        while parent is not None and found < len(rows):
            parent, found = by_uid.get(parent.parent_uid or ""), found + 1
        return found

    return sorted(rows, key=lambda row: (depth(row), row.created, row.uid))
