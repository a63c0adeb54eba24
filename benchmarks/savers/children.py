"""Starting the savers."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

from benchmarks.peers.child import ROOT, Peer, is_installed

OURS, THEIRS = "perdure", "langgraph"
NO_PEER = "no environment with LangGraph and Perdure: make .venv-langgraph/.ready"
_NEEDED = "langgraph.checkpoint.sqlite, langgraph.checkpoint.postgres.aio, psycopg_pool, msgspec"


def python() -> Path:
    """This Python where it has LangGraph, or that of the environment for it."""
    here = importlib.util.find_spec("langgraph") is not None
    return Path(sys.executable) if here else ROOT / ".venv-langgraph" / "bin" / "python"


def is_ready() -> bool:
    """Whether both savers can be imported."""
    return is_installed(_NEEDED, python())


def command(side: str, url: str, kind: str, count: int) -> list[str]:
    """How a saver is started."""
    # A package that is installed has its bytecode; without it every fresh process would compile our source.
    compiled = ["env", "-u", "PYTHONDONTWRITEBYTECODE"]
    return [*compiled, str(python()), "-m", "benchmarks.peers.savers", side, url, kind, "words", str(count)]


def started(side: str, url: str, kind: str, count: int) -> Peer:
    """A saver that is open."""
    peer = Peer(command(side, url, kind, count))
    peer.ask("open")
    return peer
