"""Starting a peer and talking to it."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = ROOT / ".venv-peers" / "bin" / "python"
PYTHON_312 = ROOT / ".venv-peers-312" / "bin" / "python"  # for peers that ask for 3.12 or newer
LANGGRAPH_SQLITE = "benchmarks.peers.langgraph_sqlite"
# What has to be importable.
LANGGRAPH_POSTGRES = "langgraph.checkpoint.postgres.aio, psycopg_pool"
AGENTFLOW_POSTGRES = "agentflow.storage.checkpointer, asyncpg, redis"


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
        """Close its database and return the bytes it takes, where it knows them."""
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


def langgraph_postgres(url: str, variant: str, turns: int) -> Peer | None:
    """LangGraph's savers on PostgreSQL, or None where their environment is missing."""
    if not is_installed(LANGGRAPH_POSTGRES):
        return None
    return Peer([str(PYTHON), "-m", "benchmarks.peers.langgraph_postgres", url, variant, str(turns)])


def agentflow_postgres(url: str, redis: str, variant: str, turns: int) -> Peer | None:
    """Agentflow's PgCheckpointer, or None where its environment is missing."""
    if not is_installed(AGENTFLOW_POSTGRES, PYTHON_312):
        return None
    return Peer([str(PYTHON_312), "-m", "benchmarks.peers.agentflow_postgres", url, redis, variant, str(turns)])


def agentflow_sessions(url: str, redis: str, variant: str, turns: int) -> Peer | None:
    """A conversation through Agentflow's PgCheckpointer, or None where its environment is missing."""
    if not is_installed(AGENTFLOW_POSTGRES, PYTHON_312):
        return None
    return Peer([str(PYTHON_312), "-m", "benchmarks.peers.agentflow_sessions", url, redis, variant, str(turns)])


DBOS_RUNS = [str(PYTHON), "-m", "benchmarks.peers.dbos_runs"]


def dbos_runs() -> Peer | None:
    """Workflows of DBOS, or None where its environment is missing."""
    return Peer([*DBOS_RUNS, "serve"]) if is_installed("dbos") else None


def is_installed(modules: str = "langgraph.checkpoint.sqlite", python: Path = PYTHON) -> bool:
    """Whether an environment of the peers can import these."""
    if not python.exists():
        return False
    return subprocess.run([str(python), "-c", f"import {modules}"], capture_output=True, check=False).returncode == 0
