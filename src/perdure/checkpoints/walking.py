"""The states of a thread at several versions, each folded from the one before it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from perdure.checkpoints.heads import Head
from perdure.checkpoints.restoring import Restorer
from perdure.core import fold
from perdure.core.document import Document
from perdure.core.errors import DamagedError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.ops import weight
from perdure.core.payload import StateChange, WholeState
from perdure.core.writes import Restored
from perdure.storage.contract import Storage

_NEAR = 500  # versions: what is further apart is nearer to a whole state of its own


async def walk(
    storage: Storage, restorer: Restorer, key: ThreadKey, versions: Sequence[int]
) -> AsyncIterator[tuple[int, Document]]:
    """The states at these versions, which rise. Those that were pruned meanwhile are left out.

    The document is the same one from version to version: it is to be read before the next one is asked for.
    """
    for near in _stretches(versions):
        done = 0
        try:
            async for version, document in _folded(storage, restorer, key, near):
                done += 1
                yield version, document
        except (fold.Pruned, DamagedError, NotFoundError):
            # Something, or one of them cannot be read: each by itself tells which.
            async for found in _one_by_one(restorer, key, near[done:]):
                yield found


def _stretches(versions: Sequence[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for version in versions:
        if found and version - found[-1][-1] <= _NEAR:
            found[-1].append(version)
        else:
            found.append([version])
    return found


async def _one_by_one(
    restorer: Restorer, key: ThreadKey, versions: Sequence[int]
) -> AsyncIterator[tuple[int, Document]]:
    for version in versions:
        try:
            head = await restorer.restore(key, version)
        except NotFoundError:
            continue  # dropped a moment ago
        if head.uid is not None:
            yield version, head.document


async def _folded(
    storage: Storage, restorer: Restorer, key: ThreadKey, versions: Sequence[int]
) -> AsyncIterator[tuple[int, Document]]:
    head = await restorer.restore(key, versions[0])
    if head.uid is None:
        return  # the whole thread was deleted
    yield versions[0], head.document
    rest = await storage.restore(key, at=versions[-1], after=head.last) if len(versions) > 1 else None
    if rest is None:
        return
    changes = _changes(key, head, rest, versions)
    wanted, added = set(versions), head.document.size
    for entry in rest.entries:
        if entry.version in changes:
            change = changes[entry.version]
            bodies = await restorer.bodies(key, change.blobs)
            fold.apply(key.id, head.document, [entry], [change], bodies, restorer.limits)
            added += sum(map(weight, change.ops)) + sum(map(len, bodies.values()))
            if added > restorer.limits.nodes:
                restorer.limits.check_document(head.document, f"the state of thread {key.id!r}")
                added = 0
        if entry.version in wanted:
            yield entry.version, head.document


def _changes(key: ThreadKey, head: Head, rest: Restored, versions: Sequence[int]) -> dict[int, StateChange]:
    """The checked changes after a head, by version. Raises `Pruned` where they do not lead through all versions."""
    if rest.row.uid != head.uid:
        raise fold.Pruned(versions[0])
    fold.verify(rest, versions[-1], head.last, head.chain)
    for record in rest.records:
        inside = next((version for version in versions if record.low < version < record.version), None)
        if inside is not None:
            raise fold.Pruned(inside)  # it was made a part of a range since it was listed
    changes: dict[int, StateChange] = {}
    for entry, step in fold.walk(key.id, rest.entries, rest.records):
        if isinstance(step, WholeState):
            raise fold.Pruned(entry.version)
        if step is not None:
            changes[entry.version] = (
                step if isinstance(step, StateChange) else StateChange(step.ops, step.mark, step.to, step.blobs)
            )
    return changes
