"""Starting a peer and talking to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
LANGGRAPH_SQLITE = "benchmarks.peers.langgraph_sqlite"


class Peer:
    """A child process that does one thing at a time and says how long the call took."""

    def __init__(self, command: list[str]) -> None:
        self._process = subprocess.Popen(command, cwd=ROOT, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._answer()

    def ask(self, command: str) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{command}\n")
        self._process.stdin.flush()
        return float(self._answer())

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(f"the peer ended with exit code {self._process.wait()}")
        return line

    def save(self, at: int) -> float:
        """One turn of W."""
        return self.ask(f"save {at}")

    def wal_grew(self) -> bool:
        return bool(self.ask("wal"))

    def close(self) -> int:
        """Close its database and return the bytes it takes."""
        size = int(self.ask("close"))
        self.end()
        return size

    def end(self) -> None:
        """Let the child go."""
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None:
                stream.close()
        self._process.wait()


def command(path: str, variant: str, turns: int) -> list[str]:
    """How LangGraph's saver is started."""
    return [str(PYTHON), "-m", LANGGRAPH_SQLITE, path, variant, str(turns)]


def langgraph(path: str, variant: str, turns: int) -> Peer | None:
    """LangGraph's SqliteSaver, or None where its environment is missing."""
    return Peer(command(path, variant, turns)) if is_installed() else None


def is_installed() -> bool:
    """Whether the environment of the peers can run LangGraph's saver."""
    if not PYTHON.exists():
        return False
    probe = [str(PYTHON), "-c", "import langgraph.checkpoint.sqlite"]
    return subprocess.run(probe, capture_output=True, check=False).returncode == 0
