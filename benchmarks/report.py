"""Figures, whether they meet their bars, and the table and file they are written to."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from benchmarks.timing import Summary, summary

RESULTS = Path(__file__).parent / "results"
Sense = Literal["≤", "≥"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One line of the table. Without a value it was not measured, and `note` says why."""

    name: str
    value: float | None
    unit: str = "×"
    bar: float | None = None
    sense: Sense = "≤"
    judged: bool = True  # a quick run has fewer turns than the bar is about
    note: str = ""
    calm: float | None = (
        None  # the same by the quickest tenth of the samples: what it is when nobody else wants the CPU
    )
    sides: dict[str, Summary] = field(default_factory=dict)

    @property
    def met(self) -> bool | None:
        """Whether the bar is met; None where there is none, or the figure cannot tell.

        Median and calm figure have to agree: on a busy machine a commit that waits behind somebody else's time slice
        makes either side look dear.
        """
        if self.value is None or self.bar is None or not self.judged:
            return None
        met = self._meets(self.value, self.bar)
        return met if self.calm is None or self._meets(self.calm, self.bar) == met else None

    def _meets(self, value: float, bar: float) -> bool:
        return value <= bar if self.sense == "≤" else value >= bar

    def as_dict(self) -> dict[str, Any]:
        return {
            "figure": self.name,
            "value": self.value,
            "calm": self.calm,
            "unit": self.unit,
            "bar": self.bar,
            "sense": self.sense,
            "met": self.met,
            "note": self.note,
            "seconds": {name: side.as_dict() for name, side in self.sides.items()},
        }


def compared(
    name: str,
    mine: str,
    theirs: str,
    samples: Mapping[str, Sequence[float]],
    *,
    beside: Sequence[str] = (),
    **rest: Any,
) -> Figure:
    """One side's median against another's; those `beside` are shown with them."""
    sides = {each: summary(samples[each]) for each in (mine, theirs, *beside)}
    one, other = sides[mine], sides[theirs]
    value, calm = one.median / other.median, one.p10 / other.p10
    return Figure(name=name, value=value, calm=calm, sides=sides, **rest)


@dataclass(slots=True)
class Report:
    """Everything one run found."""

    machine: dict[str, Any]
    quick: bool
    figures: list[Figure] = field(default_factory=list)
    fsyncs: dict[str, float] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    title: str = "Benchmarks"
    name: str = "latest"  # of the files
    counted_by: str = "strace"  # what counts fsyncs

    def markdown(self) -> str:
        """The table and what stands around it."""
        lines = ["| figure | bar | measured | calm | met? | medians (p10–p90), samples |", "|---|---|---|---|---|---|"]
        lines += [_line(figure) for figure in self.figures]
        return "\n".join(
            [*self._head(), "", *lines, "", *_fsync_lines(self.fsyncs, self.counted_by), *self._foot(), ""]
        )

    def _head(self) -> list[str]:
        machine = ", ".join(f"{name} {value}" for name, value in self.machine.items())
        return [
            f"# {self.title}" + (" (quick: fewer turns than the bars are about)" if self.quick else ""),
            "",
            machine,
        ]

    def _foot(self) -> list[str]:
        return ["", *(f"- {note}" for note in self.notes)] if self.notes else []

    def as_dict(self) -> dict[str, Any]:
        return {
            "machine": self.machine,
            "quick": self.quick,
            "figures": [figure.as_dict() for figure in self.figures],
            "fsyncs per save": self.fsyncs or "not shown",
            "notes": self.notes,
        }

    def write(self, folder: Path = RESULTS) -> None:
        """Write the table, and the same for programs."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.md").write_text(self.markdown(), encoding="utf-8")
        (folder / f"{self.name}.json").write_text(json.dumps(self.as_dict(), indent=2, ensure_ascii=False) + "\n")


def _line(figure: Figure) -> str:
    bar = "" if figure.bar is None else f"{figure.sense} {figure.bar:g}{_unit(figure)}"
    value = "not measured" if figure.value is None else f"{_number(figure.value)}{_unit(figure)}"
    note = f" ({figure.note})" if figure.note else ""
    calm = "" if figure.calm is None else f"{_number(figure.calm)}{_unit(figure)}"
    return f"| {figure.name} | {bar} | {value}{note} | {calm} | {_verdict(figure)} | {_sides(figure)} |"


def _verdict(figure: Figure) -> str:
    if figure.met is None:
        return "—" if figure.value is None or figure.bar is None or not figure.judged else "unclear"
    return "yes" if figure.met else "**no**"


def _unit(figure: Figure) -> str:
    return figure.unit if figure.unit == "×" else f" {figure.unit}" if figure.unit else ""


def _number(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.2f}"


def _sides(figure: Figure) -> str:
    return "; ".join(f"{name} {_times(side)}" for name, side in figure.sides.items())


def _times(side: Summary) -> str:
    scale, unit = (1e3, "ms") if side.median >= 1e-3 else (1e6, "µs")
    middle, low, high = (_number(seconds * scale) for seconds in (side.median, side.p10, side.p90))
    return f"{middle} {unit} ({low}–{high}), {side.count}"


def _fsync_lines(counts: dict[str, float], counted_by: str) -> list[str]:
    if not counts:
        return [f"fsyncs per save: not shown ({counted_by} is missing or not allowed here)."]
    shown = " · ".join(f"{name} {count:.2f}" for name, count in counts.items())
    return [f"fsyncs per save ({counted_by}, a separate run of each side): {shown}."]
