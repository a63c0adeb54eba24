"""How many times a save waits for the disk: counted by strace in a separate short run of each side."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.databases import OurDatabase, RawCommits
from benchmarks.peers.child import ROOT, Peer, command, is_installed
from benchmarks.stores import SIDES
from benchmarks.timing import progress
from benchmarks.workload import turns

_WARM = 10  # saves before the counted ones: opening, set-up and the first write are not a save
_MARK = "getsid"  # a system call nobody else makes: it marks where counting begins and ends
_PEER = "LangGraph put"


def per_save(saves: int) -> dict[str, float]:
    """Syncs per save by side; empty when strace cannot show them."""
    if not can_trace():
        return {}
    names = ["raw", *SIDES, *([_PEER] if is_installed() else [])]
    counts: dict[str, float] = {}
    for at, name in enumerate(names):
        counts[name] = _count(name, saves) / saves
        progress("fsyncs", at + 1, len(names))
    return counts


def trace(out: str) -> list[str]:
    """How a command is started whose syncs are written down."""
    return ["strace", "-f", "--seccomp-bpf", "-qq", "-e", f"trace=fsync,fdatasync,{_MARK}", "-o", out]


def can_trace() -> bool:
    """Whether strace is here and may look."""
    if shutil.which("strace") is None:
        return False
    return not subprocess.run([*trace("/dev/null"), "true"], capture_output=True, check=False).returncode


def _count(name: str, saves: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        out, path = Path(folder) / "syncs", str(Path(folder) / "traced.db")
        if name == _PEER:
            play_peer(Peer([*trace(str(out)), *command(path, "words", _WARM + saves)]), saves)
        else:
            side = [sys.executable, "-m", "benchmarks.fsyncs", name, path, str(saves)]
            subprocess.run([*trace(str(out)), *side], cwd=ROOT, check=True)
        return between_marks(out.read_text().splitlines())


def between_marks(lines: list[str]) -> int:
    """The syncs between the two marks."""
    marks = [at for at, line in enumerate(lines) if f"{_MARK}(" in line]
    counted = lines[marks[0] : marks[1]]
    return sum("sync(" in line for line in counted)


def play_peer(peer: Peer, saves: int) -> None:
    """A peer's saves, marked, and its end."""
    for at in range(_WARM + saves):
        if at == _WARM:
            peer.ask("mark")
        peer.save(at)
    peer.ask("mark")
    peer.close()


def play(name: str, path: str, saves: int) -> None:
    """One side alone, in the traced child."""
    side = _Raw(path) if name == "raw" else SIDES[name](OurDatabase(path), "words", turns("words", _WARM + saves))
    for at in range(_WARM + saves):
        if at == _WARM:
            os.getsid(0)
        side.step(at)
    os.getsid(0)
    side.close()


class _Raw(RawCommits):
    def step(self, at: int) -> float:
        return self.commit(2048)


if __name__ == "__main__":
    play(sys.argv[1], sys.argv[2], int(sys.argv[3]))
