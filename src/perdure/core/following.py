"""Following a conversation through a log: forward through rewinds and pruned ranges."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import Raw

from perdure.core.conversation import Conversation, list_at
from perdure.core.fold import Step
from perdure.core.payload import StateChange, WholeState
from perdure.core.pruning import Composed
from perdure.core.steps import Path


class Following:
    """The conversation at each version of a log, in the order of the log."""

    def __init__(self, path: Path, targets: Collection[int] = ()) -> None:
        self._path = path
        self._targets = frozenset(targets)  # versions that a rewind goes back to
        self._there: dict[int, Conversation] = {}
        self.now = Conversation(path)

    def passed(self, version: int) -> None:
        """Everything of a version was taken up."""
        if version in self._targets:
            self._there[version] = self.now.copy()

    def said(self, item: Raw) -> None:
        """A message that is in no list."""
        self.now.add(item)

    def take(self, step: Step) -> None:
        """Take up what an entry does, its large values put back."""
        if isinstance(step, WholeState):
            self._begin(step)
        elif isinstance(step, Composed) and step.talk is not None:
            list_there = self.now.copy()
            list_there.follow(step.ops)
            self.now.jump(step.talk, list_there.items())
        else:
            self._change(step)

    def _begin(self, whole: WholeState) -> None:
        items = list_at(whole.state, self._path)
        if whole.talk is None:
            self.now.replace(items)
        else:
            self.now.jump(whole.talk, items)

    def _change(self, step: StateChange | Composed) -> None:
        before = self._there.get(step.to) if step.to is not None else None
        if before is None:
            self.now.follow(step.ops)
        else:
            self.now.turn(step, before)
