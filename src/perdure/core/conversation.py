"""The messages of a thread, read from its log: everything that was said, whatever the state still holds of it.

Items that appear in the list at a message path, and `message.added` entries, are messages. Changing an item changes
its message; cutting the list (a summary took over) leaves the message in the conversation.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core import align
from perdure.core.document import Document, opened
from perdure.core.ops import Append, Op, Ops, Set, Splice, Truncate
from perdure.core.steps import Path

MESSAGE_PATH: Path = ("messages",)


class Conversation:
    """Follows the list at one path through the changes of a log."""

    def __init__(self, path: Path = MESSAGE_PATH) -> None:
        self._path = path
        self._said: list[Document] = []
        self._listed: list[Document] = []

    def messages(self) -> list[bytes]:
        """Everything that was said, in order, encoded."""
        return [each.encoded() for each in self._said]

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
            self._replace(_list_at(op.value, self._path[len(op.path) :]))

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
            self._replace(_list_at(op.value, ()))
        else:
            self._listed = []

    def _replace(self, items: list[Raw]) -> None:
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


def _list_at(value: Raw, path: Path) -> list[Raw]:
    node: Any = opened(value)
    for step in path:
        node = opened(node[step]) if type(node) is dict and step in node else None
    return list(node) if type(node) is list else []


def _relative(op: Op, path: Path) -> Op:
    return msgspec.structs.replace(op, path=path)
