"""Counters and durations of calls, for OpenTelemetry where it is installed."""

from __future__ import annotations

import functools
import time
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")
_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """Tells `checkpointer.<call>.calls`, `.errors` and `.duration` (seconds) to whoever listens."""

    def __init__(self) -> None:
        self._meter = _meter()
        self._instruments: dict[str, Any] = {}

    async def timed(self, name: str, work: Awaitable[T]) -> T:
        """Run a call, and tell of it."""
        if self._meter is None:
            return await work
        begun = time.perf_counter()
        try:
            return await work
        except BaseException as exc:
            self._count(f"checkpointer.{name}.errors", error=type(exc).__name__)
            raise
        finally:
            self._count(f"checkpointer.{name}.calls")
            self._record(f"checkpointer.{name}.duration", time.perf_counter() - begun)

    def _count(self, name: str, **labels: str) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_counter(name)
        self._instruments[name].add(1, labels)

    def _record(self, name: str, seconds: float) -> None:
        if name not in self._instruments:
            self._instruments[name] = self._meter.create_histogram(
                name, unit="s", explicit_bucket_boundaries_advisory=_SECONDS
            )
        self._instruments[name].record(seconds)


@functools.cache
def shared_metrics() -> Metrics:
    """Those of this process: OpenTelemetry complains of an instrument that is made twice."""
    return Metrics()


def _meter() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError:
        return None
    return metrics.get_meter("perdure.checkpointer")
