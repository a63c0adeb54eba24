"""When a run saves a checkpoint by itself."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure import Triggers
from perdure.core.triggers import Moment, should_save, trigger_of
from perdure.errors import InvalidInputError

TURN, TOOL, BEFORE, PAUSE, ERROR, END = Moment
NO_TIME = timedelta(0)


def saved(triggers: Triggers, turns: int = 1) -> set[Moment]:
    """The moments that save one."""
    return {moment for moment in Moment if should_save(triggers, moment, turns)}


@pytest.mark.parametrize(
    ("triggers", "at_turn_1", "at_turn_5"),
    [
        (Triggers(), {PAUSE}, {PAUSE}),
        (Triggers(strategy="event"), {PAUSE, TURN}, {PAUSE, TURN}),
        (Triggers(strategy="interval"), {PAUSE, ERROR, END}, {PAUSE, ERROR, END, TURN}),
        (Triggers(strategy="hybrid"), {PAUSE, ERROR, END, TURN}, {PAUSE, ERROR, END, TURN}),
        (Triggers(after_tools=True), {PAUSE, TOOL}, {PAUSE, TOOL}),
        (Triggers(before_llm=True), {PAUSE, BEFORE}, {PAUSE, BEFORE}),
        (Triggers(enabled=False, strategy="hybrid", after_tools=True, before_llm=True), set(), set()),
    ],
)
def test_each_strategy_saves_at_its_moments(triggers: Triggers, at_turn_1: set[Any], at_turn_5: set[Any]) -> None:
    assert (saved(triggers, 1), saved(triggers, 5)) == (at_turn_1, at_turn_5)


def test_an_interval_counts_turns() -> None:
    every_third = Triggers(strategy="interval", interval=3)
    assert [turn for turn in range(1, 11) if should_save(every_third, TURN, turn)] == [3, 6, 9]


def test_what_asked_for_a_checkpoint_is_named() -> None:
    hybrid = Triggers(strategy="hybrid", interval=2)
    assert [trigger_of(hybrid, TURN, turn, NO_TIME) for turn in (1, 2)] == ["event", "interval"]


def test_by_time_one_is_saved_at_the_next_moment_that_costs_nothing() -> None:
    hourly, hour = Triggers(every=timedelta(hours=1)), timedelta(hours=1)
    assert {moment for moment in Moment if should_save(hourly, moment, 1, hour)} == set(Moment) - {BEFORE}
    assert saved(hourly) == {PAUSE}
    off = Triggers(enabled=False, every=timedelta(hours=1))
    assert not any(should_save(off, moment, 1, hour) for moment in Moment)


@pytest.mark.parametrize(
    "wrong",
    [
        {"interval": 0}, {"interval": True}, {"interval": 2.5}, {"strategy": "events"}, {"enabled": "yes"},
        {"after_tools": 1}, {"before_llm": None}, {"every": 60}, {"every": timedelta(0)},
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_by_its_name(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidInputError, match=next(iter(wrong))):
        Triggers(**wrong)
