"""The questions of a thread as its log tells them: which are open, who was told, what was decided."""

from __future__ import annotations

import msgspec

from perdure.core.calls import shown, told
from perdure.core.entries import Entry, EntryKind
from perdure.core.pauses import Decided, Notified, Opened, decode_decided, decode_notified, decode_opened, pause_id
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage

_KINDS = (EntryKind.PAUSE_OPENED, EntryKind.PAUSE_NOTIFIED, EntryKind.PAUSE_APPROVED, EntryKind.PAUSE_DECIDED)


class Told(msgspec.Struct, frozen=True):
    """The newest attempt to tell somebody of a question."""

    micros: int
    notified: Notified


class Question(msgspec.Struct, frozen=True):
    """A question that waits."""

    entry: Entry
    opened: Opened
    told: dict[str, Told] = {}  # by hook
    approved: tuple[Decided, ...] = ()  # those of several approvals that stand

    def id_in(self, row: ThreadRow) -> str:
        """Its id as it leads to this thread: one that was imported under another name has another uid than in there."""
        own = self.entry.version > row.parent_version
        return pause_id(row.uid, shown(self.opened.call.id)) if own else self.opened.pause

    def people(self, now: int) -> tuple[str, ...]:
        """Who may answer by now."""
        return self.opened.people(now - self.entry.micros)

    @property
    def untold(self) -> tuple[str, ...]:
        """Why receivers could not be told of it, as they last answered."""
        tries = [each.notified for each in self.told.values() if not each.notified.delivered]
        return tuple(f"try {each.attempt}: {each.text or 'no answer'}" for each in tries)


async def open_questions(storage: Storage, row: ThreadRow) -> list[Question]:
    """The open questions of the newest run of a thread, oldest first."""
    found: dict[str, Question] = {}
    for entry in await storage.entries(row.key, after=max(row.run - 1, 0), kinds=_KINDS):
        if entry.kind is EntryKind.PAUSE_OPENED:
            opened = told(row.key.id, entry, decode_opened)
            found[opened.pause] = Question(entry, opened)
        elif entry.kind is EntryKind.PAUSE_DECIDED:
            found.pop(told(row.key.id, entry, decode_decided).pause, None)
        elif entry.kind is EntryKind.PAUSE_APPROVED:
            _approve(found, told(row.key.id, entry, decode_decided))
        else:
            _note(found, entry, told(row.key.id, entry, decode_notified))
    return list(found.values())


def _approve(found: dict[str, Question], approval: Decided) -> None:
    question = found.get(approval.pause)
    if question is not None:
        found[approval.pause] = msgspec.structs.replace(question, approved=(*question.approved, approval))


def _note(found: dict[str, Question], entry: Entry, notified: Notified) -> None:
    question = found.get(notified.pause)
    if question is not None:
        known = {**question.told, notified.hook: Told(entry.micros, notified)}
        found[notified.pause] = msgspec.structs.replace(question, told=known)
