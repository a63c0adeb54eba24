"""`perdure threads`, `show`, `state`, `messages`, `history` and `tree`: what a store holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Annotated, Any, cast

import msgspec
from cyclopts import Parameter

from perdure.app.asking import MessageLine
from perdure.app.branches import Branch
from perdure.app.store import parts_of
from perdure.app.thread import ThreadInfo
from perdure.cli.common_options import (
    HERE,
    Output,
    Owned,
    Owner,
    ThreadId,
    ThreadOptions,
    fields_of_struct,
    inner,
    opened_store,
    run_in,
    shortened,
    user_of,
)
from perdure.cli.durations import ago
from perdure.cli.lookup import point_of, short_ids, short_thread, thread_of
from perdure.cli.output import write, write_data, write_lines, write_next, write_plain_json
from perdure.cli.pauses import now, question_lines
from perdure.cli.runs import info_data, next_of
from perdure.core import steps
from perdure.core.checkpoint import Checkpoint
from perdure.core.document import Document, DoesNotFit, closed
from perdure.core.errors import InvalidPathError, NotFoundError
from perdure.core.printable import printable
from perdure.core.render import to_json
from perdure.core.retention_words import shown, table
from perdure.core.runs import DECIDED, PAUSED
from perdure.core.threads import LANGGRAPH
from perdure.core.weights import shown_bytes
from perdure.runtime.infos import RunInfo
from perdure.runtime.why import traceback_lines
from perdure.sync import Perdure
from perdure.sync.thread import Thread

PointArg = Annotated[
    str, Parameter(help="THREAD, or THREAD@REF for an earlier point (ticket-42@12, ticket-42@before-error).")
]
RefArg = Annotated[
    str | None,
    Parameter(help="The ref on its own, for an id that has an @ in it: @12, @-1, @tag:good, @2h, @before-error."),
]
_THREADS = ("thread", "user", "status", "agent", "version", "changed", "name")
_HISTORY = ("checkpoint", "version", "kind", "status", "at", "note")
_NEWEST_CHECKPOINTS = 3
_STYLES = {"input_required": "cyan", "failed": "red", "dead": "red", "running": "green"}


def threads(
    *,
    user: Owned = None,
    agent: str | None = None,
    status: str | None = None,
    tag: str | None = None,
    search: str | None = None,
    limit: int = 50,
    offset: int = 0,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """List threads, those that changed last first. Their states are not read.

    Parameters
    ----------
    agent
        Only threads of this agent.
    status
        Only threads of this status, such as input_required.
    tag
        Only threads with this tag.
    search
        Only threads whose id or name has this text in it, in whatever case.
    limit
        At most this many.
    offset
        Leave out the first that many.
    """
    with opened_store(at) as store:
        found = store.threads(
            limit, user=user_of(user, store), agent=agent, status=status, tag=tag, search=search, offset=offset
        )
    if output != "table":
        write_data([thread_data(each) for each in found], output)
    else:
        head, *lines = table([_THREADS, *map(_thread_row, found)], frozenset({"version"}))
        write_lines([(head, "bold"), *zip(lines, (_STYLES.get(each.status, "") for each in found), strict=True)])
    if limit and len(found) == limit:
        filters = {"--user": user, "--agent": agent, "--status": status, "--tag": tag, "--search": search}
        write_next(at.hint("threads", options={**filters, "--offset": str(offset + limit), "--limit": str(limit)}))
    elif found and output == "table":
        first = found[0]
        write_next(at.hint("show", first.id, user=None if first.user is None else str(first.user)))


def show(thread: ThreadId, /, *, user: Owner = None, at: ThreadOptions = HERE, output: Output = "table") -> None:
    """Show a thread: its status, run, questions, checkpoints and sizes."""
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        info, run = found.info(), newest_run(store, found)
        # Of a long log, reading what is not there costs as much as reading all of it.
        pauses = store.pauses(found) if info.status in (PAUSED, DECIDED) else []
        points = found.history(_NEWEST_CHECKPOINTS)
    is_graph = info.agent == LANGGRAPH and info.status == DECIDED
    quarantined = info.quarantined is not None
    hints = next_of(info.id, run, pauses, at, user, quarantined=quarantined, is_graph=is_graph)
    hints = hints or [at.hint("timeline", info.id, user=user)]
    if output != "table":
        data = thread_data(info) | {
            "run": info_data(run) if run else None, "checkpoints": [point_data(each) for each in points],
            "pauses": [fields_of_struct(each, "args") for each in pauses], "next": hints,
        }  # fmt: skip
        write_data(data, output)
        return
    write_lines(_thread_lines(info))
    if run is not None:
        write_lines(_run_lines(run))
    for each in pauses:
        write_lines(question_lines(each))
    for point in points:
        write(f"{'checkpoint':<18} {point.id[:12]} @{point.version} {_marks(point)}".rstrip())
    write_next(*hints)


def state(
    point: PointArg,
    ref: RefArg = None,
    /,
    *,
    path: str | None = None,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Print the state of a thread at a point, as JSON.

    What JSON cannot carry is an object with one key such as $datetime. A table is the same JSON with line breaks.

    Parameters
    ----------
    path
        Only this part of it, such as context.city or messages.0.
    """
    with opened_store(at) as store:
        document = document_at(store, *point_of(store, point, ref, user))
        node = document.root if path is None else _part(document, path)
        text = to_json(bytes(closed(node)))
    if output == "table":
        write_plain_json(text)
    else:
        write_data(msgspec.Raw(text), output)


def messages(
    thread: ThreadId,
    /,
    *,
    limit: int = 20,
    search: str | None = None,
    role: str | None = None,
    before: int | None = None,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Print the newest messages of a thread, oldest first.

    Parameters
    ----------
    limit
        At most this many, the newest.
    search
        Only messages with all of these words.
    role
        Only messages of this role, such as user.
    before
        Only messages before this number.
    """
    filters: dict[str, Any] = {} if role is None else {"role": role}
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        lines = found.message_lines(limit, search, before=before, **filters)
    if output != "table":
        write_data([_message_data(each) for each in lines], output)
    else:
        write_lines(line for each in lines for line in _message_lines(each))
    if limit and len(lines) == limit:
        options = {"--before": str(lines[0].number), "--limit": str(limit), "--search": search, "--role": role}
        write_next(at.hint("messages", found.id, user=user, options=options))


def history(
    thread: ThreadId,
    /,
    *,
    kind: str | None = None,
    status: str | None = None,
    before: str | None = None,
    limit: int = 50,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """List the checkpoints of a thread, newest first. Their states are not read.

    Parameters
    ----------
    kind
        Only checkpoints of this kind, such as manual.
    status
        Only checkpoints with this status.
    before
        Only checkpoints older than that of this id.
    limit
        At most this many.
    """
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        points = found.history(limit, before, kind, status)
    if output != "table":
        write_data([point_data(each) for each in points], output)
    else:
        short = short_ids(each.id for each in points)
        rows = [(short[each.id], f"@{each.version}", shown(each.kind), *_point_cells(each)) for each in points]
        head, *lines = table([_HISTORY, *rows], frozenset({"version"}))
        write_lines([(head, "bold"), *((line, "") for line in lines)])
    if limit and len(points) == limit:
        options = {"--before": points[-1].id, "--limit": str(limit), "--kind": kind, "--status": status}
        write_next(at.hint("history", found.id, user=user, options=options))


def tree(thread: ThreadId, /, *, user: Owner = None, at: ThreadOptions = HERE, output: Output = "table") -> None:
    """Draw the forks of a thread: which began where. A * marks the thread that was asked about."""
    with opened_store(at) as store:
        found = thread_of(store, thread, user).tree()
    if output == "table":
        write(str(found))
    else:
        write_data(found if output == "json" else list(_branches(found, None)), output)


def document_at(store: Perdure, thread: Thread, ref: str | None) -> Document:
    """The state at a point as it is stored: no class of the user's is built."""

    async def read() -> Document:
        parts = parts_of(inner(store))
        handle: Any = thread._thread  # pyright: ignore[reportPrivateUsage]
        row = await handle._row(await handle._found())
        version = row.head if ref is None else await parts.points.version(row, ref)
        document = await parts.engine.at(row.key, version, row.uid)
        if document.root is None:
            raise NotFoundError(f"a state at version {version} of thread {row.key.id!r}")
        return document

    return run_in(store, read())


def path_in(document: Document, text: str) -> steps.Path:
    """A path as a person types it: a number is an index where the state has a list. Negative ones count from the end.

    A path may go on where the state ends: a change makes what is missing.
    """
    path: list[steps.Step] = []
    for step in steps.parse(text):
        try:
            node = document.reach(tuple(path))
        except DoesNotFit:
            node = None
        if isinstance(node, list) and isinstance(step, str) and step.removeprefix("-").isdecimal():
            items = cast("list[Any]", node)
            step = int(step) + (len(items) if step.startswith("-") else 0)
        path.append(step)
    return tuple(path)


def _part(document: Document, path: str) -> Any:
    try:
        return document.reach(path_in(document, path))
    except DoesNotFit as exc:
        raise InvalidPathError(path, f"leads nowhere: {exc}") from exc


def newest_run(store: Perdure, thread: Thread) -> RunInfo | None:
    """The newest run of a thread; None where there was none."""
    parts = parts_of(inner(store))

    async def read() -> RunInfo | None:
        handle: Any = thread._thread  # pyright: ignore[reportPrivateUsage]
        row = await handle._row(await handle._found())
        return await parts.running.info(row.key, parts.users.shown) if row.run else None

    return run_in(store, read())


def thread_data(info: ThreadInfo) -> dict[str, Any]:
    """A thread for programs."""
    return fields_of_struct(info, "metadata")


def point_data(point: Checkpoint) -> dict[str, Any]:
    """A checkpoint for programs, without the state."""
    names = ("id", "version", "kind", "status", "timestamp", "note", "agent_id", "parent_checkpoint_id", "thread_id")
    return {name: getattr(point, name) for name in names} | {
        "metadata": fields_of_struct(point, "metadata")["metadata"]
    }


def _thread_row(info: ThreadInfo) -> tuple[str, ...]:
    user = None if info.user is None else str(info.user)
    status = f"{info.status} (quarantined)" if info.quarantined else info.status
    cells = (shown(short_thread(info.id)), shown(user), shown(status), shown(info.agent), f"@{info.version}")
    return (*cells, _time(info.updated), "" if info.name is None else shown(info.name))


def _thread_lines(info: ThreadInfo) -> Iterable[tuple[str, str]]:
    yield f"{'thread':<18} {shown(info.id)}", "bold"
    rows: dict[str, str | None] = {
        "user": None if info.user is None else shown(str(info.user)),
        "agent": None if info.agent is None else shown(info.agent),
        "name": None if info.name is None else shown(info.name),
        "tags": ", ".join(map(shown, info.tags)) or None,
        "status": shown(info.status),
        "version": f"@{info.version}, state of @{info.state_version}",
        "forked from": None if info.forked_from is None else f"@{info.forked_from} of its parent",
        "created": f"{_time(info.created)} ({ago(info.created, now())})",
        "changed": f"{_time(info.updated)} ({ago(info.updated, now())})",
        "metadata": shortened(info.metadata, 200) if info.metadata else None,
        "size": None if info.sizes is None else shown_bytes(info.sizes.entry_bytes + info.sizes.snapshot_bytes),
        "quarantined": None if info.quarantined is None else f"since {_time(info.quarantined)}: nothing of it runs",
    }
    yield from ((f"{name:<18} {value}", _STYLES.get(value, "")) for name, value in rows.items() if value is not None)


def _run_lines(run: RunInfo) -> Iterable[tuple[str, str]]:
    of = "a block of code" if run.agent is None else shown(run.agent)
    tries = f", {run.attempts} tries" if run.attempts > 1 else ""
    yield f"{'run':<18} {run.id[:12]} of {of} is {run.status}{tries}", _STYLES.get(run.status, "")
    if run.input is not None:
        yield f"{'input':<18} {shortened(run.input, 200)}", ""
    if run.result is not None:
        yield f"{'result':<18} {shortened(run.result, 200)}", ""
    if run.error:
        yield f"{'error':<18} {printable(' '.join(run.error.split()))}", "red"
        yield from ((line, "dim") for line in traceback_lines(run.traceback))


def _marks(point: Checkpoint) -> str:
    return " ".join([shown(point.kind), *_point_cells(point)]).rstrip()


def _point_cells(point: Checkpoint) -> tuple[str, str, str]:
    note = "" if point.note is None else shown(point.note)
    return ("-" if point.status is None else shown(point.status), _time(point.timestamp), note)


def _message_data(line: MessageLine) -> dict[str, Any]:
    names = ("number", "id", "role", "node", "run", "at", "thread_id", "user")
    return {name: getattr(line, name) for name in names} | {"message": msgspec.Raw(to_json(line.body))}


def _message_lines(line: MessageLine) -> Iterable[tuple[str, str]]:
    """Who said it, then what: each line of a text begins with |, so that none can pass for one of ours."""
    named = "" if line.node is None else f" {shown(line.node)}"
    yield f"#{line.number} {shown(line.role)}{named}, {_time(line.at)}", "bold"
    yield from ((f"  | {printable(each)}".rstrip(), "") for each in _content(line))


def _content(line: MessageLine) -> Sequence[str]:
    rendered = to_json(line.body).decode()
    value = msgspec.json.decode(rendered)
    if isinstance(value, str):
        return value.split("\n")
    content: Any = cast("dict[str, Any]", value).get("content") if isinstance(value, dict) else None
    others = set(cast("dict[str, Any]", value)) - {"role", "content", "id"} if isinstance(value, dict) else set[str]()
    if isinstance(content, str) and content and not others:
        return content.split("\n")
    return ([*content.split("\n")] if isinstance(content, str) and content else []) + [rendered]


def _branches(branch: Branch, parent: str | None) -> Iterable[dict[str, Any]]:
    """A row for each thread of a tree."""
    row = {name: getattr(branch, name) for name in branch.__struct_fields__ if name != "forks"}
    yield {**row, "parent": parent}
    for fork in branch.forks:
        yield from _branches(fork, branch.thread_id)


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")
