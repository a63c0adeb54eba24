"""Where a call is made: in the run itself, or inside a step. It counts, so that equal calls are told apart."""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from perdure.core.calls import TOP, Call, key_digest, shown
from perdure.runtime.written import Put, step_of

if TYPE_CHECKING:
    from perdure.runtime.run import Run


class Scope:
    """The calls that one piece of code makes."""

    def __init__(self, run: Run, call_id: bytes = TOP, outer: Scope | None = None) -> None:
        self.run = run
        self.call_id = call_id
        self.outer = outer
        self.free = False  # what is asked for next depends on more than the log tells, such as the state
        self._asked = 0
        self.settled = 0
        self._equals: dict[tuple[str, bytes], int] = {}  # calls and writes so far
        self.writes = self._writes_over = 0

    def call(self, name: str, args: bytes, given: str = "") -> Call:
        """The next call. It is made before anything is awaited, so the order is that of the code."""
        nth = self._nth(name, args)
        call = Call(self.run.calls_as, self.call_id, name, args, nth, self._asked, self.settled, given)
        self._asked += 1
        return call

    def _nth(self, name: str, asked: bytes) -> int:
        """How many equals there were before."""
        nth = self._equals.get((name, asked), 0)
        self._equals[name, asked] = nth + 1
        return nth

    def settle(self) -> None:
        """A call is over."""
        self.settled += 1

    def write(self, what: str, asked: bytes) -> Put:
        """The next write, made before anything is awaited."""
        nth = self._nth(what, asked)
        content = shown(key_digest([self.run.calls_as, self.call_id, what, asked, nth]))
        alone = self._asked == self.settled and self.writes == self._writes_over
        put = Put(what, content, self.writes, alone, step_of(self.call_id))
        self.writes += 1
        return put

    def settle_write(self) -> None:
        """A write is over."""
        self._writes_over += 1

    def pass_write(self) -> None:
        """A write that stands is not made again."""
        self.writes += 1
        self.settle_write()

    def encloses(self, other: Scope) -> bool:
        """Whether `other` is this one, or inside it."""
        at: Scope | None = other
        while at is not None and at is not self:
            at = at.outer
        return at is self


SCOPE: ContextVar[Scope | None] = ContextVar("perdure_scope", default=None)


def state_was_read() -> None:
    """Code of a run looked at the state: what it asks for next may differ from what it asked for before."""
    scope = SCOPE.get()
    if scope is not None:
        scope.free = True
