"""Kill a process at every system call with which one save writes, and look what is left.

    python -m tests.crash.syscalls [--backend sqlite|file] [--sample 4]

`--sample 4` takes every fourth call of the very first save, which makes the whole layout and has the most calls.
"""

from __future__ import annotations

import argparse
import copy
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.scenes import scenes
from tests.crash.strace import Scene, available, calls_of, play
from tests.crash.verify import Verdict, verify

NOT_SHOWN = "not shown: strace is not here, or may not attach to a process"


@dataclass
class Report:
    """The figures of one scene."""

    scene: str
    calls: Counter[str] = field(default_factory=Counter)
    kills: int = 0
    verdict: Verdict = field(default_factory=Verdict)


def run(backend: str, sample: int = 1) -> Iterator[Report]:
    """Kill at every call of every scene."""
    with tempfile.TemporaryDirectory(prefix="perdure-calls-") as root:
        for scene in scenes(backend, Path(root)):
            yield kill_everywhere(scene, Path(root) / "run", sample if scene.opens else 1)


def kill_everywhere(scene: Scene, folder: Path, sample: int) -> Report:
    report = Report(scene.name)
    calls = calls_of(scene, folder)
    shutil.rmtree(folder)
    report.calls.update(name for name, _, _ in calls)
    for name, number, line in calls[::sample]:
        verdict = _killed(scene, folder, name, number)
        verdict.words = [f"{scene.name}, killed at {name} {number} ({line[:90]}): {words}" for words in verdict.words]
        report.verdict.add(verdict)
        report.kills += 1
    return report


def _killed(scene: Scene, folder: Path, name: str, number: int) -> Verdict:
    ending = play(scene, folder, [f"trace={name}", f"inject={name}:signal=KILL:when={number}"])
    model = copy.deepcopy(scene.model)
    if ending.acknowledged or ending.error:
        found = Verdict()
        found.wrong("half", f"the child was not killed: {ending}")
    else:
        found = verify(scene.url.format(folder=folder), model, [scene.op])
    shutil.rmtree(folder)
    return found


def table(reports: list[Report]) -> str:
    """One line per scene."""
    lines = [f"{'save':<10}{'calls':>7}{'kills':>7}{'whole':>7}{'absent':>8}{'lost':>6}{'half':>6}{'double':>8}"]
    for each in reports:
        found = each.verdict
        made = f"{sum(each.calls.values()):>7}{each.kills:>7}{found.landed:>7}{found.absent:>8}"
        lines.append(f"{each.scene:<10}{made}{found.lost:>6}{found.half:>6}{found.duplicates:>8}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("sqlite", "file"), action="append")
    parser.add_argument("--sample", type=int, default=1)
    asked = parser.parse_args()
    if not available():
        print(NOT_SHOWN)
        return 0
    failed = False
    for backend in asked.backend or ("sqlite", "file"):
        begun = time.monotonic()
        reports = list(run(backend, asked.sample))
        words = [word for report in reports for word in report.verdict.words]
        print(f"{backend}: killed at every writing call of one save\n{table(reports)}")
        print("\n".join(words[:40]) + f"took {time.monotonic() - begun:.1f} s\n")
        failed = failed or bool(words)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
