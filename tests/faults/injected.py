"""Let every system call with which one save writes fail, and look what the caller was told and what is left.

    python -m tests.faults.injected [--backend sqlite|file] [--sample 4]

strace makes the call return the error instead of doing it. Each error comes once; every second time the process that
met it tries again with the same key, otherwise the next process does.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.crash.scenes import load, scenes
from tests.crash.strace import Ending, Scene, available, calls_of, play
from tests.crash.syscalls import NOT_SHOWN
from tests.crash.verify import Verdict, verify

ERRORS = ("EIO", "ENOSPC")
SYNCS = ("fsync", "fdatasync")
TYPED = {"StorageError", "DamagedError"}


@dataclass
class Report:
    """The figures of one scene."""

    scene: str
    faults: int = 0
    acknowledged: int = 0  # in spite of the fault: something derived failed, or it was done another way
    classes: Counter[str] = field(default_factory=Counter)
    verdict: Verdict = field(default_factory=Verdict)
    findings: list[tuple[str, str]] = field(default_factory=list)  # a category, and what happened


def run(backend: str, sample: int = 1) -> Iterator[Report]:
    """Let every call of every scene fail in every way."""
    with tempfile.TemporaryDirectory(prefix="perdure-faults-") as root:
        for scene in (*scenes(backend, Path(root)), load(backend, Path(root))):
            yield fail_everywhere(scene, Path(root) / "run", sample if scene.opens else 1)


def fail_everywhere(scene: Scene, folder: Path, sample: int) -> Report:
    report = Report(scene.name)
    calls = calls_of(scene, folder)
    shutil.rmtree(folder)
    for at, (name, number, line) in enumerate(calls[::sample]):
        for error in ERRORS:
            what = f"{scene.name}, {error} at {name} {number} ({line[:140]})"
            _fail(scene, folder, report, what, (name, number, error), retry=(at + ERRORS.index(error)) % 2 == 0)
    return report


def _fail(scene: Scene, folder: Path, report: Report, what: str, fault: tuple[str, int, str], retry: bool) -> None:
    name, number, error = fault
    ending = play(scene, folder, [f"trace={name}", f"inject={name}:error={error}:when={number}"], retry)
    report.faults += 1
    report.acknowledged += ending.acknowledged
    report.classes[ending.error] += bool(ending.error)
    report.findings += [(kind, f"{what}: {words}") for kind, words in _misbehaviour(scene, name, ending, retry)]
    left = _left(scene, folder, ending, what)
    report.findings += [("left", words) for words in left.words]
    report.verdict.add(left)
    shutil.rmtree(folder)


def _misbehaviour(scene: Scene, name: str, ending: Ending, retry: bool) -> Iterator[tuple[str, str]]:
    """What the caller was told wrongly."""
    typed = len(TYPED & set(ending.lineage)) == 1 and ending.error not in TYPED
    if not ending.acknowledged and not typed:
        yield "untyped", f"{ending.error or 'nothing'} was raised ({ending.words}), which is no typed error"
    forgiven = scene.forgives_syncs or scene.reads or _is_sqlites_own(name, ending.trace)
    if ending.acknowledged and name in SYNCS and not forgiven:
        yield "unsynced", "it was acknowledged after a failed sync"
    if ending.retried and name in SYNCS and not _synced_after(ending.trace):
        yield "unsynced", "the retry was acknowledged without another sync"
    if retry and not ending.acknowledged and not ending.retried:
        yield "retry", f"the retry in the same process failed after {ending.error} ({ending.words})"


def _synced_after(trace: str) -> bool:
    """Whether a sync that worked followed the one that failed."""
    return any("= 0" in line for line in trace.partition("(INJECTED)")[2].splitlines()[1:])


def _is_sqlites_own(name: str, trace: str) -> bool:
    """Whether the sync that failed is the one of the folder that SQLite adds and whose outcome it drops.

    Perdure has synced the folder by then, with fsync, after SQLite had made its files; that one is never forgiven.
    """
    return name == "fdatasync" and any("(INJECTED)" in line and "/run>" in line for line in trace.splitlines())


def _left(scene: Scene, folder: Path, ending: Ending, what: str) -> Verdict:
    """What a new process finds: everything acknowledged, the operation wholly or not at all, and a retry works."""
    model = copy.deepcopy(scene.model)
    stands = ending.acknowledged or ending.retried
    if stands and not scene.reads:
        model.accept(scene.op)
    found = verify(scene.url.format(folder=folder), model, () if stands or scene.reads else [scene.op])
    found.words = [f"{what}: {words}" for words in found.words]
    return found


def table(reports: list[Report]) -> str:
    """One line per scene."""
    lines = [f"{'save':<10}{'faults':>8}{'ack':>6}{'lost':>6}{'half':>6}{'double':>8}  errors"]
    for each in reports:
        found = each.verdict
        classes = ", ".join(f"{name} {count}" for name, count in sorted(each.classes.items()) if name)
        figures = f"{each.faults:>8}{each.acknowledged:>6}{found.lost:>6}{found.half:>6}{found.duplicates:>8}"
        lines.append(f"{each.scene:<10}{figures}  {classes}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--backend", choices=("sqlite", "file"), action="append")
    parser.add_argument("--sample", type=int, default=1)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    if not available():
        print(NOT_SHOWN)
        return 0
    failed, findings = False, []
    for backend in asked.backend or ("sqlite", "file"):
        begun = time.monotonic()
        reports = list(run(backend, asked.sample))
        words = [f"{kind}: {words}" for report in reports for kind, words in report.findings]
        print(f"{backend}: every writing call of one save fails once\n{table(reports)}")
        print("".join(f"{word}\n" for word in words[:60]) + f"took {time.monotonic() - begun:.1f} s\n")
        failed = failed or bool(words)
        findings += [finding for report in reports for finding in report.findings]
    if asked.json:
        asked.json.write_text(json.dumps(findings))
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
