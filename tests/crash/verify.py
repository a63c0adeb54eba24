"""What must be there after a kill: everything acknowledged, at most the operations in flight besides, nothing half."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from perdure import sync
from perdure.core.digest import body_of
from perdure.core.errors import NotFoundError, PerdureError, ThreadExistsError
from perdure.core.payload import decode_change
from tests.crash.child import call
from tests.crash.workload import Model, Op

_exact = msgspec.msgpack.Encoder(order="sorted").encode  # 1, True and 1.0 have different bytes
_ALL = 1_000_000


@dataclass
class Verdict:
    """What was found wrong, in figures and in words."""

    lost: int = 0
    half: int = 0
    duplicates: int = 0
    landed: int = 0  # operations in flight that stand
    absent: int = 0  # operations in flight that do not
    words: list[str] = field(default_factory=list)

    def wrong(self, what: str, words: str, count: int = 1) -> None:
        setattr(self, what, getattr(self, what) + count)
        self.words.append(f"{what}: {words}")

    def add(self, other: Verdict) -> None:
        for name in ("lost", "half", "duplicates", "landed", "absent"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.words += other.words


def verify(url: str, model: Model, flying: Sequence[Op], versions: Sequence[int] | None = None) -> Verdict:
    """Reopen, compare with the model, retry what was in flight, and compare again. The model goes on from there."""
    verdict = Verdict()
    with sync.Perdure.open(url) as store:
        for op in flying:
            _settle(store, model, op, verdict)
        for thread in model.states:
            compare(store, model, thread, verdict, versions)
    with sync.Perdure.open(url) as store:
        for op in flying:
            _retry(store, model, op, verdict)
    return verdict


def same(one: Any, other: Any) -> bool:
    """Whether two plain values are equal in value and type."""
    return _exact(one) == _exact(other)


def _settle(store: sync.Perdure, model: Model, op: Op, verdict: Verdict) -> None:
    """Learn whether the operation in flight stands; if it does it has to stand wholly, which `compare` looks at."""
    stands = _exists(store, op.target) if op.kind == "fork" else op.key in _keys(store, op.thread)
    if stands:
        verdict.landed += 1
        model.accept(op)
    else:
        verdict.absent += 1


def _exists(store: sync.Perdure, thread: str) -> bool:
    try:
        store.thread(thread).info()
    except NotFoundError:
        return False
    return True


def _keys(store: sync.Perdure, thread: str) -> list[str | None]:
    return [entry.key for entry in store.thread(thread).entries()]


def compare(
    store: sync.Perdure, model: Model, thread: str, verdict: Verdict, versions: Sequence[int] | None = None
) -> None:
    """One thread against the model: keys of the log, newest state, states of some versions, checkpoints."""
    try:
        _compare_log(store, model, thread, verdict)
        _compare_states(store, model, thread, verdict, versions)
        _compare_points(store, model, thread, verdict)
    except PerdureError as exc:
        verdict.wrong("half", f"{thread}: {type(exc).__name__}: {exc}")


def _compare_log(store: sync.Perdure, model: Model, thread: str, verdict: Verdict) -> None:
    found, wanted = _keys(store, thread), model.keys[thread]
    counted = Counter(found)
    missing = [key for key in wanted if key not in counted]
    double = [key for key, count in counted.items() if count > 1]
    if missing:
        verdict.wrong("lost", f"{thread}: {missing}", len(missing))
    elif double:
        verdict.wrong("duplicates", f"{thread}: {double}", len(double))
    elif found != wanted or store.thread(thread).info().version != len(wanted):
        verdict.wrong("half", f"{thread}: the log has {found[-3:]}, not {wanted[-3:]}")


def _compare_states(
    store: sync.Perdure, model: Model, thread: str, verdict: Verdict, versions: Sequence[int] | None
) -> None:
    states = model.states[thread]
    handle = store.thread(thread)
    if not same(handle.load(), states[-1]):
        verdict.wrong("half", f"{thread}: the newest state is another")
    chosen = range(1, len(states) + 1) if versions is None else {1 + at % len(states) for at in versions}
    for version in chosen:
        if not same(handle.load(f"@{version}"), states[version - 1]):
            verdict.wrong("half", f"{thread}: the state at version {version} is another")


def _compare_points(store: sync.Perdure, model: Model, thread: str, verdict: Verdict) -> None:
    """Checkpoints listed, checkpoints in the log and checkpoints acknowledged are the same."""
    handle = store.thread(thread)
    listed = {point.version: point.id for point in handle.history(limit=_ALL)}
    logged = {
        entry.version: mark.id for entry in handle.entries() if (mark := decode_change(body_of(thread, entry)).mark)
    }
    known = model.points.get(thread, {})
    told = {version: known[version] or listed.get(version, "") for version in known}
    if listed != logged or listed != told:
        verdict.wrong("half", f"{thread}: history, log and acknowledgements name different checkpoints")
    model.points[thread] = listed


def _retry(store: sync.Perdure, model: Model, op: Op, verdict: Verdict) -> None:
    """The same request with the same key: done once, whether it stood or not."""
    stood = op.target in model.states if op.kind == "fork" else op.key in model.keys.get(op.thread, ())
    try:
        call(store.thread(op.thread), op, copy.deepcopy(op.after))
    except ThreadExistsError:
        if not stood:
            verdict.wrong("half", f"{op.target}: a fork that was not there exists")
    except PerdureError as exc:
        verdict.wrong("half", f"{op.thread}: the retry of {op.kind} {op.key} gave {type(exc).__name__}: {exc}")
        return
    if not stood:
        model.accept(op)
    compare(store, model, op.target or op.thread, verdict, ())
