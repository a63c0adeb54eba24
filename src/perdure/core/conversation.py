"""The messages of a thread, read from its log: everything that was said, whatever the state still holds of it.

Items that appear in the list at a message path, and `message.added` entries, are messages. Changing an item changes
its message; cutting the list (a summary took over) leaves the message in the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, cast

import msgspec
from msgspec import Raw

from perdure.core import align
from perdure.core.document import Document, opened
from perdure.core.ops import Append, Op, Ops, Set, Splice, Truncate
from perdure.core.payload import StateChange
from perdure.core.pruning import Composed, Talk
from perdure.core.steps import Path

MESSAGE_PATH: Path = ("messages",)


class Conversation:
    """Follows the list at one path through the changes of a log."""

    def __init__(self, path: Path = MESSAGE_PATH) -> None:
        self._path = path
        self._said: list[Document | None] = []  # None: it was dropped
        self._listed: list[Document] = []

    def messages(self) -> list[bytes]:
        """Everything that was said, in order, encoded."""
        return [each.encoded() for each in self._said if each is not None]

    def copy(self) -> Conversation:
        """Another one that goes its own way."""
        made = Conversation(self._path)
        made._said = [each and Document(Raw(each.encoded())) for each in self._said]
        places = self._places()
        made._listed = [cast("Document", made._said[places[id(each)]]) for each in self._listed]
        return made

    def _places(self) -> dict[int, int]:
        return {id(each): at for at, each in enumerate(self._said)}

    def numbers(self) -> tuple[int, list[int]]:
        """How many messages were said, and which of them the items of the list are."""
        places = self._places()
        return len(self._said), [places[id(each)] for each in self._listed]

    def talk(self, before: Talk | None = None) -> Talk:
        """What the list in the state does not tell; with `before`, what was known then is left out."""
        count, listed = self.numbers()
        known = set(range(before.count)) - set(before.listed) if before else set[int]()
        lost = [
            (at, Raw(each.encoded()))
            for at, each in enumerate(self._said)
            if each is not None and at not in known and at not in set(listed)
        ]
        return Talk(count, listed, lost, before is None)

    def items(self) -> list[Raw]:
        """The list as it is now."""
        return [Raw(each.encoded()) for each in self._listed]

    def jump(self, talk: Talk, items: Sequence[Raw]) -> None:
        """Go to the end of a pruned range, where the list has these items."""
        if talk.whole:
            self._said = []
        self._said += [None] * (talk.count - len(self._said))
        for at, item in talk.lost:
            self._said[at] = Document(item)
        self._listed = [self._at(at, item) for at, item in zip(talk.listed, items, strict=True)]

    def _at(self, at: int, item: Raw) -> Document:
        self._said[at] = made = Document(item)
        return made

    def turn(self, change: StateChange | Composed, before: Conversation) -> None:
        """A rewind: the list becomes what the change makes of it, and what was said is what was said `before`."""
        self.follow(change.ops)
        items = self.items()
        there = before.copy()
        self._said, self._listed = there._said, there._listed
        self.replace(items)

    def add(self, item: Raw) -> None:
        """Take up a message that is in no list."""
        self._said.append(Document(item))

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
        kept = {new: self._listed[old] for old, new in align.matches([each.close() for each in self._listed], items)}
        self._listed = [kept[at] if at in kept else self._new([item])[0] for at, item in enumerate(items)]

    def _edit(self, op: Op, rest: Path) -> None:
        index = rest[0]
        if not isinstance(index, int) or index >= len(self._listed):
            return
        if len(rest) == 1 and isinstance(op, Set):
            self._listed[index].root = op.value
        else:
            self._listed[index].apply([_relative(op, rest[1:])])

    def _new(self, items: Iterable[Raw]) -> list[Document]:
        made = [Document(item) for item in items]
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
        node = opened(node[step]) if type(node) is dict and step in node else None
    return list(node) if type(node) is list else []


def _relative(op: Op, path: Path) -> Op:
    return msgspec.structs.replace(op, path=path)
