"""When people are told of a question again, and who else may decide after a time: rules of its age alone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple

import msgspec

from perdure.core.approvers import NOT, check_who
from perdure.core.errors import InvalidInputError

OPENED, REMINDED, ESCALATED = "pause.opened", "pause.reminded", "pause.escalated"
_SECOND = 1_000_000
_SHORTEST, _LONGEST = 1.0, 100 * 366 * 24 * 3600.0  # seconds
_MOST = 100  # reminders of one question


class Reminders(msgspec.Struct, array_like=True, frozen=True):
    """What happens to a question that nobody answers."""

    every: int = 0  # microseconds between reminders; 0 for none
    escalates: int = 0  # microseconds after it was asked; 0 for never
    to: tuple[str, ...] = ()  # who may decide from then on, beside those who may anyway

    def people(self, who: tuple[str, ...], age: int) -> tuple[str, ...]:
        """Who may decide at an age of the question. Where everybody may, nobody has to be added."""
        invited = any(not each.startswith(NOT) for each in who)
        if not invited or not self.escalates or age < self.escalates:
            return who
        return tuple(dict.fromkeys((*who, *self.to)))


NONE = Reminders()


class Telling(NamedTuple):
    """The newest occasion to tell people of a question."""

    event: str
    nth: int  # of reminders
    age: int  # of the question then


def newest_telling(reminders: Reminders, age: int) -> Telling:
    """What people are to be told of by now: the question, its escalation, or a reminder of it, whichever was last."""
    nth = min(age // reminders.every, _MOST) if reminders.every else 0
    found = Telling(REMINDED, nth, nth * reminders.every) if nth else Telling(OPENED, 0, 0)
    if reminders.escalates and found.age <= reminders.escalates <= age:
        return Telling(ESCALATED, 0, reminders.escalates)
    return found


def next_telling(reminders: Reminders, age: int) -> int | None:
    """The age at which people are to be told next; None where there is no further occasion."""
    nth = age // reminders.every + 1 if reminders.every else _MOST + 1
    ages = [nth * reminders.every] if nth <= _MOST else []
    ages += [reminders.escalates] if reminders.escalates > age else []
    return min(ages, default=None)


def reminders_of(remind: object, escalate: object) -> Reminders:
    """Read `remind=` and `escalate=`; raise `InvalidInputError` for what cannot be."""
    every = 0 if remind is None else _micros(remind, "remind")
    if escalate is None:
        return Reminders(every)
    if not isinstance(escalate, Mapping) or set(escalate) != {"after", "to"}:
        raise InvalidInputError(f'escalate must be {{"after": timedelta, "to": ["boss"]}}, not {escalate!r}')
    given: Mapping[str, Any] = escalate
    to = check_who(given["to"])
    if not to or any(each.startswith(NOT) for each in to):
        raise InvalidInputError(f'escalate: "to" names people or groups who may decide as well, not {given["to"]!r}')
    return Reminders(every, _micros(given["after"], 'escalate: "after"'), to)


def _micros(value: object, what: str) -> int:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if type(seconds) not in (int, float) or not _SHORTEST <= seconds < _LONGEST:  # type: ignore[operator]
        raise InvalidInputError(f"{what} must be a timedelta or seconds, 1 at least, not {value!r}")
    return int(seconds * _SECOND)  # type: ignore[operator]
