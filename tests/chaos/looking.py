"""What is left after the chaos: every run done, every result recorded once, and how long takeovers took."""

from __future__ import annotations

import statistics
from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Protocol

from perdure import EntryKind
from perdure.core.calls import decode_outcome, shown, told

SECOND = 1_000_000


class Happened(Protocol):
    """What was done to the workers and the database."""

    kills: list[tuple[float, list[str]]]
    freezes: list[tuple[float, float, list[str]]]
    downs: list[tuple[float, float]]


@dataclass
class Verdict:
    """What came of it."""

    finished: int = 0
    results: int = 0
    refused: int = 0
    overtaken: int = 0  # runs of frozen workers that others went on with before they woke
    takeovers: list[float] = field(default_factory=list)  # seconds, while the database was up
    wrong: list[str] = field(default_factory=list)

    @property
    def slowest(self) -> float:
        return max(self.takeovers, default=0.0)

    @property
    def median(self) -> float:
        return statistics.median(self.takeovers) if self.takeovers else 0.0


def look(opened: Any, threads: int, steps: int, takeover: float, happened: Happened, lost: int) -> Verdict:
    """Read every log, and hold what happened against the promises."""
    verdict = Verdict(refused=lost)
    with opened as store:
        taken_up: dict[str, list[float]] = {}
        for info in store.runs(threads + 1):
            entries = store.thread(info.thread).entries()
            _look_at(info, entries, steps, verdict)
            resumed = [entry.micros / SECOND for entry in entries if entry.kind is EntryKind.RUN_RESUMED]
            taken_up[_uid(store, info.thread)] = resumed
        verdict.wrong += [str(each) for each in store.verify().damaged]
    _measure(happened, taken_up, verdict)
    _judge(threads, steps, takeover, verdict)
    return verdict


def _look_at(info: Any, entries: list[Any], steps: int, verdict: Verdict) -> None:
    outcomes = [told(info.thread, entry, decode_outcome) for entry in entries if entry.kind is EntryKind.STEP_FINISHED]
    counted = Counter(shown(outcome.call.id) for outcome in outcomes)
    verdict.results += len(outcomes)
    verdict.finished += info.status == "finished" and info.result == sum(range(steps))
    if [entry.version for entry in entries] != list(range(1, len(entries) + 1)):
        verdict.wrong.append(f"{info.thread}: its log has gaps")
    if sorted(counted.values()) != [1] * steps:
        verdict.wrong.append(f"{info.thread}: results are recorded {sorted(counted.values())} times")
    if info.status != "finished":
        verdict.wrong.append(f"{info.thread}: is {info.status} {info.error}")


def _uid(store: Any, thread: str) -> str:
    (row,) = store._run(store._store._parts.storage.find("", thread))
    return row.uid


def _measure(happened: Happened, taken_up: dict[str, list[float]], verdict: Verdict) -> None:
    """From each kill to the first sign of a new owner, unless the database was down in between."""
    for at, held in happened.kills:
        for uid in held:
            after = [moment for moment in taken_up[uid] if moment > at]
            if after and not any(down < after[0] and at < up for down, up in happened.downs):
                verdict.takeovers.append(after[0] - at)
    for at, until, held in happened.freezes:
        if not any(down < until and at < up for down, up in happened.downs):
            verdict.overtaken += sum(any(at < moment < until for moment in taken_up[uid]) for uid in held)


def _judge(threads: int, steps: int, takeover: float, verdict: Verdict) -> None:
    if verdict.finished != threads:
        verdict.wrong.append(f"{verdict.finished} of {threads} threads are done")
    if verdict.results != threads * steps:
        verdict.wrong.append(f"{verdict.results} results are recorded, not {threads * steps}")
    if verdict.slowest > takeover:
        verdict.wrong.append(f"a takeover took {verdict.slowest:.1f} s, more than {takeover}")
    if verdict.overtaken and not verdict.refused:
        verdict.wrong.append("no owner that woke was refused")
