"""kill -9 in each node, in each durability: what is run again, ours beside LangGraph's own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.adapters.langgraph.killing import DURABILITIES, NODES, TOGETHER
from tests.adapters.langgraph.savers import EXAMINES_ALL, SAVERS, THEIRS

WHOLE = ["go", *NODES]
CASES = [
    ("SqliteSaver", "sync"), ("AsyncSqliteSaver", "async"), ("PostgresSaver", "sync"), ("AsyncPostgresSaver", "async"),
    *((name, face) for name in SAVERS if name not in THEIRS and name != "perdure-memory" for face in ("sync", "async")),
]  # fmt: skip
SHORT = [("perdure-sqlite", "sync"), ("perdure-postgresql", "async")]


def killed(name: str, face: str) -> list[dict[str, Any]]:
    """Each kill on a database of this kind, by a program of its own."""
    kind = SAVERS[name]
    address = kind.fresh()
    command = (sys.executable, "-m", "tests.adapters.langgraph.killing", name, face, *address)
    path = os.pathsep.join(each for each in sys.path if each)
    try:
        done = subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-2000:]
        return [json.loads(line) for line in done.stdout.splitlines()]
    finally:
        kind.forget(*address)


def table(found: dict[str, list[dict[str, Any]]]) -> str:
    """How many nodes were run again over all kills, as Markdown: one per kill is the least there can be."""
    head = f"| {len(NODES)} kills, nodes run again | {' | '.join(DURABILITIES)} |\n|---|{'---|' * len(DURABILITIES)}"
    rows = [
        f"| {name} | {' | '.join(str(_again(kills, each)) for each in DURABILITIES)} |" for name, kills in found.items()
    ]
    return "\n".join((head, *rows))


def _again(kills: list[dict[str, Any]], durability: str) -> int:
    return sum(len(each["again"]) for each in kills if each["durability"] == durability)


@pytest.mark.parametrize(("name", "face"), CASES if EXAMINES_ALL else SHORT)
def test_a_killed_graph_goes_on_and_its_end_is_whole(name: str, face: str) -> None:
    kills = killed(name, face)
    print(table({f"{name}, {face}": kills}))
    assert len(kills) == len(DURABILITIES) * len(NODES)
    for kill in kills:
        assert kill["end"] == WHOLE, f"killed in {kill['killed in']}, durability {kill['durability']}"
        assert kill["again"] == _expected(kill), f"killed in {kill['killed in']}, durability {kill['durability']}"


def _expected(kill: dict[str, Any]) -> list[str]:
    """Saved at every step, only the node that died is run again; saved at the end, all that had been run."""
    died = kill["killed in"]
    if kill["durability"] == "sync":
        return [died]
    if kill["durability"] == "exit":
        before = NODES.index("right" if died in TOGETHER else died)
        return list(NODES[: before + 1])
    # Saved meanwhile: how far that had come is up to the moment.
    assert died in kill["again"]
    return kill["again"]


if __name__ == "__main__":
    print(table({f"{name}, {face}": killed(name, face) for name, face in CASES}))
