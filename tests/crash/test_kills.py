"""A process killed with SIGKILL at any moment loses nothing it acknowledged and leaves nothing half."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from perdure import sync
from tests.crash.child import call
from tests.crash.verify import Verdict, verify
from tests.crash.workload import Model, applied, plan

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("backend", ["sqlite", "file"])
def test_a_hundred_kills_lose_nothing_acknowledged_and_leave_nothing_half(backend: str) -> None:
    # A process of its own: children are forked, and this one has threads of the test runner.
    command = [sys.executable, "-m", "tests.crash.campaign", "--kills", "100", "--backend", backend, "--seed", "7"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240, check=False)
    print(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")


def test_the_campaign_notices_a_lost_entry(tmp_path: Path) -> None:
    url, model = _ten_operations(tmp_path)
    _spoil(tmp_path, "DELETE FROM perdure_entry WHERE row = (SELECT max(row) FROM perdure_entry)")
    found = verify(url, model, ())
    assert found.lost + found.half == 1  # the damage may be met before the entry is missed


def test_the_campaign_notices_a_lost_checkpoint_row(tmp_path: Path) -> None:
    url, model = _ten_operations(tmp_path)
    _spoil(tmp_path, "DELETE FROM perdure_checkpoint WHERE row = (SELECT max(row) FROM perdure_checkpoint)")
    assert verify(url, model, ()).half == 1


def test_the_campaign_notices_an_operation_done_twice(tmp_path: Path) -> None:
    url, model = _ten_operations(tmp_path)
    thread, keys = next(iter(model.keys.items()))
    with sync.Perdure.open(url) as store:
        store.thread(thread).append("messages", {"role": "user"}, key="again")
    _spoil(tmp_path, f"UPDATE perdure_entry SET idem_key = '{keys[-1]}' WHERE idem_key = 'again'", drop_keys=True)
    found = verify(url, model, ())
    assert found.duplicates + found.half == 1  # the broken chain may be met before the second key is


def test_the_campaign_notices_another_state(tmp_path: Path) -> None:
    url, model = _ten_operations(tmp_path)
    thread = next(iter(model.states))
    model.states[thread][-1] = {**model.states[thread][-1], "extra": True}
    assert verify(url, model, ()).half >= 1


def test_the_campaign_is_content_with_what_is_right(tmp_path: Path) -> None:
    url, model = _ten_operations(tmp_path)
    assert verify(url, model, ()) == Verdict()


def _ten_operations(folder: Path) -> tuple[str, Model]:
    url, model = f"sqlite:///{folder}/agents.db", Model()
    states: dict[str, object] = {}
    with sync.Perdure.open(url) as store:
        for op in plan(model, random.Random(3), 10):
            states[op.thread] = applied(states.get(op.thread), op)
            answer = call(store.thread(op.thread), op, states[op.thread])
            model.accept(op, getattr(answer, "id", "") if op.kind == "save" else "")
    return url, model


def _spoil(folder: Path, statement: str, drop_keys: bool = False) -> None:
    with closing(sqlite3.connect(folder / "agents.db")) as connection, connection:
        if drop_keys:
            connection.execute("DROP INDEX perdure_entry_key")
        connection.execute(statement)
