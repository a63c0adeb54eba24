"""Every released log is read by this release, version by version, and goes on being written."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from perdure.core.codec import decode
from perdure.core.registry import REGISTRY, register
from perdure.core.render import from_json
from perdure.sync import Perdure
from tests.corpus.types_v1 import Mood
from tests.corpus.types_v1 import Task as TaskV1

RELEASES = sorted(path.name for path in Path(__file__).parent.glob("v*") if path.is_dir())


@dataclass
class Task:
    """The class as it is today: one field was renamed, one is new."""

    title: str
    priority: int
    done: bool


@pytest.fixture(autouse=True)
def _types() -> Iterator[None]:
    before = dict(REGISTRY._by_class), dict(REGISTRY._by_tag)
    register(Mood, tag="corpus.Mood")
    upcast = {1: lambda fields: {"title": fields["name"], "priority": fields["priority"], "done": False}}
    register(Task, tag="corpus.Task", version=2, upcast=upcast)
    yield
    REGISTRY._by_class, REGISTRY._by_tag = before


def _sqlite(release: Path, place: Path) -> str:
    database = sqlite3.connect(place / "corpus.db")
    database.executescript((release / "sqlite.sql").read_text())
    database.close()
    return f"sqlite:///{place}/corpus.db"


def _file(release: Path, place: Path) -> str:
    for name, text in json.loads((release / "file.json").read_text()).items():
        path = place / "store" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return f"file://{place}/store"


@pytest.fixture(
    params=[(release, make) for release in RELEASES for make in (_sqlite, _file)],
    ids=lambda pair: f"{pair[0]}{pair[1].__name__}",
)
def replayed(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, Any]]:
    release, make = request.param
    folder = Path(__file__).parent / release
    return make(folder, tmp_path), json.loads((folder / "expected.json").read_text())


def test_every_state_and_checkpoint_is_what_it_was(replayed: tuple[str, dict[str, Any]]) -> None:
    url, expected = replayed
    with Perdure.open(url) as store:
        for name, found in expected.items():
            thread = store.thread(name, user="alice")
            assert [point.id for point in thread.history(limit=1000)] == found["checkpoints"]
            assert repr(thread.messages()) == repr(decode(from_json(json.dumps(found["messages"]))))
            for version, state in found["states"].items():
                then = decode(from_json(json.dumps(state)))  # None: it was pruned
                assert repr(thread.load(f"@{version}", None)) == repr(then), f"{name} @{version}"


def test_an_old_object_is_brought_up_to_todays_class(replayed: tuple[str, dict[str, Any]]) -> None:
    with Perdure.open(replayed[0]) as store:
        zoo = store.thread("zoo", user="alice")
        states = [zoo.load(f"@{version}")["value"] for version in range(1, zoo.info().version + 1)]
    assert Task("write", 3, False) in states
    assert not any(isinstance(value, TaskV1) for value in states)


def test_an_old_log_is_whole_and_goes_on(replayed: tuple[str, dict[str, Any]]) -> None:
    url, expected = replayed
    with Perdure.open(url) as store:
        for name in expected:
            thread = store.thread(name, user="alice")
            assert [entry.version for entry in thread.entries()] == list(range(1, thread.info().version + 1))
            thread.update(set={"added": name})
            assert thread.load()["added"] == name


def test_a_key_that_was_used_then_answers_now(replayed: tuple[str, dict[str, Any]]) -> None:
    with Perdure.open(replayed[0]) as store:
        assert (
            store.thread("conversation", user="alice").append(
                "messages", {"role": "user", "content": "hello"}, key="first"
            )
            == 1
        )
