"""Running a coroutine that never waits, in place."""

from __future__ import annotations

from collections.abc import Coroutine, Iterator
from typing import Any, TypeVar

from perdure.core.errors import SuspendedError

T = TypeVar("T")


def drive(work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end with one step; raise `SuspendedError` naming the place when it waits for something."""
    try:
        work.send(None)
    except StopIteration as done:
        return done.value
    raise suspended(work)


def suspended(work: Coroutine[Any, Any, Any]) -> SuspendedError:
    """The error of a coroutine that waits for something, which is closed."""
    place = " > ".join(_chain(work))
    work.close()
    return SuspendedError(place)


def _chain(work: Any) -> Iterator[str]:
    """The coroutines that wait for each other, the outermost first."""
    while hasattr(work, "cr_code"):
        yield f"{work.cr_code.co_qualname} (line {work.cr_frame.f_lineno})"
        work = work.cr_await
