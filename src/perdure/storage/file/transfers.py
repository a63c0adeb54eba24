"""Adding a copied thread: its log is written beside the place where it belongs, and put there whole."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from contextlib import ExitStack, nullcontext, suppress
from itertools import chain
from typing import NamedTuple

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.digest import GENESIS
from perdure.core.entries import Entry
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey, same_owner
from perdure.core.quarantine import shares_past
from perdure.core.seams import within
from perdure.core.threads import ThreadRow
from perdure.core.transfer import ThreadCopy, born, check, grown, past, standing_until
from perdure.core.writes import Blob
from perdure.storage.file.blobs import Blobs
from perdure.storage.file.bodies import is_packed, shown
from perdure.storage.file.forks import need, need_earlier
from perdure.storage.file.history import ancestry
from perdure.storage.file.lines import NOBODY, Lease, Line, change_between, header_of, identified, mark_of, row_after
from perdure.storage.file.log import Log
from perdure.storage.file.logs import HIDDEN, Logs
from perdure.storage.file.rewriting import Piece, among, piece_of
from perdure.storage.file.writing import changed_lease


class _Parent(NamedTuple):
    """The thread that a fork hangs on; it is held while the fork is made."""

    folder: str
    uid: str
    key: ThreadKey


def put_thread(logs: Logs, blobs: Blobs, copy: ThreadCopy) -> ThreadRow:
    """The put_thread of the contract."""
    check(copy)
    folder = logs.folder(copy.row.key)
    with blobs.held(blobs.scope(copy.row.key)) if copy.blobs else nullcontext():
        while True:  # somebody may make or delete a thread of this key between two looks
            done = _made(logs, blobs, copy) if logs.born(folder) is None else _brought_up(logs, blobs, copy)
            if done is not None:
                return done


def _brought_up(logs: Logs, blobs: Blobs, copy: ThreadCopy) -> ThreadRow | None:
    """The thread that stands, with everything the copy has; None when there is none any more."""
    with logs.writing(logs.folder(copy.row.key)) as log, ExitStack() as stack:
        if log is None:
            return None
        until = standing_until(log.row, copy)
        if until == copy.row.head:
            return log.row
        after = grown(log.row, copy)
        _keep_blobs(blobs, copy, until)
        if rewinds := [each for each in copy.rewinds if each.entry > until]:
            need_earlier(logs, ancestry(logs, log, stack), rewinds)
        lines = _lines(copy, log.index.row, after, until, changed_lease(log, after))
        log.rewrite(chain(log.pieces(), _with_records(copy, lines, until, after.head)), log.index.edition)
        return after


def _made(logs: Logs, blobs: Blobs, copy: ThreadCopy) -> ThreadRow | None:
    """The new thread; None when somebody else made one of this key meanwhile."""
    standing_until(None, copy)
    with ExitStack() as stack:
        homes = _homes(logs)
        row = born(copy, [uid for uid in copy.uids if uid not in homes])
        # The parent's lock first, as a fork takes them.
        parent = _parent(logs, copy, homes, stack) if copy.inherited else None
        log = stack.enter_context(logs.writing(logs.folder(row.key), create=True))
        if log is None or not log.index.is_empty:
            return None
        _keep_blobs(blobs, copy, copy.inherited if parent else 0)
        if copy.inherited and parent is None:
            parent = _past(logs, copy, row.uid, homes, stack)
        return _begun(logs, log, copy, row, parent)


def _homes(logs: Logs) -> dict[str, str]:
    """The folder of every thread by its uid, those included that only forks see."""
    homes: dict[str, str] = {}
    for folder in (*logs.folders(), *logs.folders(HIDDEN)):
        with suppress(EntryDamagedError):  # of another thread, whose own readers will say so
            line = logs.born(folder)
            if line is not None and isinstance(line.changed.uid, str):
                homes[line.changed.uid] = folder
    return homes


def _parent(logs: Logs, copy: ThreadCopy, homes: Mapping[str, str], stack: ExitStack) -> _Parent | None:
    """The parent, if it is here, of the same user, with the past that the copy has."""
    folder = homes.get(copy.row.parent_uid or "")
    log = stack.enter_context(logs.writing(folder)) if folder is not None else None
    if log is None or log.row.uid != copy.row.parent_uid or not same_owner(log.row.key, copy.row.key):
        return None
    if not shares_past(log.row, copy.row):
        return None
    history = ancestry(logs, log, stack)
    pieces = history.headers(copy.inherited - 1, copy.inherited)
    last = [header.chain for _, headers in pieces for header in headers]
    same = last == [copy.chain_at(copy.inherited)] and not within(history.gone(), copy.inherited)
    return _Parent(log.folder, log.row.uid, log.row.key) if same else None


def _past(logs: Logs, copy: ThreadCopy, uid: str, homes: Container[str], stack: ExitStack) -> _Parent | None:
    """Make the threads that hold what a fork has from its parents, and hold them until the fork is there."""
    parent: _Parent | None = None
    for line in past(copy, uid, parent_is_free=(copy.row.parent_uid or "") not in homes):
        log = stack.enter_context(logs.writing(logs.hidden(line.uid), create=True))
        if log is not None and log.index.is_empty:  # else a crash left it there
            _begun(logs, log, copy, line, parent)
        parent = _Parent(logs.hidden(line.uid), line.uid, line.key)
    return parent


def _begun(logs: Logs, log: Log, copy: ThreadCopy, row: ThreadRow, parent: _Parent | None) -> ThreadRow:
    """Write a new log, hung on its parent."""
    if parent is not None:
        row = msgspec.structs.replace(row, parent_uid=parent.uid)
        rewinds = [each for each in copy.rewinds if row.parent_version < each.entry <= row.head]
        need(logs, parent.folder, row, rewinds)
    start = row.parent_version
    opening = msgspec.structs.replace(
        row, head=start, state_version=0, head_digest=copy.chain_at(start) or GENESIS, last_checkpoint=None
    )
    first = Line(changed=change_between(NOBODY, opening, ()), parent=parent.key.digest() if parent else None)
    first = identified(first)
    lines = chain([first], _lines(copy, opening, row, start, changed_lease(log, row)))
    log.rewrite(_with_records(copy, lines, start, row.head), log.index.edition)
    return row


def _keep_blobs(blobs: Blobs, copy: ThreadCopy, low: int) -> None:
    values = [Blob(blob.digest, blob.payload) for blob in copy.blobs if blob.version > low]
    if values:
        blobs.put(copy.row.key, values, copy.row.updated)


def _with_records(copy: ThreadCopy, lines: Iterable[Line], low: int, high: int) -> Iterator[Piece]:
    """These lines, and the records of versions after `low` up to `high` among them."""
    return among(map(piece_of, lines), [record for record in copy.records if low < record.version <= high])


def _lines(copy: ThreadCopy, before: ThreadRow, after: ThreadRow, low: int, lease: Lease | None) -> Iterator[Line]:
    """The entries after `low` as lines, the last of which leads to the line `after` and its lease."""
    marks = {mark.entry: mark for mark in copy.checkpoints}
    back_to = {rewind.entry: rewind.to for rewind in copy.rewinds}
    groups = list(_together(copy.between(low, after.head), marks)) or [[]]
    for group in groups:
        line = _line(copy, group, marks, back_to)
        is_last = group is groups[-1]
        then = after if is_last else row_after(before, line)
        changed = change_between(before, then, line.entries, line.checkpoint)
        yield msgspec.structs.replace(line, changed=changed, lease=lease if is_last else None)
        before = then


def _together(entries: Iterable[Entry], marks: Container[int]) -> Iterator[list[Entry]]:
    """Entries as they were written: a line ends where another write begins, and with a checkpoint."""
    group: list[Entry] = []
    for entry in entries:
        if group and (entry.write_id != group[-1].write_id or group[-1].version in marks):
            yield group
            group = []
        group.append(entry)
    if group:
        yield group


def _line(copy: ThreadCopy, group: list[Entry], marks: Mapping[int, CheckpointRow], back_to: Mapping[int, int]) -> Line:
    mark = marks.get(group[-1].version) if group else None
    versions = {entry.version for entry in group}
    return Line(
        entries=tuple(header_of(entry, is_packed(entry.payload or b""), back_to.get(entry.version)) for entry in group),
        checkpoint=mark_of(mark) if mark else None,
        blobs=tuple(blob.digest for blob in copy.blobs if blob.version in versions),
        payload=tuple(shown(entry.payload or b"") for entry in group),
    )
