"""What came out of an examination."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Verdict = Literal["passed", "failed", "not offered"]
SIGNS: dict[Verdict, str] = {"passed": "yes", "failed": "NO", "not offered": "–"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """One check: its verdict, and why, or what was measured."""

    group: str
    name: str
    verdict: Verdict
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """All outcomes of one saver; `print` it for a table."""

    outcomes: tuple[Outcome, ...]

    def of(self, verdict: Verdict) -> tuple[Outcome, ...]:
        return tuple(each for each in self.outcomes if each.verdict == verdict)

    @property
    def passed(self) -> tuple[Outcome, ...]:
        return self.of("passed")

    @property
    def failed(self) -> tuple[Outcome, ...]:
        return self.of("failed")

    @property
    def not_offered(self) -> tuple[Outcome, ...]:
        return self.of("not offered")

    def __str__(self) -> str:
        rows = [
            f"{SIGNS[each.verdict]:<4}{each.group + ': ' + each.name:<64} {each.note}".rstrip()
            for each in self.outcomes
        ]
        counts = Counter(each.verdict for each in self.outcomes)
        return "\n".join((*rows, ", ".join(f"{counts[verdict]} {verdict}" for verdict in SIGNS)))


def beside(reports: Mapping[str, Report]) -> str:
    """Savers beside each other, as Markdown: a row per group, then each check that some saver did not pass."""
    head = f"| | {' | '.join(reports)} |\n|---|{'---|' * len(reports)}"
    checks = list(dict.fromkeys((each.group, each.name) for report in reports.values() for each in report.outcomes))
    found = {name: {(each.group, each.name): each for each in report.outcomes} for name, report in reports.items()}
    groups = [
        f"| {group} | {' | '.join(_share(report, group) for report in reports.values())} |"
        for group in dict.fromkeys(group for group, _ in checks)
    ]
    total = f"| **all** | {' | '.join(f'**{_share(report)}**' for report in reports.values())} |"
    rows = [
        f"| {group}: {name} | {' | '.join(_cell(found[each].get((group, name))) for each in reports)} |"
        for group, name in checks
        if any(
            (each := of.get((group, name))) is None or each.verdict != "passed" or each.note for of in found.values()
        )
    ]
    return "\n".join((head, *groups, total, "", head, *rows)) + "\n"


def _share(report: Report, group: str | None = None) -> str:
    """Passed of offered, and how many are not offered."""
    here = Counter(each.verdict for each in report.outcomes if group in (None, each.group))
    offered = here["passed"] + here["failed"]
    missing = f" ({here['not offered']} not offered)" if here["not offered"] else ""
    return f"{here['passed']} of {offered}{missing}" if offered else "not offered"


def _cell(outcome: Outcome | None) -> str:
    if outcome is None:
        return ""
    note = outcome.note.replace("|", "\\|").replace("\n", " ")
    return f"{SIGNS[outcome.verdict]}{': ' + note if note else ''}"
