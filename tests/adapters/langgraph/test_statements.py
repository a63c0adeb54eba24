"""A put on top of what this process put before asks the database nothing: it is one write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.base.id import uuid6

from perdure.adapters.langgraph import PerdureSaver
from tests.adapters.langgraph.savers import OURS
from tests.faults.watching import watched

START: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


def _put(saver: PerdureSaver, config: Any, turn: int) -> Any:
    checkpoint = empty_checkpoint() | {
        "id": str(uuid6()), "channel_values": {"a": list(range(turn))}, "channel_versions": {"a": turn},
    }  # fmt: skip
    return saver.put(config, checkpoint, {"source": "loop", "step": turn, "parents": {}}, {"a": turn})


def test_a_put_on_postgresql_is_one_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    execute = psycopg.Cursor.execute
    with OURS["perdure-postgresql"].opened() as saver:
        config = _put(saver, START, 1)
        monkeypatch.setattr(
            psycopg.Cursor, "execute", lambda self, query, *rest, **options: (
                sent.append(str(query)), execute(self, query, *rest, **options)
            )[1]
        )  # fmt: skip
        for turn in (2, 3):
            config = _put(saver, config, turn)
        assert len([each for each in sent if "INSERT INTO" in each]) == 2
        assert len([each for each in sent if "FOR NO KEY UPDATE" in each or each.startswith("SELECT")]) == 0


def test_a_put_on_sqlite_reads_nothing_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with watched(monkeypatch) as watch, PerdureSaver.open(f"sqlite:///{tmp_path}/a.db") as saver:
        config = _put(saver, START, 1)
        config = _put(saver, config, 2)
        watch.clear()
        _put(saver, config, 3)
        assert [each.split()[0] for each in watch.statements if "SELECT" in each] == []
        assert [each.split()[0] for each in watch.statements] == ["BEGIN", "INSERT", "UPDATE", "INSERT", "COMMIT"]
