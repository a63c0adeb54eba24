"""After the outages: what the journals say and what the database holds are the same."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from perdure import sync
from perdure.core.errors import NotFoundError, PerdureError
from tests.crash.outage_journal import DONE, UNKNOWN, WRONG, Line
from tests.crash.outage_writers import LEASED

_ALL = 1_000_000
WRITES = ("append", "update", "save")


@dataclass
class Verdict:
    """What was found wrong, in figures and in words."""

    lost: int = 0
    duplicates: int = 0
    half: int = 0
    answers: int = 0  # callers were told something that is not so
    words: list[str] = field(default_factory=list)

    def wrong(self, what: str, words: str, count: int = 1) -> None:
        setattr(self, what, getattr(self, what) + count)
        self.words.append(f"{what}: {words}")


def verify(url: str, journals: dict[str, list[Line]]) -> Verdict:
    """Open the store afresh and look at every thread that a journal names."""
    verdict, lines = Verdict(), [line for each in journals.values() for line in each]
    for line in lines:
        if line.outcome == WRONG:
            verdict.wrong("answers", f"{line.kind} {line.token} in {line.thread}: {line.words}")
    with sync.Perdure.open(url) as store:
        for thread, writes in _by_thread(lines).items():
            _check_thread(store, thread, writes, verdict)
        for line in lines:
            if line.kind == "delete":
                _check_deleted(store, line, verdict)
        _check_leases(store, [line for line in lines if line.kind == "claim"], verdict)
    return verdict


def _by_thread(lines: Iterable[Line]) -> dict[str, list[Line]]:
    """The writes of each thread that is still there."""
    lines = list(lines)
    deleted = {line.thread for line in lines if line.kind == "delete"}
    found: defaultdict[str, list[Line]] = defaultdict(list)
    for line in lines:
        if line.kind in WRITES and line.thread not in deleted:
            found[line.thread].append(line)
    return found


def _check_thread(store: sync.Perdure, thread: str, writes: list[Line], verdict: Verdict) -> None:
    handle = store.thread(thread, user="crash")
    done = [line for line in writes if line.outcome == DONE]
    try:
        state = handle.load(default={})
        entries = handle.entries() if state else []  # checks every digest and the chain
        points = {point.id for point in handle.history(limit=_ALL)} if state else set[str]()
    except PerdureError as exc:
        verdict.wrong("half", f"{thread}: {type(exc).__name__}: {exc}")
        return
    _check_tokens(thread, state.get("tokens", []), writes, verdict)
    keys = {entry.key: entry.version for entry in entries if entry.key is not None}
    for line in done:
        if line.keyed and keys.get(line.token, line.version) != line.version and not line.point:
            verdict.wrong("answers", f"{thread}: {line.token} was told {line.version}, it is {keys[line.token]}")
        if line.point and line.point not in points:
            verdict.wrong("lost", f"{thread}: the checkpoint {line.point} of {line.token}")


def _check_tokens(thread: str, found: list[str], writes: list[Line], verdict: Verdict) -> None:
    counted = Counter(found)
    lost = [line.token for line in writes if line.outcome == DONE and line.token not in counted]
    double = [token for token, count in counted.items() if count > 1]
    if lost:
        verdict.wrong("lost", f"{thread}: {lost}", len(lost))
    if double:
        verdict.wrong("duplicates", f"{thread}: {double}", len(double))
    if thread.startswith("own "):
        known = [line.token for line in writes if line.outcome == DONE or line.token in counted]
        if not lost and not double and found != known:
            verdict.wrong("half", f"{thread}: its tokens are in another order")
    sizes = {line.size for line in writes if line.size}
    if sizes and len(found) not in sizes:
        verdict.wrong("half", f"{thread}: it has {len(found)} tokens, not {sizes}")


def _check_deleted(store: sync.Perdure, line: Line, verdict: Verdict) -> None:
    try:
        store.thread(line.thread, user="crash").info()
    except NotFoundError:
        return
    if line.outcome == DONE:
        verdict.wrong("lost", f"the deletion of {line.thread}")


def _check_leases(store: sync.Perdure, claims: list[Line], verdict: Verdict) -> None:
    """Every claim that was answered has an epoch of its own, and there are no more epochs than claims."""
    epochs = sorted(line.version for line in claims if line.outcome == DONE)
    unknown = sum(line.outcome == UNKNOWN for line in claims)
    key = store.thread(LEASED, user="crash")
    row = key._run(store._store._parts.storage.thread(key._thread._key))
    reached = row.epoch if row else 0
    if len(set(epochs)) != len(epochs):
        verdict.wrong("duplicates", "an epoch was given to two claims")
    if not len(epochs) <= reached <= len(epochs) + unknown or max(epochs, default=0) > reached:
        verdict.wrong("answers", f"{len(epochs)} claims (and {unknown} unknown) led to epoch {reached}")
