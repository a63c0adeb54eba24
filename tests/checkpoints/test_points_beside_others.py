"""Points that are looked for while another process writes."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from perdure import Checkpoint
from perdure.errors import NotFoundError, VersionConflictError
from perdure.sync import Perdure, Thread
from tests.interruption import Interruption
from tests.storage.hot import Heard

ACTS: dict[str, Callable[[Thread], object]] = {
    "write": lambda thread: thread.save({"n": 2}),
    "delete": lambda thread: thread.delete(),
    "make again": lambda thread: (thread.delete(), thread.save({"n": 2})),
}
MOVES: dict[str, Callable[[Thread], object]] = {
    "rewind": lambda thread: thread.rewind("@1"),
    "prune": lambda thread: thread.prune(1),
    "write": lambda thread: thread.save({"n": 9}),
}


@pytest.mark.parametrize("act", ["write", "delete", "make again"])
@pytest.mark.parametrize("ref", ["chk_00000000000000000000000000", "@99"])
def test_a_checkpoint_that_is_not_there_is_absent_whatever_others_do(tmp_path: Path, ref: str, act: str) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            other.save({"n": 1})
            met = Interruption(ours._store._parts.storage, at, lambda other=other: ACTS[act](other))
            with pytest.raises(NotFoundError):
                ours.thread("t").load(ref)
            if not met.acted:
                break
    assert at > 1


@pytest.mark.parametrize("act", ["rewind", "prune", "write"])
@pytest.mark.parametrize("ref", ["@-1", "@-2", "@-3", "@tag:mine", "the first"])
def test_a_point_is_what_it_was_or_what_it_is(tmp_path: Path, ref: str, act: str) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            points = [other.save({"n": n}) for n in range(1, 6)]
            other.tag(points[2], "mine")
            wanted = points[0].id if ref == "the first" else ref
            before = other.load(wanted)
            met = Interruption(ours._store._parts.storage, at, lambda other=other: MOVES[act](other))
            found = ours.thread("t").load(wanted, default=None)
            if not met.acted:
                break
            # What was pruned after it was found is absent.
            assert found in (before, other.load(wanted, default=None)) or (act == "prune" and found is None)
    assert at > 1


@pytest.mark.parametrize("act", ["rewind", "prune"])
def test_a_timeline_is_of_one_moment(tmp_path: Path, act: str) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            for n in range(1, 6):
                other.save({"n": n, "text": "x" * 500 * n})
            before = other.timeline()
            met = Interruption(ours._store._parts.storage, at, lambda other=other: MOVES[act](other))
            found = ours.thread("t").timeline()
            if not met.acted:
                break
            if act == "rewind":
                assert found in (before, other.timeline())
            assert [each.version for each in found][:5] == [1, 2, 3, 4, 5]
    assert at > 1


def test_the_newest_intact_point_is_not_called_damaged_because_others_prune(tmp_path: Path) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        telemetry = Heard()
        with Perdure.open(url, telemetry=telemetry) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            for n in range(1, 6):
                other.save({"n": n}, kind="auto" if n < 4 else "manual")
            met = Interruption(ours._store._parts.storage, at, lambda other=other: other.prune(1))
            with suppress(NotFoundError):
                assert ours.thread("t").latest(kind="auto").skipped == []
            assert telemetry.counts["perdure.checkpoints.damaged"] == 0
            if not met.acted:
                break
    assert at > 1


def test_a_fork_is_not_called_damaged_because_its_parent_is_pruned(tmp_path: Path) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            for n in range(1, 6):
                other.save({"n": n, "text": "x" * 500 * n})
            other.fork(to="fork").save({"n": 6})
            met = Interruption(ours._store._parts.storage, at, lambda other=other: other.prune(1))
            assert ours.thread("fork").verify(restore=True).ok
            if not met.acted:
                break
    assert at > 1


def test_a_prune_beside_one_who_makes_the_thread_again_touches_nothing(tmp_path: Path) -> None:
    def made_again(thread: Thread) -> None:
        thread.delete()
        for n in range(10, 20):
            thread.save({"n": n})

    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            points = [other.save({"n": n}) for n in range(1, 6)]
            other.tag(points[1], "kept")
            met = Interruption(ours._store._parts.storage, at, lambda other=other: made_again(other))
            with suppress(NotFoundError, VersionConflictError):
                ours.thread("t").prune(1)
            if not met.acted:
                break
            assert other.verify(restore=True).ok
            assert other.load() == {"n": 19}
    assert at > 1


LOOKS: dict[str, Callable[[Thread, Checkpoint], object]] = {
    "a checkpoint": lambda thread, point: thread.load(point),
    "a step back": lambda thread, point: thread.load("@-2"),
    "a comparison": lambda thread, point: thread.compare(point, None),
    "a rewind": lambda thread, point: thread.rewind(point),
    "sizes": lambda thread, point: thread.sizes(point),
    "a save after": lambda thread, point: thread.save({"n": 9}, after=point),
}


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("count", [1, 6])
def test_a_point_of_a_deleted_thread_is_not_one_of_the_next(tmp_path: Path, look: str, count: int) -> None:
    def made_again(thread: Thread) -> None:
        thread.delete()
        for n in range(count):
            thread.save({"other": n})

    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            points = [other.save({"n": n}) for n in range(1, 6)]
            met = Interruption(ours._store._parts.storage, at, lambda other=other: made_again(other))
            found = None
            with suppress(NotFoundError, VersionConflictError):
                found = LOOKS[look](ours.thread("t"), points[3])
            if not met.acted:
                break
            if look == "a checkpoint":
                assert found in (None, {"n": 4})
            if look == "a step back" and found is not None:
                assert found in ({"n": 4}, {"other": count - 2})
            assert other.load() == {"other": count - 1}
            assert other.verify(restore=True).ok
    assert at > 1


NAMES: dict[str, Callable[[Thread], object]] = {
    "checkpoint": lambda thread: thread.checkpoint("@-3"),
    "tag": lambda thread: thread.tag("@-3", "mine"),
}


@pytest.mark.parametrize("name", NAMES)
def test_a_point_that_is_pruned_meanwhile_is_not_named(tmp_path: Path, name: str) -> None:
    for at in itertools.count(1):
        url = f"sqlite:///{tmp_path / str(at)}.db"
        with Perdure.open(url) as ours, Perdure.open(url) as theirs:
            other = theirs.thread("t")
            for n in range(1, 8):
                other.save({"n": n, "text": "x" * 500})
            met = Interruption(ours._store._parts.storage, at, lambda other=other: other.prune(1))
            with suppress(NotFoundError):
                NAMES[name](ours.thread("t"))
            if not met.acted:
                break
            assert other.verify(restore=True).ok
            for point in other.history():
                assert other.load(point)["n"]
            for version in other.tagged().values():
                assert other.load(f"@{version}")["n"]
    assert at > 1
