"""Threads that no list shows are stored data like any other: they are verified too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import empty_checkpoint

from perdure.adapters.langgraph import PerdureSaver, PerdureStore
from tests.cli.test_cli import perdure


def test_verify_sees_subgraphs_and_memories(tmp_path: Path) -> None:
    file = tmp_path / "agents.db"
    with PerdureSaver.open(f"sqlite:///{file}") as saver, PerdureStore.open(f"sqlite:///{file}") as memories:
        for ns in ("", "child:1"):
            config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ns}}
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1, "parents": {}}, {})
        memories.put(("people",), "alice", {"city": "Paris"})
    done = perdure("verify", f"sqlite:///{file}")
    assert done.returncode == 0
    assert "4 threads" in done.stdout  # the graph's, its subgraph's, those of a namespace of memories and of its name
