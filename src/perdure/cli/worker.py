"""`perdure worker MODULE` and `perdure resume THREAD`: runs of a person's own handlers, from the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Generator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib import import_module
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from perdure.app.config.resolve import resolve_config
from perdure.cli.common_options import (
    HERE,
    Handlers,
    OpenedWith,
    Output,
    Owner,
    ThreadId,
    ThreadOptions,
    as_json,
    opened_async,
    opened_store,
    parse_json,
    shortened,
    store_address,
    warn_of_exposed_files,
)
from perdure.cli.handlers import handlers_named, register, register_graphs
from perdure.cli.lookup import locate, thread_of
from perdure.cli.output import OutputFormat, write, write_data, write_error, write_next
from perdure.cli.pauses import decide_hints
from perdure.cli.problems import OK, WAITS, UsageError
from perdure.cli.runs import info_data
from perdure.core.errors import PerdureError, RunFailedError
from perdure.core.ports import Silence
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.runs import PAUSED
from perdure.core.threads import LANGGRAPH
from perdure.runtime.infos import RunInfo
from perdure.runtime.recovery import RUN_FAILED
from perdure.runtime.worker_log import LOGGER


def worker(
    module: Handlers | None = None,
    /,
    *,
    handlers: Handlers | None = None,
    concurrency: int | None = None,
    grace: float | None = None,
    lease_ttl: float | None = None,
    name: str | None = None,
    traceback: bool | None = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
    at: ThreadOptions = HERE,
) -> None:
    """Take up runs as they become due, until SIGTERM.

    The module is imported and its register(store) called, which registers the handlers. On SIGTERM nothing more is
    taken up, and what is under way may end; the rest is given back for another worker.

    Parameters
    ----------
    handlers
        The same as the argument.
    concurrency
        How many runs at once (10).
    grace
        Seconds that runs may take to end after SIGTERM (30).
    lease_ttl
        Seconds that a run may go without a sign of life before others take over (30).
    name
        What the worker is called in the log, before the machine and the process.
    traceback
        Whether failures are recorded with their traceback (as the store says: yes).
    quiet
        Print no line when a run is taken up, finishes, waits or is given back; failures and warnings stay.
    """
    if module and handlers:
        raise UsageError("name the module with the handlers once: perdure worker MODULE_OR_FILE")
    named, settings = handlers_named(module or handlers, at), resolve_config(at.config, at.store).worker
    where = store_address(at, lease_ttl=lease_ttl)
    at_once = settings.concurrency if concurrency is None else concurrency
    seconds = settings.grace if grace is None else grace
    with _lines_printed(quiet=quiet):
        options: dict[str, Any] = {"concurrency": at_once, "grace": seconds, "name": name, "traceback": traceback}
        asyncio.run(_serve(where, named, options))


def resume(
    thread: ThreadId,
    /,
    *,
    handlers: Handlers | None = None,
    input: str | None = None,
    changed: Literal["refuse", "accept"] = "refuse",
    take_over: bool = False,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Continue the unfinished run of a thread, here and now.

    The module is imported and its register(store) called, which registers the handlers. For a thread of a LangGraph
    graph, register is given the saver instead: saver.graph("name", function that compiles it). The exit code is 6 when
    the run waits for a person.

    Parameters
    ----------
    input
        A new input, as JSON; it takes the place of the old one.
    changed
        Whether to continue when the code no longer matches the log.
    take_over
        Take the run from an owner that seems alive.
    """
    named = handlers_named(handlers, at)
    if _is_of_graph(at, thread, user):
        return _resume_graph(at, named, thread, user, output)
    given: dict[str, Any] = {"input": parse_json(input, "--input"), "changed": changed, "take_over": take_over}
    done = asyncio.run(_resumed(store_address(at), named, thread, user, given))
    if output != "table":
        write_data(info_data(done), output)
    else:
        write(_told(done))
    if done.status != PAUSED:
        return OK
    write_next(at.hint("pauses", done.thread, user=user))
    return WAITS


def _is_of_graph(at: ThreadOptions, thread: str, user: str | None) -> bool:
    with opened_store(at) as store:
        info = thread_of(store, thread, user).info()
        return info.agent == LANGGRAPH and not store.runs(1, agent=LANGGRAPH, user=info.user or None)


def _resume_graph(at: ThreadOptions, handlers: str, thread: str, user: str | None, output: OutputFormat) -> int:
    """Continue the graph of a thread with what was decided about its interrupts."""
    with opened_store(at) as store:
        found = thread_of(store, thread, user)
        saver = import_module("perdure.adapters.langgraph").PerdureSaver(store, user=found.user or "")
        register_graphs(saver, handlers)
        values = saver.resume(found.id)
        pauses = store.pauses(found)
    if output == "table":
        write(f"{'paused' if pauses else 'continued':<18} graph of thread {shown(found.id)}")
        write_next(*(step for each in pauses for step in decide_hints(each, at)))
        write_next(*([] if pauses else [at.hint("state", found.id, user=user)]))
    else:
        values = {name: value for name, value in values.items() if name != "__interrupt__"}
        write_data(
            {"thread": found.id, "status": "paused" if pauses else "continued", "values": as_json(values)}, output
        )
    return WAITS if pauses else OK


async def _serve(where: OpenedWith, handlers: str, options: dict[str, Any]) -> None:
    async with opened_async(where, Telling()) as store:
        names = await register(store, handlers)
        serving = store.worker(**options)
        write(f"serves             {', '.join(map(shown, names))}; SIGTERM or Ctrl-C ends it")
        await serving.run()
    write("ended              nothing more is taken up")


async def _resumed(where: OpenedWith, handlers: str, thread: str, user: str | None, given: dict[str, Any]) -> RunInfo:
    warn_of_exposed_files(*where)
    async with opened_async(where, Silence()) as store:
        await register(store, handlers)
        thread, whose = await locate(store, thread, user)
        try:
            return await store.resume(thread, user=whose, **given)
        except PerdureError:
            raise
        except Exception as exc:  # what the handler raised: it is in the log by now
            run = (await store.why(thread, user=whose)).run
            raise RunFailedError(run.id if run else "", type(exc).__name__, str(exc)) from exc


class Telling(Silence):
    """Prints warnings: somebody watches a worker, or its log."""

    def log(self, level: str, message: str, /, **fields: object) -> None:
        if message == RUN_FAILED:
            return  # the line of the run says it
        said = " ".join(f"{name}={printable(' '.join(str(value).split()))}" for name, value in fields.items())
        write_error(f"{level}: {message} {said}".rstrip())


class _Lines(logging.Handler):
    """Prints what the worker says of its runs."""

    def emit(self, record: logging.LogRecord) -> None:
        at = datetime.fromtimestamp(record.created, UTC).strftime("%H:%M:%SZ")
        write_error(f"{at} {record.levelname.lower():<7} {record.getMessage()}")


@contextmanager
def _lines_printed(*, quiet: bool) -> Generator[None]:
    """The lines of the worker on the terminal; if it is to be quiet, only those of what went wrong."""
    logger, lines = logging.getLogger(LOGGER), _Lines()
    before = logger.level, logger.propagate
    logger.setLevel(logging.WARNING if quiet else logging.INFO)
    logger.propagate = False
    logger.addHandler(lines)
    try:
        yield
    finally:
        logger.removeHandler(lines)
        logger.setLevel(before[0])
        logger.propagate = before[1]


def _told(done: RunInfo) -> str:
    said = [] if done.result is None else [f"result             {shortened(done.result, 200)}"]
    return "\n".join([f"{done.status:<18} {done.id} of thread {shown(done.thread)}", *said])
