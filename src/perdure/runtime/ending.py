"""How a run ends: finished, failed, waiting, or cut off."""

from __future__ import annotations

from typing import Any

from msgspec import Raw

from perdure.core.calls import reason
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import KeyReusedError, LeaseLostError
from perdure.core.runs import DEAD, FAILED, FINISHED, PAUSED, Ended, end_key
from perdure.core.threads import ThreadPatch
from perdure.core.triggers import Moment
from perdure.runtime.failures import kept_traceback
from perdure.runtime.run import Run
from perdure.runtime.unwinding import Unwinding


async def finish(run: Run, value: Any) -> Any:
    """Record the result, let go of the thread, and return it as it will be read."""
    encoded = encode_result(value, subclasses=run.journal.engine.subclasses)
    entry = run.journal.entry(EntryKind.RUN_FINISHED, Ended(run.id, Raw(encoded), took=_took(run)))
    patch = ThreadPatch(status=FINISHED, wake_at=0, attempts=0)
    try:
        await run.triggering.write(Moment.END, [entry], key=end_key(run.id), patch=patch)
    except KeyReusedError:  # somebody cancelled it, and takes its lease away
        held = run.journal.held
        held.lost = LeaseLostError(held.key.id, held.epoch, held.epoch + 1)
        raise held.lost from None
    await run.runtime.leases.release(run.journal.held)
    await run.triggering.ended()
    return decode(encoded)


async def fail(run: Run, error: BaseException, attempt: int, *, again_in: float | None) -> None:
    """Record why an attempt failed. With `again_in` it is tried again then; without, it is over for good."""
    final = again_in is None
    ended = Ended(
        run.id, error=type(error).__name__, text=reason(error), attempt=attempt, final=final,
        traceback=_traceback(run, error), took=_took(run),
    )  # fmt: skip
    entry = run.journal.entry(EntryKind.RUN_FAILED, ended)
    patch = ThreadPatch(status=DEAD if final else FAILED, wake_at=0, attempts=attempt)
    await run.triggering.write(Moment.ERROR, [entry], about=ended.error, patch=patch)
    wake_at = run.runtime.in_seconds(again_in) if again_in is not None else None
    await run.runtime.leases.release(run.journal.held, wake_at)


async def give_up(run: Run, attempts: int) -> None:
    """Record that a run killed its process so many times in the same place: it is not tried again by itself."""
    ended = Ended(run.id, error="Died", text=f"its process died {attempts} times in the same place", attempt=attempts)
    entry = run.journal.entry(EntryKind.RUN_FAILED, ended)
    patch = ThreadPatch(status=DEAD, wake_at=0, attempts=attempts)
    await run.triggering.write(Moment.ERROR, [entry], about=ended.text, patch=patch)
    await run.runtime.leases.release(run.journal.held)


async def fail_here(run: Run, error: BaseException) -> None:
    """Record why a block of code failed; entering it again goes on with it."""
    ended = Ended(
        run.id, error=type(error).__name__, text=reason(error), final=False, traceback=_traceback(run, error),
        took=_took(run),
    )  # fmt: skip
    entry = run.journal.entry(EntryKind.RUN_FAILED, ended)
    patch = ThreadPatch(status=FAILED, wake_at=0)
    await run.triggering.write(Moment.ERROR, [entry], about=ended.error, patch=patch)
    await run.runtime.leases.release(run.journal.held)


def _traceback(run: Run, error: BaseException) -> str:
    return kept_traceback(error) if run.keeps_tracebacks else ""


def _took(run: Run) -> int:
    return max(0, run.runtime.clock.now() - run.current.micros)


async def let_go(run: Run, why: Unwinding) -> None:
    """Give the thread back while the run waits: for whatever comes first, of all that its code waits for."""
    status = PAUSED if run.paused else why.status
    if run.journal.status != status:
        entry = run.journal.entry(EntryKind.THREAD_CHANGED, {"status": status})
        await run.journal.write([entry], patch=ThreadPatch(status=status))
    timers = [*run.timers, why.wake_at, await run.runtime.attending.next_look(run)]
    await run.runtime.leases.release(run.journal.held, min((each for each in timers if each), default=None))


async def cut_off(run: Run) -> None:
    """The process ends, or the code was cancelled: whoever serves handlers takes over at once."""
    await run.runtime.leases.release(run.journal.held, run.runtime.clock.now() if run.handled else None)
