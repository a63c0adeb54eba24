"""What was acknowledged and is not durable yet: a lane of writes for each thread, in order."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadRow
from perdure.core.writes import Appended, Write
from perdure.storage.background.errors import BrokenPromise

Alive = Callable[[], bool]


@dataclass(slots=True, kw_only=True)
class Queued:
    """A write with the answer that its caller was given."""

    number: int
    write: Write
    promised: Appended
    in_doubt: bool = False  # it was tried, and nobody heard what became of it

    @property
    def before(self) -> int:
        """The version that it builds on."""
        return self.promised.version - len(self.write.entries)


@dataclass(slots=True, eq=False)
class Turn:
    """The next write of a thread, in the hands of whoever applies it."""

    key: ThreadKey
    queued: Queued
    alive: Alive  # whether they can still go on


class Backlog:
    """The lanes, and who is busy with which. Every call is made under the lock of the queue."""

    def __init__(self, max_pending: int) -> None:
        self._max = max_pending
        self._lanes: dict[ThreadKey, deque[Queued]] = {}
        self._numbers: dict[int, None] = {}  # of everything queued, the oldest first
        self._ready: deque[ThreadKey] = deque()  # lanes that nobody works on
        self._turns: dict[ThreadKey, Turn] = {}
        self._held: set[ThreadKey] = set()
        self._entering = 0
        self._last = 0
        self._broken: dict[ThreadKey, BrokenPromise] = {}
        self._told_full = False

    # Coming in.

    def is_held(self, key: ThreadKey) -> bool:
        """Whether an operation that has to be alone on this thread is under way."""
        return key in self._held

    def hold(self, key: ThreadKey) -> None:
        """Keep others off the thread; those who only read are not concerned."""
        self._held.add(key)

    def let_go(self, key: ThreadKey) -> None:
        self._held.discard(key)

    def is_full(self) -> bool:
        """Whether no further write may come in."""
        return len(self._numbers) + self._entering >= self._max

    def may_enter(self, key: ThreadKey) -> bool:
        return key not in self._held and not self.is_full()

    def enter(self, key: ThreadKey) -> None:
        """Hold the thread, and keep room for one write."""
        self.hold(key)
        self._entering += 1

    def leave(self, key: ThreadKey) -> None:
        self.let_go(key)
        self._entering -= 1

    def begins_to_be_full(self) -> bool:
        """True once, until half of what was queued is gone."""
        told, self._told_full = self._told_full, True
        return not told

    def line(self, key: ThreadKey) -> ThreadRow | None:
        """The line of a thread after everything queued; None when nothing is, or it will not be as promised."""
        lane = self._lanes.get(key)
        return lane[-1].promised.row if lane and key not in self._broken else None

    def add(self, write: Write, promised: Appended) -> bool:
        """Queue a write; True when somebody is needed to work on its lane."""
        self._last += 1
        self._numbers[self._last] = None
        lane = self._lanes.setdefault(write.key, deque())
        lane.append(Queued(number=self._last, write=write, promised=promised))
        needed = len(lane) == 1
        if needed:
            self._ready.append(write.key)
        return needed

    # Going out.

    def take(self, alive: Alive) -> Turn | None:
        """The next write that may be applied: the oldest of a lane that nobody works on."""
        if not self._ready:
            self._rescue()
        if not self._ready:
            return None
        key = self._ready.popleft()
        turn = self._turns[key] = Turn(key, self._lanes[key][0], alive)
        return turn

    def _rescue(self) -> None:
        """Lanes in the hands of an event loop that was closed are anybody's again."""
        for turn in [turn for turn in self._turns.values() if not turn.alive()]:
            self.give_back(turn)

    def give_back(self, turn: Turn) -> None:
        """Nobody knows what became of it: whoever takes it next finds out."""
        if self._ends(turn):
            turn.queued.in_doubt = True
            self._ready.appendleft(turn.key)

    def done(self, turn: Turn) -> bool:
        """It is durable; False when somebody else had taken it over."""
        if not self._ends(turn):
            return False
        self._forget(turn.key, 1)
        return True

    def fail(self, turn: Turn) -> int:
        """It cannot be made, and what was queued after it builds on it: drop them, and return how many."""
        return self._forget(turn.key, len(self._lanes[turn.key])) if self._ends(turn) else 0

    def _ends(self, turn: Turn) -> bool:
        current = self._turns.get(turn.key) is turn
        if current:
            del self._turns[turn.key]
        return current

    def _forget(self, key: ThreadKey, count: int) -> int:
        lane = self._lanes[key]
        for _ in range(count):
            del self._numbers[lane.popleft().number]
        if lane:
            self._ready.append(key)
        else:
            del self._lanes[key]
        self._told_full = self._told_full and len(self._numbers) > self._max // 2
        return count

    def drop_all(self) -> int:
        """Forget everything, and return how many writes that were."""
        count = len(self._numbers)
        for gone in (self._lanes, self._numbers, self._ready, self._turns):
            gone.clear()
        return count

    # Waiting.

    def newest(self, key: ThreadKey | None = None) -> int:
        """The number of the newest queued write, of a thread or of all; 0 when there is none."""
        if key is None:
            return self._last if self._numbers else 0
        lane = self._lanes.get(key)
        return lane[-1].number if lane else 0

    def is_past(self, number: int, key: ThreadKey | None = None) -> bool:
        """Whether nothing up to this number is queued any more, of a thread or of all."""
        if key is None:
            return not self._numbers or next(iter(self._numbers)) > number
        lane = self._lanes.get(key)
        return not lane or lane[0].number > number

    # Broken promises.

    def break_promise(self, broken: BrokenPromise) -> None:
        known = self._broken.get(broken.key)
        self._broken[broken.key] = known.joined(broken) if known else broken

    def is_broken(self, key: ThreadKey) -> bool:
        """Whether there is something to tell about a thread."""
        return key in self._broken

    def confess(self, key: ThreadKey) -> list[BrokenPromise]:
        """What has to be told about a thread, once."""
        broken = self._broken.pop(key, None)
        return [broken] if broken else []

    def confess_all(self) -> list[BrokenPromise]:
        """The same for all threads."""
        broken = list(self._broken.values())
        self._broken.clear()
        return broken
