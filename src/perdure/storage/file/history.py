"""A thread's log and those of the threads it was forked from, held together."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from contextlib import ExitStack, contextmanager
from posixpath import join

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.entries import STATE_KINDS
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.quarantine import with_standing_of
from perdure.core.seams import Range, Rewind
from perdure.core.threads import ThreadRow
from perdure.storage.file.index import Kept
from perdure.storage.file.lines import Header, checkpoint_of
from perdure.storage.file.log import Log
from perdure.storage.file.logs import THREADS, Logs
from perdure.storage.lineage import Span, spans

_ATTEMPTS = 5


class History:
    """What folding and listing see: one history in pieces, the newest first."""

    def __init__(self, logs: Sequence[Log]) -> None:
        self.logs = logs

    @property
    def row(self) -> ThreadRow:
        """The directory line of the thread itself."""
        return self.logs[0].row

    def pieces(self, low: int, high: int) -> list[tuple[Log, Span]]:
        """The versions after `low` up to `high`, in the order of the log: the oldest piece first."""
        heads = [(log.row.parent_version, log.row.head) for log in self.logs]
        cut = [Span(max(span.low, low), span.high) for span in spans(heads, high)]
        return list(zip(self.logs, cut, strict=True))[::-1]

    def headers(self, low: int, high: int) -> list[tuple[Log, list[Header]]]:
        """Their headers, log by log."""
        return [(log, log.index.between(span.low, span.high)) for log, span in self.pieces(low, high)]

    def checkpoints(self) -> list[CheckpointRow]:
        """The checkpoints of the whole history, newest first, as lines of this thread."""
        key = self.row.key
        newest_first = self.pieces(0, self.row.head)[::-1]
        return [
            checkpoint_of(mark, key)
            for log, span in newest_first
            for mark in reversed(log.index.marks)
            if mark.entry <= span.high
        ]

    def records(self, at: int) -> list[tuple[Log, Kept]]:
        """The records of versions up to `at`, bases among them, in order of version."""
        pieces = self.pieces(0, at)
        found = [(log, kept) for log, span in pieces for kept in log.index.records if kept.head.version <= span.high]
        return sorted(found, key=lambda each: each[1].head.version)

    def gone(self) -> list[Range]:
        """The versions whose state was pruned."""
        return sorted(kept.head.gone for _, kept in self.records(self.row.head))

    def rewinds(self) -> list[Rewind]:
        """The entries that went back to an earlier state."""
        pieces = self.pieces(0, self.row.head)
        return [each for log, span in pieces for each in log.index.rewinds if each.entry <= span.high]

    def forked(self, version: int, target: ThreadRow) -> ThreadRow:
        """The directory line of a thread whose history is this one up to `version`; it has the same standing."""
        target = with_standing_of(target, self.row)
        own, row = self.logs[0].index, self.row
        if version == row.head > row.parent_version and own.newest_mark() == row.last_checkpoint:
            return self._forked_at_head(target)
        past = [header for _, headers in self.headers(0, version) for header in headers]
        states = (header.version for header in reversed(past) if header.kind in STATE_KINDS)
        mark = next((row for row in self.checkpoints() if row.entry <= version), None)
        return msgspec.structs.replace(
            target,
            head=version,
            state_version=next(states, 0),
            head_digest=past[-1].chain if past else target.head_digest,
            last_checkpoint=mark.mark.id if mark else None,
            parent_uid=self.row.uid,
            parent_version=version,
            updated=max(target.created, past[-1].micros if past else 0),
        )

    def _forked_at_head(self, target: ThreadRow) -> ThreadRow:
        """The same at the newest version, whose row says everything: no older line is read."""
        row = self.row
        return msgspec.structs.replace(
            target,
            head=row.head,
            state_version=row.state_version,
            head_digest=row.head_digest,
            last_checkpoint=row.last_checkpoint,
            parent_uid=row.uid,
            parent_version=row.head,
            updated=max(target.created, self.logs[0].index.header(row.head).micros),
        )


@contextmanager
def history(logs: Logs, key: ThreadKey, upto: int | None = None) -> Generator[History | None]:
    """Hold a thread's whole history for reading; None when there is no such thread.

    With `upto`, one that is damaged behind that version is given as far as it is intact.
    """
    with ExitStack() as stack:
        log = stack.enter_context(logs.reading(logs.folder(key), upto))
        yield ancestry(logs, log, stack) if log else None


def ancestry(logs: Logs, log: Log, stack: ExitStack) -> History:
    """A log that is held already, and its parents, which are held for reading."""
    found = [log]
    while found[-1].row.parent_uid is not None:
        found.append(_parent(logs, found[-1], stack))
    return History(found)


def _parent(logs: Logs, child: Log, stack: ExitStack) -> Log:
    uid = child.row.parent_uid or ""
    # Hidden first: the folder of the same id may by now belong to a later thread, one that is held already.
    folders = (logs.hidden(uid), join(logs.root, THREADS, child.index.parent or ""))
    for _ in range(_ATTEMPTS):  # it may be deleted, and so move, while we look
        for folder in folders:
            # Of a parent that is damaged behind what the fork has of it, the fork does not notice.
            upto = child.row.parent_version
            log = stack.enter_context(logs.reading(folder, upto)) if logs.holds(folder, uid) else None
            if log is not None and log.row.uid == uid:
                return log
    raise EntryDamagedError(child.row.key.id, child.row.parent_version, "belongs to a parent thread that is gone")
