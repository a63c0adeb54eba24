"""The messages of a thread, read from its log: everything that was said, whatever the state still holds of it.

Items that appear in the list at a message path, and `message.added` entries, are messages. Changing an item changes
its message; cutting the list (a summary took over) leaves the message in the conversation. Of the messages of
`message.added` entries an id is one message: said again under its id, it takes the place of what was said before.

Every message has a number, from 1 on, that stays what it is. An entry takes one also where its message takes the place
of an earlier one, or was deleted: numbers follow from the headers of a log, whatever became of its payloads.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from typing import Any, NamedTuple, cast

import msgspec
from msgspec import Raw

from perdure.core import align
from perdure.core.document import Document, Opened, opened
from perdure.core.ops import Append, Op, Ops, Set, Splice, Truncate
from perdure.core.payload import StateChange
from perdure.core.pruning import Composed, Talk
from perdure.core.steps import Path

MESSAGE_PATH: Path = ("messages",)


class Moment(NamedTuple):
    """When something was said: the version of an entry and its time."""

    version: int = 0
    micros: int = 0


class Said:
    """One message, and where it comes from."""

    __slots__ = ("at", "document", "id", "version")

    def __init__(self, document: Document, at: Moment, id: str | None = None, held: bool = False) -> None:
        self.document = document
        self.at = at
        self.version = at.version if held else None  # the entry that is exactly this message
        self.id = id  # of a message that an entry added

    def copied(self) -> Said:
        """Another one that changes by itself."""
        made = copy(self)
        made.document = Document(Raw(self.document.encoded()))
        return made

    def since(self, at: Moment) -> Said:
        """The same, first said then."""
        made = copy(self)
        made.at = at
        return made


class Conversation:
    """Follows the list at one path through the changes of a log."""

    def __init__(self, path: Path = MESSAGE_PATH) -> None:
        self._path = path
        self._said: list[Said | None] = []  # None: dropped, deleted, or in the place of an earlier one
        self._listed: list[Said] = []
        self._added: dict[int, Said] = {}  # what entries added, by version
        self._removed: set[int] = set()  # those of them that were deleted: no rewind brings them back
        self._by_id: dict[str, int] = {}  # where the newest of an id stands
        self.moment = Moment()  # of what is being taken up

    def messages(self) -> list[bytes]:
        """Everything that was said, in order, encoded."""
        return [each.document.encoded() for each in self._said if each is not None]

    def said(self) -> list[tuple[int, Said]]:
        """Everything that was said, each with its number, from 1 on."""
        return [(at + 1, each) for at, each in enumerate(self._said) if each is not None]

    def copy(self) -> Conversation:
        """Another one that goes its own way."""
        made = Conversation(self._path)
        made._said = [each and each.copied() for each in self._said]
        places = self._places()
        made._listed = [cast("Said", made._said[places[id(each)]]) for each in self._listed]
        made._added = dict(self._added)
        made._removed = set(self._removed)
        made._by_id = dict(self._by_id)
        made.moment = self.moment
        return made

    def reader(self, before: Conversation | None = None) -> Conversation:
        """Somebody who reads on from `before`, or from the beginning, and has come by the same entries."""
        made = Conversation(self._path) if before is None else before.copy()
        made._added, made._removed, made.moment = dict(self._added), set(self._removed), self.moment
        return made

    def _places(self) -> dict[int, int]:
        return {id(each): at for at, each in enumerate(self._said)}

    def numbers(self) -> tuple[int, list[int]]:
        """How many messages were said, and which of them the items of the list are."""
        places = self._places()
        return len(self._said), [places[id(each)] for each in self._listed]

    def talk(self, before: Talk | None = None, low: int = 0) -> Talk:
        """What the list in the state does not tell; with `before`, what was known then, at `low`, is left out."""
        count, numbers = self.numbers()
        listed = set(numbers)
        known = set(range(before.count)) - set(before.listed) if before else set[int]()
        again = {each.id for version, each in self._added.items() if version > low and each.id is not None}
        left = [
            (at, each)
            for at, each in enumerate(self._said)
            # What was said again since then stands in the place of what was known.
            if each is not None and at not in listed and (at not in known or each.id in again)
        ]
        lost = [(at, Raw(each.document.encoded())) for at, each in left if each.version is None]
        held = [(at, each.version) for at, each in left if each.version is not None]
        return Talk(count, numbers, lost, before is None, held)

    def times(self, there: Conversation) -> list[tuple[int, int]]:
        """The places and versions of messages that another conversation, as long as this, takes as of another time."""
        pairs = zip(self._said, there._said, strict=True)
        return [
            (at, each.at.version) for at, (each, other) in enumerate(pairs) if each and other and each.at != other.at
        ]

    def date(self, times: Iterable[tuple[int, int]], micros: Mapping[int, int]) -> None:
        """Say of messages at which version they were said."""
        for at, version in times:
            each = self._said[at]
            if each is not None:
                each.at = Moment(version, micros.get(version, each.at.micros))

    def items(self) -> list[Raw]:
        """The list as it is now."""
        return [Raw(each.document.encoded()) for each in self._listed]

    def jump(self, talk: Talk, items: Sequence[Raw], low: int = 0) -> None:
        """Go to the end of the pruned range after `low`, where the list has these items.

        What entries of the range added was taken up at the places it would have without the rest of the range.
        """
        old = [] if talk.whole else [None if each and (each.version or 0) > low else each for each in self._said]
        self._said = [*old[: talk.count], *[None] * (talk.count - len(old))]
        for at, item in talk.lost:
            self._put(at, item)
        for at, version in talk.held:
            added = self._added.get(version)
            self._said[at] = added and copy(added)
        self._listed = [self._put(at, item) for at, item in zip(talk.listed, items, strict=True)]
        self._settle()

    def _put(self, at: int, item: Raw) -> Said:
        old = self._said[at]
        self._said[at] = made = Said(Document(item), old.at if old else self.moment)
        return made

    def _settle(self) -> None:
        """Leave out what was deleted, and know again where the ids are."""
        self._said = [None if each and each.version in self._removed else each for each in self._said]
        self._by_id = {each.id: at for at, each in enumerate(self._said) if each is not None and each.id is not None}

    def turn(self, change: StateChange | Composed, before: Conversation) -> None:
        """A rewind: the list becomes what the change makes of it, and what was said is what was said `before`."""
        self.follow(change.ops)
        items = self.items()
        there = before.copy()
        self._said, self._listed = there._said, there._listed
        self._settle()
        self.replace(items)

    def skip(self) -> None:
        """Pass by a message that was deleted."""
        self._said.append(None)

    def add(self, item: Raw, message_id: str | None = None) -> None:
        """Take up a message that is in no list; one of the same id takes the place of what was said before."""
        made = Said(Document(item), self.moment, message_id, held=True)
        self._added[self.moment.version] = made
        at = self._by_id.get(message_id) if message_id is not None else None
        old = self._said[at] if at is not None else None
        if at is not None and old is not None:
            self._said[at] = made.since(old.at)
            self.skip()
            return
        if message_id is not None:
            self._by_id[message_id] = len(self._said)
        self._said.append(copy(made))

    def remove(self, message_id: str, versions: Iterable[int]) -> None:
        """Drop the message of an id, where it is one of these entries: one that was said since stays."""
        self._removed.update(versions)
        at = self._by_id.get(message_id)
        each = self._said[at] if at is not None else None
        if at is not None and each is not None and each.version in self._removed:
            del self._by_id[message_id]
            self._said[at] = None

    def follow(self, ops: Ops) -> None:
        """Take up the changes of one entry."""
        for op in ops:
            self._follow(op)

    def _follow(self, op: Op) -> None:
        depth = len(self._path)
        if op.path[:depth] == self._path:
            self._inside(op, op.path[depth:])
        elif isinstance(op, Set) and self._path[: len(op.path)] == op.path:
            self.replace(list_at(op.value, self._path[len(op.path) :]))

    def _inside(self, op: Op, rest: Path) -> None:
        if rest:
            self._edit(op, rest)
        elif isinstance(op, Append):
            self._listed += self._new(op.items)
        elif isinstance(op, Truncate):
            del self._listed[op.length :]
        elif isinstance(op, Splice):
            self._listed[op.at : op.at + op.removed] = self._new(op.items)
        elif isinstance(op, Set):
            self.replace(list_at(op.value, ()))
        else:
            self._listed = []

    def replace(self, items: list[Raw]) -> None:
        """A list put there as a whole: items it has in common with the old one stay the same messages."""
        kept = {
            new: self._listed[old]
            for old, new in align.matches([each.document.close() for each in self._listed], items)
        }
        self._listed = [kept[at] if at in kept else self._new([item])[0] for at, item in enumerate(items)]

    def _edit(self, op: Op, rest: Path) -> None:
        index = rest[0]
        if not isinstance(index, int) or index >= len(self._listed):
            return
        if len(rest) == 1 and isinstance(op, Set):
            self._listed[index].document.root = op.value
        else:
            self._listed[index].document.apply([_relative(op, rest[1:])])

    def _new(self, items: Iterable[Raw]) -> list[Said]:
        made = [Said(Document(item), self.moment) for item in items]
        self._said += made
        return made


def appended(ops: Ops, path: Path = MESSAGE_PATH) -> list[Raw] | None:
    """The messages that one entry added at the end; None when it did anything else to them.

    Where a run of entries only adds, the newest messages are known without those before it.
    """
    items: list[Raw] = []
    for op in ops:
        if isinstance(op, Append) and op.path == path:
            items += op.items
        elif op.path[: len(path)] == path[: len(op.path)]:
            return None  # at the list, inside it or around it
    return items


def list_at(value: Raw, path: Path) -> list[Raw]:
    node: Any = opened(value)
    for step in path:
        inside: Any = node.fields if type(node) is Opened else node
        node = opened(inside[step]) if type(inside) is dict and step in inside else None
    return list(node) if type(node) is list else []


def _relative(op: Op, path: Path) -> Op:
    return msgspec.structs.replace(op, path=path)
