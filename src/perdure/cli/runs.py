"""`perdure runs URL`, `why`, `cancel` and `signal`: what became of runs, and what to do about one."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from msgspec.structs import replace
from rich.console import Console
from rich.text import Text

from perdure.app.options import UserIdType
from perdure.cli.opened import Output, as_json
from perdure.cli.stores import opened_store, user_of
from perdure.cli.values import brief, data, typed
from perdure.core.retention_words import shown, table
from perdure.core.runs import DEAD, DECIDED, FAILED, INTERRUPTED, PAUSED, RunStatus
from perdure.runtime.infos import RunInfo
from perdure.runtime.why import Why

_COLUMNS = ("status", "thread", "user", "agent", "run", "changed", "tries", "")
_STYLES = {DEAD: "red", FAILED: "red", INTERRUPTED: "yellow", PAUSED: "cyan", DECIDED: "cyan"}
_LEFT = frozenset({INTERRUPTED, FAILED, DEAD, PAUSED, DECIDED})  # somebody has to go on with it


def runs(
    url: str,
    /,
    *,
    status: RunStatus | None = None,
    agent: str | None = None,
    user: str | None = None,
    limit: int = 50,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """List the newest run of each thread: what became of it, and why.

    The threads that changed last come first.

    Parameters
    ----------
    url
        The address of the storage; nothing is changed there.
    status
        Only runs of this status.
    agent
        Only runs of this handler.
    user
        Only threads of this user; "" for those that belong to nobody.
    limit
        At most this many.
    namespace
        The namespace of the threads.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    console = Console(highlight=False)
    with opened_store(url, namespace, schema, user_id_type) as store:
        found = store.runs(limit, status=status, agent=agent, user=user_of(user, user_id_type))
    if output == "json":
        console.print(Text(as_json([info_data(each) for each in found])), soft_wrap=True)
        return
    for line, style in _lines(found):
        console.print(Text(line, style=style), soft_wrap=True)


def why(
    url: str,
    thread: str,
    /,
    *,
    user: str | None = None,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """Say what happened to a thread, and what to type next.

    What failed and where, the last good point, what tools did outside so far, what nobody can tell, what is asked.

    Parameters
    ----------
    url
        The address of the storage; nothing is changed there.
    thread
        The id of the thread.
    user
        Whose thread it is, where several users have one of this id; "" for nobody's.
    namespace
        The namespace of the thread.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    console = Console(highlight=False)
    whose = user_of(user, user_id_type)
    with opened_store(url, namespace, schema, user_id_type) as store:
        told = store.why(thread, user=whose)
        pauses = [pause.id for pause in store.pauses(thread, user=whose)]
    told = replace(told, next=_next(told, pauses, url, _place(user, namespace, schema, user_id_type)))
    console.print(Text(str(told) if output == "text" else as_json(_why_data(told))), soft_wrap=True)


def cancel(
    url: str,
    thread: str,
    /,
    *,
    reason: str = "",
    user: str | None = None,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """End the unfinished run of a thread.

    Whoever works on it is refused from then on, and stops. What it did stays in the log.

    Parameters
    ----------
    url
        The address of the storage.
    thread
        The id of the thread.
    reason
        Why; it is kept with the end of the run.
    user
        Whose thread it is, where several users have one of this id; "" for nobody's.
    namespace
        The namespace of the thread.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    with opened_store(url, namespace, schema, user_id_type) as store:
        done = store.cancel(thread, user=user_of(user, user_id_type), reason=reason)
    text = f"cancelled          {done.id} of thread {shown(done.thread)}"
    Console(highlight=False).print(Text(text if output == "text" else as_json(info_data(done))), soft_wrap=True)


def signal(
    url: str,
    thread: str,
    name: str,
    value: str | None = None,
    /,
    *,
    key: str | None = None,
    user: str | None = None,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
) -> None:
    """Send a value to the run of a thread.

    A run that waits for it goes on at once where a worker serves the storage.

    Parameters
    ----------
    url
        The address of the storage.
    thread
        The id of the thread.
    name
        The name that the run waits for.
    value
        The value as JSON; without one it is null.
    key
        The same key again sends nothing more.
    user
        Whose thread it is, where several users have one of this id; "" for nobody's.
    namespace
        The namespace of the thread.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    """
    sent = typed(value, "the value")
    with opened_store(url, namespace, schema, user_id_type) as store:
        store.signal(thread, name, sent, user=user_of(user, user_id_type), key=key)
    Console(highlight=False).print(Text(f"sent               {name} to thread {shown(thread)}"), soft_wrap=True)


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


def _row(info: RunInfo) -> tuple[str, ...]:
    user = None if info.user is None else str(info.user)
    when = info.updated_at.strftime("%Y-%m-%d %H:%M:%SZ")
    names = (shown(info.thread), shown(user), shown(info.agent), info.id)
    return (info.status, *names, when, str(info.attempts), _said(info))


def _said(info: RunInfo) -> str:
    """How it ended, or why it has not."""
    if info.error:
        return shown(" ".join(info.error.split()))
    return "" if info.result is None else brief(info.result)


def _place(user: str | None, namespace: str, schema: str | None, user_id_type: str | None) -> list[str]:
    """The options that lead to the same thread again."""
    given = {"--user": user, "--namespace": namespace or None, "--schema": schema, "--user-id-type": user_id_type}
    return [word for name, value in given.items() if value is not None for word in (name, value)]


def _next(told: Why, pauses: list[str], url: str, place: list[str]) -> list[str]:
    """What to type."""
    if told.run is None or told.run.status not in _LEFT:
        return []
    if pauses:
        without_user = place[2:] if place[:1] == ["--user"] else place
        return [
            shlex.join(["perdure", "decide", url, pause, way, "--by", "NAME", *without_user])
            for pause in pauses
            for way in ("--approve", "--deny")
        ]
    resume = shlex.join(["perdure", "resume", url, told.thread, "--handlers", "MODULE", *place])
    again = resume if told.run.agent else f"enter the block again: thread.run() of {told.thread}"
    return [again, *(shlex.join(["perdure", word, url, told.thread, *place]) for word in ("cancel", "timeline"))]
