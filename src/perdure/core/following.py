"""Following a conversation through a log: forward through rewinds and pruned ranges."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Raw

from perdure.core.codec import decode_tagged
from perdure.core.conversation import Conversation, Moment, list_at
from perdure.core.digest import body_of
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import EntryDamagedError, ValueDamagedError
from perdure.core.fold import Step
from perdure.core.messages import message_id
from perdure.core.ops import Ops
from perdure.core.payload import StateChange, WholeState
from perdure.core.pruning import Composed, Talk, is_blank
from perdure.core.steps import Path


class Following:
    """The conversation at each version of a log, in the order of the log."""

    def __init__(self, path: Path, targets: Collection[int] = ()) -> None:
        self._path = path
        self._targets = frozenset(targets)  # versions that a rewind goes back to
        self._there: dict[int, Conversation] = {}
        self._micros: dict[int, int] = {}  # when each version was
        self.now = Conversation(path)

    def follow(self, thread_id: str, entry: Entry, step: Step | None) -> None:
        """Take up an entry: `step` is what it does to the state, its large values put back."""
        self.now.moment = Moment(entry.version, entry.micros)
        self._micros[entry.version] = entry.micros
        if step is not None:
            self.take(step)
        elif entry.kind is EntryKind.MESSAGE_DELETED:
            self.now.remove(*taken_back(thread_id, entry))
        elif entry.kind is EntryKind.MESSAGE_ADDED:
            self._hear(spoken(thread_id, entry))
        self.passed(entry.version)

    def _hear(self, body: bytes | None) -> None:
        if body is None:
            self.now.skip()
        else:
            self.now.add(Raw(body), message_id(body))

    def passed(self, version: int) -> None:
        """Everything of a version was taken up."""
        if version in self._targets:
            self._there[version] = self.now.copy()

    def take(self, step: Step) -> None:
        """Take up what an entry does to the state."""
        before = None if isinstance(step, WholeState) or step.to is None else self._there.get(step.to)
        if isinstance(step, WholeState):
            begin(self.now, step, self._path)
        elif isinstance(step, Composed) and step.talk is not None:
            pass_by(self.now, step.ops, step.talk, step.low)
        elif before is None:
            self.now.follow(step.ops)
        else:
            self.now.turn(step, before)
        if not isinstance(step, StateChange):
            self.now.date(step.times, self._micros)


def begin(now: Conversation, whole: WholeState, path: Path) -> None:
    """Go to a base."""
    items = list_at(whole.state, path)
    if whole.talk is None:
        now.replace(items)
    else:
        now.jump(whole.talk, items)


def pass_by(now: Conversation, ops: Ops, talk: Talk | None, low: int) -> None:
    """Go to the end of the pruned range after `low`."""
    if talk is None:
        now.follow(ops)
    else:
        list_there = now.copy()
        list_there.follow(ops)
        now.jump(talk, list_there.items(), low)


def spoken(thread_id: str, entry: Entry) -> bytes | None:
    """The checked body of the message that an entry added; None where it was deleted."""
    return None if is_blank(entry) else body_of(thread_id, entry)


def taken_back(thread_id: str, entry: Entry) -> tuple[str, tuple[int, ...]]:
    """What an entry `message.deleted` takes back: the id of a message, and the entries that it was."""
    try:
        told = decode_tagged(body_of(thread_id, entry))
        return told["id"], tuple(told["versions"])
    except (ValueDamagedError, KeyError, TypeError) as exc:
        raise EntryDamagedError(thread_id, entry.version, "does not tell which message it takes back") from exc
