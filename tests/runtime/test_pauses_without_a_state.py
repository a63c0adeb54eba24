"""A pause saves a checkpoint, also in a thread that has no state yet; such a point is as good as any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure import sync
from perdure.core.checkpoint import Checkpoint
from perdure.core.errors import NotFoundError
from tests.checkpoints.places import PLACES


@pytest.fixture(params=["memory", "sqlite", "file", "postgres", "mysql"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    url, options = PLACES[request.param](tmp_path)
    with sync.Perdure.open(url, **options) as made:
        made.handler("ask")(ask)
        made.start("ask", thread="t")
        made.recover()
        yield made


def ask(run: Any) -> bool:
    approved = run.pause("sure", ask="Sure?").approved
    run.append("answers", approved)
    return approved


def point(store: Any) -> Checkpoint:
    (found,) = store.thread("t").history()
    return found


def test_it_is_listed_with_the_question(store: Any) -> None:
    found = point(store)
    assert (found.kind, found.status, found.note) == ("pause", "input_required", "Sure?")


def test_it_has_no_state_and_is_intact(store: Any) -> None:
    thread, found = store.thread("t"), point(store)
    with pytest.raises(NotFoundError, match="a state"):
        thread.load(found.id)
    assert thread.load(found.id, default="none") == "none"
    assert (thread.latest().checkpoint.id, thread.latest().skipped) == (found.id, [])
    assert thread.verify(restore=True).ok
    assert not thread.repair().rebuilt


def test_it_can_be_forked(store: Any) -> None:
    found = point(store)
    store.thread("t").fork(found.id, to="f")
    assert [each.id for each in store.thread("f").history()] == [found.id]
    assert store.thread("f").save({"a": 1}).version > found.version


def test_it_survives_export_and_import(store: Any, tmp_path: Path) -> None:
    store.export("t", tmp_path / "t.perdure")
    with sync.Perdure.open("memory://") as other:
        other.import_(tmp_path / "t.perdure", user="")
        assert [each.id for each in other.thread("t").history()] == [point(store).id]
        assert other.verify().ok


def test_the_run_goes_on_from_it_and_the_next_points_are_found(store: Any) -> None:
    (pause,) = store.pauses()
    store.decide(pause, approved=True, by="ann")
    assert store.resume("t").result is True
    after = store.thread("t").save({"answers": [True], "more": 1})
    assert store.thread("t").latest().checkpoint.id == after.id
    store.thread("t").prune(1)
    assert store.thread("t").verify(restore=True).ok
