"""What becomes of a run that is asked for, decided with plain values."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import Raw

from perdure.core.entries import EntryKind
from perdure.core.errors import UnfinishedRunError
from perdure.core.resume import Next, attempt_after, next_step, wait_before
from perdure.core.runs import DEAD, FAILED, PAUSED, QUEUED, RUNNING, WAITING, Current, Ended, Started


def run(name: str, key: str | None = None, input: bytes = b"\xc0", *, over: bool = False) -> Current:
    end = Ended(name) if over else None
    kind = EntryKind.RUN_FINISHED if over else None
    return Current(version=1, started=Started(name, None, key, Raw(input)), micros=0, end=end, end_kind=kind)


def decided(newest: Current | None, named: Current | None = None, status: str = RUNNING, **asked: Any) -> Next:
    unfinished = asked.pop("unfinished", "resume")
    words = {"key": None, "input": None, "thread_id": "t"} | asked
    return next_step(newest, named, status, unfinished, **words)


def test_a_thread_without_an_unfinished_run_starts_one() -> None:
    assert decided(None) == decided(run("a", over=True)) == Next()


def test_the_same_turn_goes_on() -> None:
    cut_off = run("a", "k", b"\x01")
    assert decided(cut_off) == decided(cut_off, key="k", input=b"\x01") == Next(resume=cut_off)


@pytest.mark.parametrize("asked", [{"key": "other"}, {"input": b"\x02"}])
def test_another_turn_leaves_one_that_was_cut_off_behind(asked: dict[str, Any]) -> None:
    cut_off = run("a", "k", b"\x01")
    assert decided(cut_off, **asked) == Next(abandon=cut_off)


@pytest.mark.parametrize("status", [QUEUED, PAUSED, WAITING])
def test_another_turn_does_not_leave_one_behind_that_waits(status: str) -> None:
    with pytest.raises(UnfinishedRunError):
        decided(run("a", "k"), status=status, key="other")
    assert decided(run("a", "k"), status=status, key="other", unfinished="abandon").abandon == run("a", "k")


def test_a_key_that_is_over_is_read_from_the_log() -> None:
    over = run("a", "k", over=True)
    assert decided(run("b"), over, key="k") == Next(resume=over, again=True)


def test_a_run_that_somebody_is_about_to_take_up_is_not_left_behind() -> None:
    assert decided(run("a", "k"), key="other", untouched=True) == Next()
    mine = run("b", "other")
    assert decided(run("a", "k"), mine, key="other") == Next(resume=mine)


@pytest.mark.parametrize(
    ("status", "progressed", "died", "attempt"),
    [
        (QUEUED, False, False, 1), (RUNNING, False, True, 4), (RUNNING, True, True, 1), (RUNNING, False, False, 3),
        (FAILED, False, False, 4), (DEAD, False, False, 1), (PAUSED, False, False, 1), (WAITING, False, True, 1),
    ],
)  # fmt: skip
def test_only_what_was_tried_in_vain_counts(status: str, progressed: bool, died: bool, attempt: int) -> None:
    assert attempt_after(3, status, progressed=progressed, died=died) == attempt


def test_waits_double_up_to_the_longest() -> None:
    assert [wait_before(attempt, 1.0, 10.0) for attempt in (1, 2, 3, 4, 5, 99)] == [1, 2, 4, 8, 10, 10]
