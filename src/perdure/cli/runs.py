"""`perdure runs`, `why`, `start`, `cancel` and `signal`: what became of runs, and what to do about one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from msgspec.structs import replace

from perdure.cli.common_options import (
    HERE,
    Output,
    Owned,
    Owner,
    ThreadId,
    ThreadOptions,
    fields_of_struct,
    opened_store,
    parse_json,
    shortened,
    user_of,
)
from perdure.cli.handlers import handlers_option
from perdure.cli.lookup import short_ids, short_thread, thread_of
from perdure.cli.output import write, write_data, write_lines, write_next
from perdure.cli.pauses import decide_hints
from perdure.core.errors import NotFoundError
from perdure.core.retention_words import shown, table
from perdure.core.runs import CANCELLED, DEAD, DECIDED, FAILED, FINISHED, INTERRUPTED, PAUSED, RunStatus
from perdure.core.threads import LANGGRAPH
from perdure.runtime.decisions import Pause
from perdure.runtime.infos import RunInfo
from perdure.runtime.why import Why

_COLUMNS = ("status", "thread", "user", "agent", "run", "changed", "tries", "")
_STYLES = {DEAD: "red", FAILED: "red", INTERRUPTED: "yellow", PAUSED: "cyan", DECIDED: "cyan"}
_LEFT = frozenset({INTERRUPTED, FAILED, DEAD, PAUSED, DECIDED})  # somebody has to go on with it


def runs(
    *,
    status: RunStatus | None = None,
    agent: str | None = None,
    stalled: timedelta | None = None,
    user: Owned = None,
    limit: int = 50,
    at: ThreadOptions = HERE,
    output: Output = "table",
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
    with opened_store(at) as store:
        whose = user_of(user, store)
        if stalled is None:
            found = store.runs(limit, status=status, agent=agent, user=whose)
        else:
            found = [each for each in store.stalled(stalled, user=whose) if agent in (None, each.agent)][:limit]
    if output != "table":
        write_data([info_data(each) for each in found], output)
        return
    write_lines(_lines(found))
    write_next(*_advice(found, at, user))


def why(
    thread: ThreadId,
    /,
    *,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Say what happened to a thread, and what to type next.

    What failed and where, the last good point, what tools did outside so far, what nobody can tell, what is asked.
    """
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        told, pauses = store.why(found), store.pauses(found)
        info = found.info()
        is_graph = info.agent == LANGGRAPH and info.status == DECIDED
    steps = next_of(told.thread, told.run, pauses, at, user, quarantined=told.quarantined, is_graph=is_graph)
    if output != "table":
        write_data(_why_data(replace(told, next=steps)), output)
        return
    write(str(replace(told, next=[])))
    write_next(*steps)


def cancel(
    thread: ThreadId,
    /,
    *,
    reason: str = "",
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """End the unfinished run of a thread.

    Whoever works on it is refused from then on, and stops. What it did stays in the log.

    Parameters
    ----------
    reason
        Why; it is kept with the end of the run.
    """
    with opened_store(at) as store:
        done = store.cancel(thread_of(store, thread, user), reason=reason)
    text = f"cancelled          {done.id} of thread {shown(done.thread)}"
    if output != "table":
        write_data(info_data(done), output)
    else:
        write(text)


def signal(
    thread: ThreadId,
    name: str,
    value: str | None = None,
    /,
    *,
    key: str | None = None,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
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
    sent = parse_json(value, "the value")
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        store.signal(found, name, sent, key=key)
    if output == "table":
        write(f"sent               {shown(name)} to thread {shown(found.id)}")
    else:
        write_data({"thread": found.id, "signal": name, "value": sent}, output)


def start(
    handler: str,
    thread: str,
    /,
    *,
    input: str | None = None,
    key: str | None = None,
    delay: timedelta | None = None,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Queue a run of a handler in a thread, which is made if there is none.

    A worker that registers the handler takes it up, or `perdure resume` does here and now.

    Parameters
    ----------
    handler
        The name that the handler is registered under.
    thread
        The whole id of the thread; a new one belongs to --user, or to nobody.
    input
        What the run is given, as JSON.
    key
        The same key again is the same run.
    delay
        Start it this much later, such as 10m.
    """
    given = parse_json(input, "--input")
    with opened_store(at) as store:
        when = None if delay is None else datetime.now(UTC) + delay
        try:
            where = thread_of(store, thread, user, exact=True)
        except NotFoundError:
            where = store.thread(thread, user=None if user is None else user_of(user, store))
        info = store.start(handler, given, thread=where, key=key, at=when).info()
    if output != "table":
        write_data(info_data(info), output)
        return
    write(f"{info.status:<18} {info.id} of thread {shown(info.thread)}")
    write_next(at.hint("resume", info.thread, user=user, options=handlers_option(at)))


def info_data(info: RunInfo) -> dict[str, Any]:
    """A run for programs."""
    return fields_of_struct(info, "input", "result")


def _why_data(told: Why) -> dict[str, Any]:
    run = info_data(told.run) if told.run else None
    return fields_of_struct(told) | {"run": run, "effects": [fields_of_struct(each, "args") for each in told.effects]}


def _lines(found: Sequence[RunInfo]) -> Iterable[tuple[str, str]]:
    short = short_ids(each.id for each in found)
    head, *lines = table([_COLUMNS, *(_row(each, short[each.id]) for each in found)], frozenset({"tries"}))
    yield head, "bold"
    yield from ((line, _STYLES.get(info.status, "")) for line, info in zip(lines, found, strict=True))


def _advice(found: Sequence[RunInfo], at: ThreadOptions, user: str | None) -> list[str]:
    """What to type about the newest run that a person has to do something about."""
    left = next((each for each in found if each.status in _LEFT), None)
    if left is None:
        return []
    return [at.hint("why", left.thread, user=user if left.user is None else str(left.user))]


def _row(info: RunInfo, short: str) -> tuple[str, ...]:
    user = None if info.user is None else str(info.user)
    when = info.updated_at.strftime("%Y-%m-%d %H:%M:%SZ")
    names = (shown(short_thread(info.thread)), shown(user), shown(info.agent), short)
    return (info.status, *names, when, str(info.attempts), _said(info))


def _said(info: RunInfo) -> str:
    """How it ended, or why it has not."""
    if info.quarantined and info.status not in (FINISHED, CANCELLED):
        return "imported: nothing of it runs until you trust the thread"
    if info.error:
        return shown(" ".join(info.error.split()))
    return "" if info.result is None else shortened(info.result)


def next_of(
    thread: str, run: RunInfo | None, pauses: Sequence[Pause], at: ThreadOptions, user: str | None, *,
    quarantined: bool, is_graph: bool,
) -> list[str]:  # fmt: skip
    """What to type about a thread."""
    if quarantined:
        steps: list[dict[str, str | bool]] = [{"--dry-run": True}, {}]
        return [at.hint("trust", thread, user=user, options=each) for each in steps]
    asked = [step for each in pauses for step in decide_hints(each, at)]
    resume = at.hint("resume", thread, user=user, options=handlers_option(at))
    if run is None:  # an interrupt of a graph is no run
        return asked or ([resume] if is_graph else [])
    if run.status not in _LEFT:
        return []
    if asked and run.status != DECIDED:
        return asked
    if run.agent is None:  # a block of code: only the program that has it can continue
        return [*asked, *(at.hint(word, thread, user=user) for word in ("timeline", "cancel"))]
    return [resume, *asked, *(at.hint(word, thread, user=user) for word in ("timeline", "cancel"))]
