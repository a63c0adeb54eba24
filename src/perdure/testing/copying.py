"""Copying a thread in the model: what `put_thread` promises, in plain words."""

from __future__ import annotations

from dataclasses import replace

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.digest import GENESIS
from perdure.core.errors import LeaseHeldError, ThreadExistsError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy
from perdure.testing.model import Model, Outcome, Thread


def apart(copy: ThreadCopy, key: ThreadKey) -> ThreadCopy:
    """The copy for another key of the same storage, its own checkpoints under names that nobody has."""
    last = copy.checkpoints[-1] if copy.checkpoints else None
    name = _name(last.mark.id, key) if last and last.entry > copy.inherited else copy.row.last_checkpoint
    row = msgspec.structs.replace(copy.row, key=key, last_checkpoint=name)
    return msgspec.structs.replace(copy, row=row, checkpoints=[_renamed(mark, copy, key) for mark in copy.checkpoints])


def _renamed(row: CheckpointRow, copy: ThreadCopy, key: ThreadKey) -> CheckpointRow:
    if row.entry <= copy.inherited:
        return row
    return msgspec.structs.replace(row, mark=msgspec.structs.replace(row.mark, id=_name(row.mark.id, key)))


def _name(checkpoint_id: str, key: ThreadKey) -> str:
    return f"{checkpoint_id}~{key.id}"


def put(model: Model, source: ThreadKey, copy: ThreadCopy) -> ThreadRow:
    """Put the copy of a thread of the same user; its past is that of the thread it was taken from."""
    there, standing = model.threads[source], model.threads.get(copy.row.key)
    if standing is None:
        own = [(copy.uids[-1], None)]
        standing = model.threads[copy.row.key] = Thread(copy.row, there.lines[: copy.inherited])
        standing.lineage = [*own, *(there.lineage[1:] if copy.inherited else [])]
        standing.marks = [_seen_from(mark, copy.row.key) for mark in there.marks if mark.entry <= copy.inherited]
        standing.row = _born(copy)
    elif not _begins(standing, there, copy):
        raise ThreadExistsError(copy.row.key.id)
    elif len(standing.lines) == len(there.lines):
        return standing.row
    elif standing.row.lease_owner is not None:
        raise LeaseHeldError(copy.row.key.id, standing.row.lease_owner)
    else:
        standing.row = _grown(standing.row, copy)
    _add(standing, there, copy)
    return standing.row


def _begins(standing: Thread, there: Thread, copy: ThreadCopy) -> bool:
    """Whether a thread is the beginning of the one that was copied."""
    known = len(standing.lines)
    same = bool(known) or standing.row.uid in copy.uids
    return same and known >= copy.inherited and standing.lines == there.lines[:known]


def _born(copy: ThreadCopy) -> ThreadRow:
    parent = copy.row.parent_uid if copy.inherited else None
    return _idle(copy, uid=copy.uids[-1], parent_uid=parent)


def _grown(row: ThreadRow, copy: ThreadCopy) -> ThreadRow:
    kept = {name: getattr(row, name) for name in ("uid", "created", "parent_uid", "parent_version")}
    return _idle(copy, epoch=max(row.epoch, copy.row.epoch), **kept)


def _idle(copy: ThreadCopy, **changes: object) -> ThreadRow:
    """A line that nobody runs, without the digest, which the model does not compute."""
    return msgspec.structs.replace(copy.row, head_digest=GENESIS, lease_owner=None, lease_until=0, **changes)


def _add(standing: Thread, there: Thread, copy: ThreadCopy) -> None:
    """What the thread lacks: entries, checkpoints, and the answers to keys and retries."""
    known = len(standing.lines)
    standing.lines += there.lines[known:]
    marks = {row.entry: _seen_from(row, copy.row.key) for row in copy.checkpoints}
    standing.marks += [mark for at, mark in sorted(marks.items()) if at > known]
    answers = {outcome.version: _answer(outcome, marks) for _, first, outcome in there.written if first > known}
    for write_id, first, outcome in there.written:
        if outcome.version in answers:
            standing.written.append((write_id, first, answers[outcome.version]))
    for key, (request, outcome) in there.done.items():
        if outcome.version in answers:
            standing.done[key] = (request, answers[outcome.version])


def _answer(outcome: Outcome, marks: dict[int, CheckpointRow]) -> Outcome:
    return replace(outcome, checkpoint=marks.get(outcome.version))


def _seen_from(row: CheckpointRow, key: ThreadKey) -> CheckpointRow:
    mark = msgspec.structs.replace(row.mark, parent=None, version=None)
    return msgspec.structs.replace(row, mark=mark, thread_id=key.id, user=key.user)
