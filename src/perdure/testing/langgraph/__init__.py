"""An examination for LangGraph's checkpoint savers, beyond what `langgraph-checkpoint-conformance` asks.

`await examine(make)` puts any `BaseCheckpointSaver` to all of `CHECKS` and gives a `Report`; `make` returns a
`Database`, empty each time. It needs LangGraph, and registers nothing: `TYPES` are what the saver has to be told of.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from perdure.testing.langgraph import (
    alone,
    channels,
    crashes,
    deltas,
    faces,
    keys,
    listing,
    serdes,
    sizes,
    writers,
    writes,
    zoo,
)
from perdure.testing.langgraph.bench import Bench, Database, Face, Make, NotOffered
from perdure.testing.langgraph.examining import Check, examine, outcome_of
from perdure.testing.langgraph.report import Outcome, Report, beside
from perdure.testing.langgraph.zoo import TYPES

CHECKS: tuple[Check, ...] = (
    *faces.CHECKS, *alone.CHECKS, *writes.CHECKS, *writers.CHECKS, *crashes.CHECKS, *deltas.CHECKS, *channels.CHECKS,
    *listing.CHECKS, *serdes.CHECKS, *sizes.CHECKS, *keys.CHECKS, *zoo.CHECKS,
)  # fmt: skip

__all__ = [
    "CHECKS",
    "TYPES",
    "Bench",
    "Check",
    "Database",
    "Face",
    "Make",
    "NotOffered",
    "Outcome",
    "Report",
    "beside",
    "examine",
    "outcome_of",
]
