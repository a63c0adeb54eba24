"""Samples, their summaries, and sides that take turns in random order."""

from __future__ import annotations

import gc
import random
import statistics
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

Step = Callable[[int], float]  # does turn number n and returns the seconds that count


@dataclass(frozen=True, slots=True)
class Summary:
    """Seconds of one side."""

    median: float
    p10: float
    p90: float
    mean: float
    longest: float
    count: int

    def as_dict(self) -> dict[str, float]:
        return asdict(self)


def summary(samples: Sequence[float]) -> Summary:
    """The middle and the spread of some samples."""
    ordered = sorted(samples)
    last = len(ordered) - 1
    return Summary(
        median=statistics.median(ordered),
        p10=ordered[round(last * 0.1)],
        p90=ordered[round(last * 0.9)],
        mean=statistics.fmean(ordered),
        longest=ordered[-1],
        count=len(ordered),
    )


def timed(work: Callable[[], object]) -> float:
    """The seconds `work` takes."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def interleave(
    what: str, count: int, sides: Mapping[str, Step], *, start: int = 0, seed: int = 1
) -> dict[str, list[float]]:
    """Let every side do turn after turn, each turn in another random order, and return their seconds."""
    rng = random.Random(seed)
    samples: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    gc.collect()
    for turn in range(start, count):
        for name in rng.sample(names, len(names)):
            samples[name].append(sides[name](turn))
        progress(what, turn + 1, count)
    return samples


def window(samples: Sequence[float], end: int, width: int) -> Sequence[float]:
    """The `width` samples up to turn `end`."""
    return samples[max(0, end - width) : end]


def calm_sum(samples: Sequence[float], width: int = 20) -> float:
    """What all turns would take if each stretch of `width` went as its quickest tenth does."""
    stretches = (samples[at : at + width] for at in range(0, len(samples), width))
    return sum(summary(stretch).p10 * len(stretch) for stretch in stretches)


def ratio(one: Sequence[float], other: Sequence[float]) -> float:
    """Median against median."""
    return statistics.median(one) / statistics.median(other)


def progress(what: str, done: int, count: int) -> None:
    """A line on stderr now and then, so that long work is seen to move."""
    step = max(1, count // 10)
    if done % step == 0 or done == count:
        sys.stderr.write(f"  {what}: {done}/{count}\n")
