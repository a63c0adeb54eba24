"""Taking up a run: claim the thread, decide what to do by its log, and hand out the run."""

from __future__ import annotations

import msgspec
from msgspec import Raw
from msgspec.structs import replace

from perdure.checkpoints.requests import Request
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, KeyReusedError, NotFoundError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.payload import encode_body
from perdure.core.quarantine import check_run
from perdure.core.resume import Next, Unfinished, attempt_after, next_step
from perdure.core.runs import (
    CANCELLED,
    FINISHED,
    RUNNING,
    Current,
    Ended,
    Resumed,
    Started,
    end_key,
    input_key,
    run_key,
)
from perdure.core.threads import LANGGRAPH, ThreadPatch, ThreadRow, resume_graph
from perdure.core.vocabulary import one_of
from perdure.runtime.journal import Journal
from perdure.runtime.leases import Held
from perdure.runtime.mending import mend
from perdure.runtime.options import check_traceback
from perdure.runtime.owner import process_name
from perdure.runtime.rerunning import as_rerun, original_of
from perdure.runtime.run import Run
from perdure.runtime.runtime import Runtime

_WAYS = ("resume", "fail", "abandon")
_AGAIN = 1.0  # seconds


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """The run that somebody asks for."""

    key: str | None = None
    input: bytes | None = None  # encoded; None: not given
    name: str | None = None  # of a handler
    unfinished: Unfinished = "resume"
    actor: str | None = None
    worker: str | None = None  # the name of the worker that takes it up
    patch: ThreadPatch = ThreadPatch()  # of a thread that is made now
    accept: bool = False  # code that asks for something else than the log recorded is let
    given: bool = False  # a run that is taken up gets this input from now on
    rerun: str | None = None
    effects: str = ""
    only_resume: bool = False  # nothing is started
    traceback: bool | None = None  # whether failures keep theirs; None: as the store says
    joins: bool = False  # of a run that another owner ends meanwhile, the result is read off the log


def wanted(
    key: str | None, input: bytes | None, unfinished: str, changed: str, actor: str | None, patch: ThreadPatch,
    traceback: bool | None = None,
) -> Wanted:  # fmt: skip
    """The same from a caller's words; raise `InvalidInputError` for what cannot be."""
    one_of(unfinished, _WAYS, "unfinished", InvalidInputError)
    accept = accepts(changed)
    return Wanted(
        key=key, input=input, unfinished=unfinished, actor=actor, patch=patch, accept=accept,  # pyright: ignore[reportArgumentType]
        traceback=check_traceback(traceback),
    )  # fmt: skip


def accepts(changed: str) -> bool:
    """Whether code that asks for something else than the log recorded is let; raise `InvalidInputError`."""
    return one_of(changed, ("refuse", "accept"), "changed", InvalidInputError) == "accept"


async def begin(runtime: Runtime, key: ThreadKey, ask: Wanted, wait: float) -> Run:
    """Start or resume a run under a lease of its own, or open one that is over, which needs none.

    Waits up to `wait` seconds for another owner. Raises `LeaseHeldError`, `UnfinishedRunError`, `QuarantinedError`.
    """
    over = await _over(runtime, key, ask)
    if over is not None:
        return over
    row, made = await runtime.storage.thread(key), None
    if row is not None:
        check_run(row)
    else:
        made = await _make(runtime, key, ask)
    held = await runtime.leases.claim(key, wait, row.lease_owner if row else None)
    try:
        died = row is not None and row.lease_owner is not None
        return await _taken_up(runtime, held, ask, made, died=died, joined=_unfinished(row) if ask.joins else 0)
    except NotFoundError:
        await runtime.leases.release(held)
        raise
    except BaseException:
        await runtime.leases.release(held, _looked_at(runtime, row))
        raise


def _unfinished(row: ThreadRow | None) -> int:
    """Where the run begins that goes on in a thread; 0 for none."""
    return 0 if row is None or row.status in (FINISHED, CANCELLED) else row.run


def _looked_at(runtime: Runtime, row: ThreadRow | None) -> int | None:
    """When somebody has to look at a thread that was claimed in vain: its timer went with the claim."""
    if row is None or row.lease_owner is None:
        return row.wake_at if row else None
    return runtime.in_seconds(_AGAIN)


async def _over(runtime: Runtime, key: ThreadKey, ask: Wanted) -> Run | None:
    """A run of this key that is over."""
    named = await runtime.standing.named(key, ask.key) if ask.key is not None else None
    row = await runtime.storage.thread(key) if named and named.is_over else None
    if named is None or row is None:
        return None
    check_run(row)  # what a stranger's file says a run gave is no result
    await _check_key(runtime, row, named, ask)
    return _read_off(runtime, named, row, ask)


def _read_off(runtime: Runtime, over: Current, row: ThreadRow, ask: Wanted) -> Run:
    journal = _journal(runtime, Held(row.key, 0, "", runtime.leases.ttl), row, ask)
    journal.read_from(over.version, row.head)
    return Run(runtime, journal, over, resumed=True, over=True)


async def _make(runtime: Runtime, key: ThreadKey, ask: Wanted) -> str | None:
    """A thread needs a log before it can be claimed: its first entry is the start of the run. Return its id."""
    if ask.only_resume:
        raise NotFoundError(f"thread {key.id!r}", "start a run in it first")
    started = _started(runtime, ask)
    entry = runtime.engine.entry(EntryKind.RUN_STARTED, encode_body(started), ask.actor)
    patch = replace(ask.patch, status=RUNNING, attempts=1)
    request = Request(key=_idem(ask), actor=ask.actor, patch=patch, after_run=0)
    try:
        await runtime.engine.speak(key, [entry], request)
    except (KeyReusedError, VersionConflictError):  # somebody else made one at the same moment, which stands
        return None
    return started.run


async def _taken_up(
    runtime: Runtime, held: Held, ask: Wanted, made: str | None, *, died: bool, joined: int = 0
) -> Run:  # fmt: skip
    row = await runtime.storage.thread(held.key)
    if row is None:
        raise NotFoundError(f"thread {held.key.id!r}")
    newest = await runtime.standing.newest(row)
    named = await runtime.standing.named(held.key, ask.key) if ask.key is not None else None
    if named is not None:
        await _check_key(runtime, row, named, ask)
    ended = newest if newest is not None and newest.version == joined and ask.input is None else named
    if ended is not None and ended.is_over:  # while we waited for its owner
        await runtime.leases.release(held)
        return _read_off(runtime, ended, row, ask)
    fits = newest is not None and not newest.is_over and await _was_given(runtime, row, newest, ask)
    given = None if fits else ask.input
    if newest is not None and newest.started.run == made:
        step = Next(resume=newest)
    else:
        step = next_step(
            newest, named, row.status, ask.unfinished, key=ask.key, input=given, thread_id=held.key.id,
            untouched=_is_untouched(row, newest),
        )  # fmt: skip
    journal = _journal(runtime, held, row, ask)
    if step.resume is None and ask.only_resume:
        raise NotFoundError(f"an unfinished run of thread {held.key.id!r}", _advice(row, newest))
    if step.resume is None:
        try:
            return await _started_now(runtime, journal, row, ask, step, newest)
        except (KeyReusedError, VersionConflictError):  # `store.start` had looked before we claimed: its run stands
            return await _taken_up(runtime, held, replace(ask, unfinished=_kept(ask)), None, died=False)
    return await _resumed(runtime, journal, row, ask, step.resume, died=died)


async def _check_key(runtime: Runtime, row: ThreadRow, named: Current, ask: Wanted) -> None:
    """Raise `KeyReusedError` when the run of a key is another one: its answer would be taken for one to this input."""
    other = ask.name is not None and ask.name != named.started.name
    if other or not await _was_given(runtime, row, named, ask):
        raise KeyReusedError(row.key.id, ask.key or "", named.version)


async def _was_given(runtime: Runtime, row: ThreadRow, run: Current, ask: Wanted) -> bool:
    """Whether a run has the input that is asked for: its first one, or one that took its place."""
    if ask.input is None or ask.given or ask.input == bytes(run.started.input):
        return True
    return ask.input in map(bytes, await runtime.standing.inputs(row, run))


def _kept(ask: Wanted) -> Unfinished:
    """A run that came in between is not left behind: nobody has seen it who could want that."""
    return "fail" if ask.unfinished == "abandon" else ask.unfinished


async def _started_now(
    runtime: Runtime, journal: Journal, row: ThreadRow, ask: Wanted, step: Next, newest: Current | None
) -> Run:  # fmt: skip
    started = _started(runtime, ask)
    if step.abandon is not None:
        await abandon(journal, step.abandon, f"left behind for {started.run}")
    if step.abandon is not None or (newest is not None and newest.end_kind is EntryKind.RUN_CANCELLED):
        await mend(journal, None)
    entry = runtime.engine.entry(EntryKind.RUN_STARTED, encode_body(started), ask.actor)
    patch = ThreadPatch(status=RUNNING, attempts=1, agent=ask.name)
    done = await journal.write([entry], key=_idem(ask), patch=patch, after_run=row.run)
    current = Current(version=done.version, started=started, micros=done.row.updated, actor=ask.actor)
    run = Run(
        runtime, journal, current, resumed=False, over=False, handled=ask.name is not None, traceback=ask.traceback
    )
    await as_rerun(runtime, run, row)
    return run


async def _resumed(
    runtime: Runtime, journal: Journal, row: ThreadRow, ask: Wanted, current: Current, *, died: bool
) -> Run:  # fmt: skip
    """Go on with a run. One that was just made, and by nobody else, has nothing to read."""
    fresh = _is_untouched(row, current)
    given = await runtime.standing.inputs(row, current) if not fresh else []
    handled, attempt = current.started.name is not None, 1
    if not fresh:
        progressed = await runtime.standing.progressed(row)
        attempt = attempt_after(row.attempts, row.status, progressed=progressed, died=died)
        new = Raw(ask.input) if ask.given and ask.input is not None else None
        told = Resumed(current.started.run, attempt, journal.held.owner, new is not None, new or Raw(b"\xc0"))
        entry = journal.entry(EntryKind.RUN_RESUMED, told)
        patch = ThreadPatch(status=RUNNING, attempts=attempt, agent=current.started.name)
        key = None if new is None else input_key(current.started.run, len(given) + 1)
        await journal.write([entry], key=key, patch=patch)
        await mend(journal, await _began(runtime, row, current))
        given += [] if new is None else [new]
    if given:
        current = replace(current, started=replace(current.started, input=given[-1]))
    journal.read_from(current.version, row.head)
    run = Run(
        runtime, journal, current, resumed=not fresh, over=False, accept=ask.accept, handled=handled,
        traceback=ask.traceback,
    )  # fmt: skip
    run.attempt = attempt
    await as_rerun(runtime, run, row)
    return run


async def _began(runtime: Runtime, row: ThreadRow, current: Current) -> int:
    """Where a run began. One that is done again goes on with the calls of the original, on its fork."""
    rerun = current.started.rerun is not None and row.parent_uid
    return (await original_of(runtime, row, row.parent_version)).version if rerun else current.version


def _is_untouched(row: ThreadRow, newest: Current | None) -> bool:
    """Whether a run was just made, and nobody had the thread before us."""
    return newest is not None and row.head == newest.version and row.status == RUNNING and row.epoch <= 1


async def abandon(journal: Journal, current: Current, why: str) -> None:
    """End a run that nobody goes on with."""
    run = current.started.run
    entry = journal.entry(EntryKind.RUN_CANCELLED, Ended(run, text=why))
    await journal.write([entry], key=end_key(run), patch=ThreadPatch(status=CANCELLED, wake_at=0))


def _journal(runtime: Runtime, held: Held, row: ThreadRow, ask: Wanted) -> Journal:
    journal = Journal(runtime.engine, runtime.leases, held, row.uid, ask.actor or process_name(ask.worker))
    journal.state_version = row.state_version
    return journal


def started_by(runtime: Runtime, name: str | None, key: str | None, input: bytes | None) -> Started:
    """A new run."""
    given = Raw(b"\xc0") if input is None else Raw(input)
    return Started(f"run_{runtime.engine.ids.sortable()}", name, key, given)


def _started(runtime: Runtime, ask: Wanted) -> Started:
    return replace(started_by(runtime, ask.name, ask.key, ask.input), rerun=ask.rerun, effects=ask.effects)


def _idem(ask: Wanted) -> str | None:
    return None if ask.key is None else run_key(ask.key)


def _advice(row: ThreadRow, newest: Current | None) -> str:
    if newest is None and row.agent == LANGGRAPH:
        return f"it is a graph's: call {resume_graph(row.key.id)} in the program that has the graph"
    return "start one first"
