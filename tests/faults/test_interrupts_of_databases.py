"""A Ctrl-C at any moment on a database: the write is there as a whole or not at all, and no lock stays behind."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from tests.checkpoints.places import PLACES
from tests.faults.test_interrupts import SECONDS, interrupted


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mysql"])
def test_thousands_of_interrupts_leave_no_lock_and_no_half_write_behind(backend: str, tmp_path: Path) -> None:
    url, _ = PLACES[backend](tmp_path)
    outcome: dict[str, Any] = interrupted(url, SECONDS)
    assert outcome["interrupts"] > 20 * SECONDS
    assert outcome["answered"] > 10
    assert outcome["waited"] < 5
    assert (outcome["errors"], outcome["damage"]) == ([], "")
    assert (outcome["lost"], outcome["twice"]) == ([], [])


def test_a_transaction_that_an_interrupt_left_open_is_undone(tmp_path: Path) -> None:
    """A second Ctrl-C may come while the first one is handled."""
    url, _ = PLACES["sqlite"](tmp_path)
    with sync.Perdure.open(url) as store:
        store.thread("t").save({"n": 1})
        raw = store._store._parts.storage._port._connection.raw()
        raw.execute("BEGIN IMMEDIATE")
        raw.execute("UPDATE perdure_thread SET name = 'half'")
        assert store.thread("t").append("items", "more") == 2
        assert store.thread("t").info().name is None
