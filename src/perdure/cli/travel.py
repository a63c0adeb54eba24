"""`perdure fork`, `rewind`, `redo`, `tag` and `rerun`: other points of a thread."""

from __future__ import annotations

import asyncio
from typing import Annotated, Any, Literal

import msgspec
from cyclopts import Parameter

from perdure.cli.common_options import (
    HERE,
    DryRun,
    Output,
    Owner,
    Several,
    ThreadId,
    ThreadOptions,
    Yes,
    confirmed,
    opened_async,
    opened_store,
    store_address,
)
from perdure.cli.handlers import handlers_named, register
from perdure.cli.inspect import PointArg, RefArg, document_at, path_in, thread_data
from perdure.cli.lookup import point_of, thread_of
from perdure.cli.output import write, write_data, write_lines, write_next
from perdure.cli.problems import OK, WAITS, UsageError
from perdure.cli.runs import info_data
from perdure.core.errors import PerdureError, RunFailedError
from perdure.core.ports import Silence
from perdure.core.retention_words import shown
from perdure.core.runs import PAUSED
from perdure.sync import Perdure
from perdure.sync.thread import Thread

Sets = Annotated[
    tuple[str, ...],
    Parameter(
        name="--set", negative="", show_default=False,
        help="PATH=VALUE: a change of the state first; JSON if it can be read as JSON, else a text. May be repeated.",
    ),
]  # fmt: skip


def fork(
    point: PointArg,
    ref: RefArg = None,
    /,
    *,
    to: str,
    set: Sets = (),
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Begin a new thread at a point of another, with changes if you like. Nothing is copied.

    Parameters
    ----------
    to
        The id of the new thread.
    """
    with opened_store(at) as store:
        thread, where = point_of(store, point, ref, user)
        changes = _changes(store, thread, where, set)
        branch = thread.fork(where, to=to)
        if changes:
            try:
                branch.update(set=changes)
            except PerdureError:
                branch.delete()  # a fork without its changes is not what was asked for
                raise
        info = branch.info()
    if output != "table":
        write_data(thread_data(info), output)
        return
    write(f"forked             {shown(thread.id)} at @{info.forked_from} to {shown(to)}, now @{info.version}")
    write_next(at.hint("compare", thread.id, to, user=user))


def rewind(
    point: PointArg,
    ref: RefArg = None,
    /,
    *,
    note: str | None = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Go back to an earlier state of a thread.

    It is an entry like any other: nothing is erased, and `perdure redo` takes it back. What tools did outside stays
    done, and is named.

    Parameters
    ----------
    note
        Why, for the log.
    """
    with opened_store(at) as store:
        thread, where = point_of(store, point, ref, user)
        if where is None:
            raise UsageError("rewind to which point? give THREAD@REF, such as ticket-42@12 or ticket-42@-2")
        preview = thread.rewind(where, dry_run=True)
        if not dry_run:
            confirmed(f"{preview}\nRewind?", yes)
            preview = thread.rewind(f"@{preview.to}", note=note)
    if output != "table":
        write_data(preview, output)
        return
    write(str(preview))
    if not dry_run:
        write_next(at.hint("redo", thread.id, user=user))


def redo(thread: ThreadId, /, *, user: Owner = None, at: ThreadOptions = HERE, output: Output = "table") -> None:
    """Take the newest rewind of a thread back."""
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        done = found.redo()
    if output == "table":
        write(str(done))
        write_next(at.hint("state", found.id, user=user))
    else:
        write_data(done, output)


def tag(
    point: PointArg,
    name: str | None = None,
    /,
    *,
    remove: Annotated[bool, Parameter(negative="", help="Take the name away.")] = False,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Give a point of a thread a name, list the names, or remove one. A point with a name is never pruned.

    Parameters
    ----------
    name
        The name; the point is then THREAD@tag:NAME. Without one, the names of the thread are listed.
    """
    with opened_store(at) as store:
        thread, ref = point_of(store, point, None, user)
        if remove:
            if name is None:
                raise UsageError("remove which name? perdure tag THREAD NAME --remove")
            thread.untag(name)
        elif name is not None:
            thread.tag(ref or f"@{thread.info().version}", name)
        tags = thread.tagged()
    if output != "table":
        write_data([{"name": each, "version": version} for each, version in tags.items()], output)
        return
    write_lines((f"@tag:{shown(each):<20} @{version}", "") for each, version in tags.items())
    if not tags:
        write("no point of this thread has a name")


def rerun(
    point: PointArg,
    ref: RefArg = None,
    /,
    *,
    handlers: str | None = None,
    agent: str | None = None,
    set: Sets = (),
    to: str | None = None,
    effects: Literal["recorded", "ask", "real"] = "recorded",
    times: int = 1,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Run again from a point, on a fork. Results that were recorded before the point are read from the log.

    The exit code is 6 when the new run waits for a person.

    Parameters
    ----------
    handlers
        The module (or file.py) that registers the handlers; without it worker.handlers of the configuration.
    agent
        Another handler than the one that ran.
    to
        The id of the fork.
    effects
        What tools after the point do: give their recorded results, ask a person, or run for real.
    times
        How many times, each on a fork of its own.
    """
    named = handlers_named(handlers, at)
    with opened_store(at) as store:
        thread, where = point_of(store, point, ref, user)
        changes = _changes(store, thread, where, set)
        options = {"agent": agent, "set": changes, "to": to, "effects": effects, "times": times}
    done = asyncio.run(_rerun(at, named, thread, where, options))
    if output == "table":
        write_lines((f"{each.status:<18} {each.id[:12]} of thread {shown(each.thread)}", "") for each in done)
        write_next(at.hint("compare", thread.id, done[-1].thread, user=user))
    else:
        write_data([info_data(each) for each in done], output)
    return WAITS if any(each.status == PAUSED for each in done) else OK


async def _rerun(at: ThreadOptions, handlers: str, thread: Thread, ref: str | None, options: dict[str, Any]) -> Any:
    async with opened_async(store_address(at), Silence()) as store:
        await register(store, handlers)
        try:
            return await store.thread(thread.id, user=thread.user).rerun(ref, **options)
        except PerdureError:
            raise
        except Exception as exc:  # what the handler raised: it is in the log of the fork by now
            raise RunFailedError(f"on a fork of {thread.id!r}", type(exc).__name__, str(exc)) from exc


def _changes(store: Perdure, thread: Thread, ref: str | None, sets: Several) -> dict[Any, Any]:
    """The changes that were typed, with paths as the state at this point has them."""
    if not sets:
        return {}
    document = document_at(store, thread, ref)
    changes: dict[Any, Any] = {}
    for text in sets:
        path, equals, value = text.partition("=")
        if not equals or not path:
            raise UsageError(f"--set takes PATH=VALUE, such as context.city=Rome, not {text!r}")
        changes[path_in(document, path)] = _value(value)
    return changes


def _value(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
