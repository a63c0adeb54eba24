"""The parts of a run, by name."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.parts import clients, reads, sizes, start, updates, whole
from benchmarks.scale import Bench

PARTS: dict[str, Callable[[Bench], None]] = {
    "update": updates.run,
    "save": whole.run,
    "bytes": sizes.run,
    "restore": reads.restore,
    "list": reads.listing,
    "clients": clients.run,
    "start": start.run,
}
