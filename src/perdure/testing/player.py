"""A storage and the model side by side: what is done to one is done to the other, and both have to say the same."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, ClassVar, Protocol, TypeVar

import msgspec
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from perdure.core.checkpoint import CheckpointRow
from perdure.core.codec import encode
from perdure.core.digest import GENESIS, verify_links
from perdure.core.entries import EntryKind
from perdure.core.errors import PerdureError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ANY_STATUS, NO_PATCH, ThreadPatch, ThreadQuery, ThreadRow, Which
from perdure.core.writes import Appended, Write
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.testing.clock import ManualClock
from perdure.testing.model import Model, Outcome
from perdure.testing.scribe import SECOND, Scribe, blob_of

T = TypeVar("T")

KEYS = [
    *(ThreadKey("", "alice", name) for name in ("t", "T", "x")),
    *(ThreadKey("", "bob", name) for name in ("t", "T")),
    *(ThreadKey("", "", "t"), ThreadKey("other", "alice", "t")),
]
KINDS = [
    *(EntryKind.STATE_UPDATED, EntryKind.MESSAGE_ADDED, EntryKind.STATE_SAVED, EntryKind.TOOL_FAILED),
    EntryKind.RUN_STARTED,
]
METADATA: list[dict[str, Any]] = [{}, {"a": 1}, {"a": True}, {"a": 1.0}, {"$.x": "1"}, {"a'; --": None, "a": 1}]
PATCHES = [
    NO_PATCH,
    ThreadPatch(status="running", tags=("x",)),
    ThreadPatch(wake_at=7 * SECOND, if_status="running"),
    ThreadPatch(agent="bot", wake_at=0, tags=(), metadata=encode({"a": 1})),
]
WHICH = [
    *(ANY_STATUS, Which(statuses=("running", "x")), Which(never=("idle", "y"))),
    *(Which(left=("running",)), Which(left=("idle", "running", "x")), Which(cut_off=("running", "x"))),
    Which(never=("y",), left=("idle",), cut_off=("idle",)),
]
BLOBS = [blob_of("one"), blob_of("two")]
TTL = 5 * SECOND

keys = st.sampled_from(KEYS)
small = st.integers(0, 12)
offsets = st.integers(-2, 1)
flags = st.booleans()
limits = st.sampled_from([1, 2, 3, 50])
kinds_of_mark = st.sampled_from(["manual", "routine"])


class Stage(Protocol):
    """A fresh place for one play."""

    mode: str
    forgets: bool

    def open(self) -> Coroutine[Any, Any, Storage]:
        """Open the place, again each time."""
        ...

    def close(self) -> None:
        """Take the place away."""
        ...


class Player(RuleBasedStateMachine):
    """Subclass it with a `stage` of your own; `steps` counts what was really played."""

    steps: ClassVar[int] = 0

    @staticmethod
    def stage() -> Stage:
        """Make a fresh place; every subclass says how."""
        raise TypeError("subclass Player with a stage() of its own")

    def __init__(self) -> None:
        super().__init__()
        self._stage = self.stage()
        self._runner = asyncio.Runner() if self._stage.mode == "async" else None
        self.clock = ManualClock()
        self.model = Model()
        self.storage = self._opened()
        self.scribe = Scribe(self.storage, self.clock)
        self.writes: list[tuple[Write, int, str]] = []  # each with the version before it and its thread's uid
        self.forks: list[tuple[ThreadKey, int, ThreadRow]] = []
        self.marks: list[str] = []

    def _opened(self) -> Storage:
        storage = self.run(self._stage.open())
        self.run(storage.setup())
        return storage

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return drive(work) if self._runner is None else self._runner.run(work)

    def both(self, work: Coroutine[Any, Any, T], told: Callable[[], Any]) -> tuple[T | None, Any]:
        """Do it on the storage and on the model, and return both answers; refusals are compared here."""
        type(self).steps += 1
        answer, refused = _tried(lambda: self.run(work))
        expected, model_refused = _tried(told)
        assert refused is model_refused, f"the storage: {refused or answer}; the model: {model_refused or expected}"
        return answer, expected

    def teardown(self) -> None:
        try:
            self.everything_is_equal()
        finally:
            self.run(self.storage.close())
            if self._runner is not None:
                self._runner.close()
            self._stage.close()

    def row(self, key: ThreadKey) -> ThreadRow:
        """The model's line of a thread; an empty one when it is absent."""
        thread = self.model.threads.get(key)
        return thread.row if thread else ThreadRow(key=key, uid="nobody")

    def same(self, work: Coroutine[Any, Any, Any], told: Callable[[], Any]) -> None:
        equal(*self.both(work, told))

    @rule(agents=st.sampled_from([None, None, [""], ["bot"], ["bot", ""], []]), which=st.sampled_from(WHICH))
    def due(self, agents: list[str] | None, which: Which) -> None:
        now = self.clock.now()
        since = msgspec.structs.replace(which, since=now - TTL)
        work = self.storage.due("", now, agents=agents, which=since)
        answer, expected = self.both(work, lambda: self.model.due("", now, agents, since))
        assert answer is not None
        equal({row.key for row in answer}, {key for _, key in expected})
        times = [row.lease_until if row.lease_owner is not None else row.wake_at for row in answer]
        equal(times, [at for at, _ in expected])

    @rule(key=keys)
    def verify(self, key: ThreadKey) -> None:
        """The log is the model's, its chain holds, and the directory says the same."""
        type(self).steps += 1
        row = self.run(self.storage.thread(key))
        thread = self.model.threads.get(key)
        equal(row and plain(row), thread and thread.row)
        found = self.run(self.storage.entries(key))
        lines = thread.lines if thread else []
        equal(
            [(e.version, e.kind, e.micros, e.write_id, e.key) for e in found],
            [(line.version, line.kind, line.micros, line.write_id, line.key) for line in lines],
        )
        equal(verify_links(key.id, 0, GENESIS, found), row.head_digest if row else GENESIS)

    def everything_is_equal(self) -> None:
        for key in {*KEYS, *self.model.threads}:
            self.verify(key)
        self.due(None, ANY_STATUS)
        listed = self.run(self.storage.threads(ThreadQuery(limit=99)))
        equal([plain(row) for row in listed], self.model.list_threads(ThreadQuery(limit=99)))


def equal(answer: object, expected: object) -> None:
    assert answer == expected, f"the storage: {answer}; the model: {expected}"


def _tried(call: Callable[[], T]) -> tuple[T | None, type[PerdureError] | None]:
    try:
        return call(), None
    except PerdureError as exc:
        return None, type(exc)


def plain(row: ThreadRow) -> ThreadRow:
    """A line without the digest, which the model does not compute."""
    return msgspec.structs.replace(row, head_digest=GENESIS)


def seen(row: CheckpointRow) -> CheckpointRow:
    """A checkpoint as callers see it: what its writer left open has been decided."""
    return msgspec.structs.replace(row, mark=msgspec.structs.replace(row.mark, parent=None, version=None))


def outcome(answer: Appended) -> Outcome:
    mark = answer.checkpoint
    return Outcome(answer.version, answer.state_version, answer.before, answer.again, mark and seen(mark))
