"""Putting a saver to the checks."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import asyncio
import functools
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass
from typing import Any

from perdure.testing.langgraph.bench import Bench, Make, NotOffered
from perdure.testing.langgraph.report import Outcome, Report

PATIENCE = 120.0  # seconds: a saver that hangs fails one check, and not the examination
LONGEST_NOTE = 160

Run = Callable[[Bench], Awaitable[str | None]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A promise that a saver is held to. It raises when broken; text that it returns is what it measured."""

    group: str
    name: str
    run: Run

    def __str__(self) -> str:
        return f"{self.group}: {self.name}"


def group(name: str, *runs: Run) -> tuple[Check, ...]:
    """Checks called as their functions are."""
    return tuple(Check(group=name, name=run.__name__.replace("_", " "), run=run) for run in runs)  # type: ignore[attr-defined]


def each_of(name: str, run: Callable[[Bench, Any], Awaitable[str | None]], cases: dict[str, Any]) -> tuple[Check, ...]:
    """One check per case."""
    return tuple(
        Check(group=name, name=case, run=functools.partial(_with_case, run, given)) for case, given in cases.items()
    )


async def _with_case(run: Callable[[Bench, Any], Awaitable[str | None]], given: Any, bench: Bench) -> str | None:
    return await run(bench, given)


async def examine(make: Make, checks: Iterable[Check] | None = None) -> Report:
    """Put the saver of `make`, which gives an empty database each time it is called, to all checks."""
    from perdure.testing.langgraph import CHECKS

    bench = Bench(make)
    try:
        return Report(outcomes=tuple([await outcome_of(each, bench) for each in checks or CHECKS]))
    finally:
        bench.clear()


async def outcome_of(check: Check, bench: Bench) -> Outcome:
    try:
        async with asyncio.timeout(PATIENCE):
            note = await check.run(bench)
    except NotOffered as missing:
        return Outcome(group=check.group, name=check.name, verdict="not offered", note=str(missing))
    except NotImplementedError as missing:
        return Outcome(group=check.group, name=check.name, verdict="not offered", note=_first_line(missing))
    except Exception as failure:
        return Outcome(group=check.group, name=check.name, verdict="failed", note=_first_line(failure))
    return Outcome(group=check.group, name=check.name, verdict="passed", note=note or "")


def _first_line(failure: BaseException) -> str:
    text = (str(failure).strip().splitlines() or [""])[0][:LONGEST_NOTE]
    named = "" if isinstance(failure, AssertionError | NotImplementedError) else type(failure).__name__
    # Notes are printed and written to pages: text that cannot be encoded would end the report and not the check.
    return ": ".join(part for part in (named, text) if part).encode("utf-8", "backslashreplace").decode()
