"""How a run lets go of its thread while it waits: it unwinds, and nothing of it stays in memory."""

from __future__ import annotations

from collections.abc import Iterator

from perdure.core.runs import PAUSED, WAITING


class Unwinding(BaseException):
    """Leaves the code of a run. Not an `Exception`: code that handles errors must not stop it."""

    def __init__(self, status: str, wake_at: int | None = None) -> None:
        super().__init__(status)
        self.status = status
        self.wake_at = wake_at


def sorted_out(error: BaseException) -> BaseException:
    """What ended the code, where tasks of a group did: a failure if there is one, else that it lets go."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    found, rest = error.split(Unwinding)
    if found is None or rest is not None:
        return rest or error
    reasons = list(_leaves(found))
    paused = any(each.status == PAUSED for each in reasons)
    wakes = [each.wake_at for each in reasons if each.wake_at is not None]
    return Unwinding(PAUSED if paused else WAITING, min(wakes, default=None))


def _leaves(group: BaseExceptionGroup[Unwinding]) -> Iterator[Unwinding]:
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            yield from _leaves(each)
        else:
            yield each
