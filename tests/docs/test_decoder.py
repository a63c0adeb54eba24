"""The decoder of the storage format, on real databases."""

from __future__ import annotations

import contextlib
import random
import sqlite3
import uuid
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure.sync import Perdure
from tests.docs.pages import ROOT, blocks

DECODER = next(block for block in blocks(ROOT / "docs" / "storage-format.md") if "def entries(" in block.text)


@dataclass
class Order:
    number: int
    lines: list[str]


def decoded(path: Path, thread_id: str) -> Any:
    names: dict[str, Any] = {}
    exec(DECODER.text, names)
    with contextlib.closing(sqlite3.connect(path)) as database:
        return names["state"](database, thread_id)


def test_it_has_at_most_fifty_lines() -> None:
    assert len([line for line in DECODER.text.splitlines() if line.strip()]) <= 50


@pytest.mark.parametrize("seed", range(3))
def test_it_reads_what_the_library_reads_after_any_changes(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
        thread = store.thread("t")
        for turn in range(60):
            state = thread.load(default={"items": [], "fields": {}})
            change(state, chance, turn)
            thread.save(state)
        branch = thread.fork("@30", to="branch").fork("@20", to="branch of the branch")
        branch.append("items", "more", {"big": "x" * 70_000})
        expected = thread.load(), branch.load()
    assert (decoded(tmp_path / "x.db", "t"), decoded(tmp_path / "x.db", "branch of the branch")) == expected


@pytest.mark.parametrize("seed", range(3))
def test_it_reads_what_a_prune_left_of_a_thread_that_was_rewound(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
        thread = store.thread("t")
        for turn in range(40):
            state = thread.load(default={"items": [], "fields": {}})
            change(state, chance, turn)
            state["fields"]["big"] = f"{turn}" * 70_000
            thread.save(state)
            if turn % 9 == 8:
                thread.rewind(chance.randint(1, thread.info().version))
        branch = thread.fork("@30", to="branch")
        branch.save({"items": []})
        thread.prune(chance.choice([1, 5]))
        branch.prune(1)
        thread.append("items", "more")
        thread.prune(1)
        expected = thread.load(), branch.load()
    assert (decoded(tmp_path / "x.db", "t"), decoded(tmp_path / "x.db", "branch")) == expected


def change(state: Any, chance: random.Random, turn: int) -> None:
    items = state["items"]
    items.insert(chance.randint(0, len(items)), {"turn": turn, "text": "word " * chance.randint(0, 400)})
    if chance.random() < 0.3:
        del items[chance.randrange(len(items))]
    if items and chance.random() < 0.5:
        items[chance.randrange(len(items))] = {"edited": turn}
    state["fields"][f"key{chance.randint(0, 5)}"] = turn
    if chance.random() < 0.3:
        state["fields"].pop("key3", None)


def test_it_reads_exact_types_and_objects_as_the_page_says(tmp_path: Path) -> None:
    perdure.register(Order, tag="tests.docs.Order")
    number = uuid.uuid4()
    state = {
        "order": Order(1, ["a"]), "when": datetime(2026, 1, 2, tzinfo=UTC), "pair": (1, 2), "set": {3}, "big": 1 << 80,
        "price": Decimal("1.50"), "id": number, "keys": {1: "one"}, "text": "\ud800",
    }  # fmt: skip
    with Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
        store.thread("t").save(state)
        store.thread("t").append("order.lines", "b")
    assert decoded(tmp_path / "x.db", "t") == {
        "order": {"number": 1, "lines": ["a", "b"]}, "when": ["2026-01-02T00:00:00", 0, [0, None]], "pair": [1, 2],
        "set": [3], "big": 1 << 80, "price": "1.50", "id": number.hex, "keys": {1: "one"}, "text": "\ud800",
    }  # fmt: skip


def test_it_notices_a_changed_byte(tmp_path: Path) -> None:
    with Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
        store.thread("t").append("messages", "hello")
    with contextlib.closing(sqlite3.connect(tmp_path / "x.db")) as database:
        (payload,) = database.execute("SELECT payload FROM perdure_entry").fetchone()
        database.execute("UPDATE perdure_entry SET payload = ?", [payload.replace(b"hello", b"hellp")])
        database.commit()
    with pytest.raises(AssertionError):
        decoded(tmp_path / "x.db", "t")
