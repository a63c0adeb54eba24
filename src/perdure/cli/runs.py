"""`perdure runs URL`, `why`, `cancel` and `signal`: what became of runs, and what to do about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from msgspec.structs import replace

from perdure.cli.output import write, write_json, write_lines
from perdure.cli.parameters import HERE, Address, Output, Owned, Owner, Place, ThreadId, Untouched
from perdure.cli.stores import opened_store, user_of
from perdure.cli.values import brief, data, typed
from perdure.core.retention_words import shown, table
from perdure.core.runs import CANCELLED, DEAD, DECIDED, FAILED, FINISHED, INTERRUPTED, PAUSED, RunStatus
from perdure.runtime.infos import RunInfo
from perdure.runtime.why import Why

_COLUMNS = ("status", "thread", "user", "agent", "run", "changed", "tries", "")
_STYLES = {DEAD: "red", FAILED: "red", INTERRUPTED: "yellow", PAUSED: "cyan", DECIDED: "cyan"}
_LEFT = frozenset({INTERRUPTED, FAILED, DEAD, PAUSED, DECIDED})  # somebody has to go on with it


def runs(
    url: Untouched,
    /,
    *,
    status: RunStatus | None = None,
    agent: str | None = None,
    stalled: timedelta | None = None,
    user: Owned = None,
    limit: int = 50,
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """List the newest run of each thread: what became of it, and why.

    The threads that changed last come first.

    Parameters
    ----------
    status
        Only runs of this status.
    agent
        Only runs of this handler.
    stalled
        Only runs that somebody works on and whose log did not grow for so long, such as 10m.
    limit
        At most this many.
    """
    with opened_store(url, at) as store:
        whose = user_of(user, store)
        if stalled is None:
            found = store.runs(limit, status=status, agent=agent, user=whose)
        else:
            found = [each for each in store.stalled(stalled, user=whose) if agent in (None, each.agent)][:limit]
    if output == "json":
        write_json([info_data(each) for each in found])
        return
    write_lines([*_lines(found), *((line, "dim") for line in _advice(found, at, url))])


def why(
    url: Untouched,
    thread: ThreadId,
    /,
    *,
    user: Owner = None,
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """Say what happened to a thread, and what to type next.

    What failed and where, the last good point, what tools did outside so far, what nobody can tell, what is asked.
    """
    with opened_store(url, at) as store:
        whose = user_of(user, store)
        told = store.why(thread, user=whose)
        pauses = [pause.id for pause in store.pauses(thread, user=whose)]
    told = replace(told, next=_next(told, pauses, at, url, user))
    if output == "json":
        write_json(_why_data(told))
    else:
        write(str(told))


def cancel(
    url: Address,
    thread: ThreadId,
    /,
    *,
    reason: str = "",
    user: Owner = None,
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """End the unfinished run of a thread.

    Whoever works on it is refused from then on, and stops. What it did stays in the log.

    Parameters
    ----------
    reason
        Why; it is kept with the end of the run.
    """
    with opened_store(url, at) as store:
        done = store.cancel(thread, user=user_of(user, store), reason=reason)
    text = f"cancelled          {done.id} of thread {shown(done.thread)}"
    if output == "json":
        write_json(info_data(done))
    else:
        write(text)


def signal(
    url: Address,
    thread: ThreadId,
    name: str,
    value: str | None = None,
    /,
    *,
    key: str | None = None,
    user: Owner = None,
    at: Place = HERE,
) -> None:
    """Send a value to the run of a thread.

    A run that waits for it goes on at once where a worker serves the storage.

    Parameters
    ----------
    name
        The name that the run waits for.
    value
        The value as JSON; without one it is null.
    key
        The same key again sends nothing more.
    """
    sent = typed(value, "the value")
    with opened_store(url, at) as store:
        store.signal(thread, name, sent, user=user_of(user, store), key=key)
    write(f"sent               {shown(name)} to thread {shown(thread)}")


def info_data(info: RunInfo) -> dict[str, Any]:
    """A run for programs."""
    return data(info, "input", "result")


def _why_data(told: Why) -> dict[str, Any]:
    run = info_data(told.run) if told.run else None
    return data(told) | {"run": run, "effects": [data(each, "args") for each in told.effects]}


def _lines(found: Sequence[RunInfo]) -> Iterable[tuple[str, str]]:
    head, *lines = table([_COLUMNS, *map(_row, found)], frozenset({"tries"}))
    yield head, "bold"
    yield from ((line, _STYLES.get(info.status, "")) for line, info in zip(lines, found, strict=True))


def _advice(found: Sequence[RunInfo], at: Place, url: str) -> list[str]:
    """What to type about runs that go on when a person does something, once for all of them."""
    resume = at.hint("resume", url, "THREAD", options={"--handlers": "MODULE"})
    said = {
        PAUSED: f"waits for a person: {at.hint('pauses', url)}",
        DECIDED: f"was answered; without a worker: {resume}",
    }
    there = {info.status for info in found}
    return [f"{status:<18} {words}" for status, words in said.items() if status in there]


def _row(info: RunInfo) -> tuple[str, ...]:
    user = None if info.user is None else str(info.user)
    when = info.updated_at.strftime("%Y-%m-%d %H:%M:%SZ")
    names = (shown(info.thread), shown(user), shown(info.agent), info.id)
    return (info.status, *names, when, str(info.attempts), _said(info))


def _said(info: RunInfo) -> str:
    """How it ended, or why it has not."""
    if info.quarantined and info.status not in (FINISHED, CANCELLED):
        return "imported: nothing of it runs until you trust the thread"
    if info.error:
        return shown(" ".join(info.error.split()))
    return "" if info.result is None else brief(info.result)


def _next(told: Why, pauses: list[str], at: Place, url: str, user: str | None) -> list[str]:
    """What to type."""
    if told.quarantined:
        steps: list[dict[str, str | bool]] = [{"--dry-run": True}, {}]
        return [at.hint("trust", url, told.thread, user=user, options=each) for each in steps]
    if told.run is None or told.run.status not in _LEFT:
        return []
    ways = [(pause, way) for pause in pauses for way in ("--approve", "--deny")]
    asked = [at.hint("decide", url, pause, options={way: True, "--by": "NAME"}) for pause, way in ways]
    if asked and told.run.status != DECIDED:
        return asked
    resume = at.hint("resume", url, told.thread, user=user, options={"--handlers": "MODULE"})
    again = resume if told.run.agent else f"enter the block again: thread.run() of {shown(told.thread)}"
    return [again, *asked, *(at.hint(word, url, told.thread, user=user) for word in ("cancel", "timeline"))]
