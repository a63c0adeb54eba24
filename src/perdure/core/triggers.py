"""When a run saves a checkpoint by itself. What is recorded of a run never depends on this: only its checkpoints do."""

from __future__ import annotations

from datetime import timedelta
from enum import StrEnum
from typing import Literal

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.vocabulary import suggestion

Strategy = Literal["event", "interval", "hybrid"]
STRATEGIES = ("event", "interval", "hybrid")


class Moment(StrEnum):
    """When a run may save one."""

    TURN = "turn"  # a model answered
    TOOL = "tool"  # the result of a tool is there
    BEFORE_MODEL = "before_model"
    PAUSE = "pause"
    ERROR = "error"
    END = "end"


_EVENTS = frozenset({Moment.ERROR, Moment.END})  # what `interval` has besides its count; pauses are everybody's


class Triggers(msgspec.Struct, frozen=True, kw_only=True):
    """Which checkpoints the runs of a store save by themselves.

    By `strategy`, "event" is after every turn of a model, "interval" after every `interval` turns and when the run
    fails or ends, "hybrid" both. `after_tools` is right after the result of a tool, `before_llm` right before a model
    is asked, together with what it is asked, `every` at the next turn or tool when so much time has passed. A pause
    that opens always saves one. With `enabled=False` none of this happens, also not at pauses.
    """

    enabled: bool = True
    strategy: Strategy | None = None
    interval: int = 5
    after_tools: bool = False
    before_llm: bool = False
    every: timedelta | None = None

    def __post_init__(self) -> None:
        for name in ("enabled", "after_tools", "before_llm"):
            if type(getattr(self, name)) is not bool:
                raise InvalidInputError(f"{name} must be True or False, not {getattr(self, name)!r}")
        if self.strategy is not None and self.strategy not in STRATEGIES:
            near = suggestion(self.strategy, STRATEGIES)
            raise InvalidInputError(f"strategy must be one of {', '.join(STRATEGIES)}, not {self.strategy!r}{near}")
        if type(self.interval) is not int or self.interval < 1:
            raise InvalidInputError(f"interval must be an int from 1 on, not {self.interval!r}")
        if self.every is not None and (not isinstance(self.every, timedelta) or self.every <= timedelta(0)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"every must be a timedelta longer than nothing, not {self.every!r}")

    @property
    def counts(self) -> bool:
        """Whether turns are counted."""
        return self.strategy in ("interval", "hybrid")


def trigger_of(triggers: Triggers, moment: Moment, turns: int, since_last: timedelta) -> str | None:
    """The name of what asks for a checkpoint now, None when nothing does.

    `turns` are those that the run has taken, this one included; `since_last` is the time since its newest checkpoint.
    """
    if not triggers.enabled:
        return None
    if moment is Moment.BEFORE_MODEL:  # not by time: it would cost a commit that the turn after it does not
        return "before_llm" if triggers.before_llm else None
    return _by_moment(triggers, moment, turns) or _by_time(triggers, since_last)


def should_save(triggers: Triggers, moment: Moment, turns: int, since_last: timedelta = timedelta(0)) -> bool:
    """Whether a checkpoint is saved now."""
    return trigger_of(triggers, moment, turns, since_last) is not None


def _by_moment(triggers: Triggers, moment: Moment, turns: int) -> str | None:
    if moment is Moment.PAUSE:
        return "pause"
    if moment is Moment.TOOL:
        return "after_tools" if triggers.after_tools else None
    if moment is Moment.TURN:
        return _by_turn(triggers, turns)
    return moment.value if moment in _EVENTS and triggers.counts else None


def _by_turn(triggers: Triggers, turns: int) -> str | None:
    if triggers.counts and turns % triggers.interval == 0:
        return "interval"
    return "event" if triggers.strategy in ("event", "hybrid") else None


def _by_time(triggers: Triggers, since_last: timedelta) -> str | None:
    return "every" if triggers.every is not None and since_last >= triggers.every else None
