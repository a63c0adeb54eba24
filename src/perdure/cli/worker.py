"""`perdure worker URL` and `perdure resume URL THREAD`: runs of a person's own handlers, from the command line."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from perdure.app.config.resolve import resolve_config
from perdure.app.store import Perdure
from perdure.cli.handlers import register
from perdure.cli.output import write, write_error, write_json
from perdure.cli.parameters import HERE, Address, Handlers, Output, Owner, Place, ThreadId
from perdure.cli.places import Where, check_there, place_of, warn_of_exposed_files
from perdure.cli.runs import info_data
from perdure.cli.stores import user_of
from perdure.cli.values import brief, typed
from perdure.core.errors import InvalidInputError, PerdureError, RunFailedError
from perdure.core.ports import Silence
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.runtime.infos import RunInfo
from perdure.runtime.recovery import RUN_FAILED
from perdure.runtime.worker_log import LOGGER


def worker(
    url: str | None = None,
    /,
    *,
    handlers: Handlers | None = None,
    concurrency: int | None = None,
    grace: float | None = None,
    lease_ttl: float | None = None,
    name: str | None = None,
    traceback: bool | None = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
    at: Place = HERE,
) -> None:
    """Take up runs as they become due, until SIGTERM.

    The module is imported and its register(store) called, which registers the handlers. On SIGTERM nothing more is
    taken up, and what is under way may end; the rest is given back for another worker.

    Parameters
    ----------
    url
        The address of the storage, unless --config, PERDURE_STORE or a perdure.yaml names it.
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
    settings = resolve_config(at.config, url).worker
    named = handlers or settings.handlers
    if named is None:
        raise InvalidInputError(
            "name the module with your handlers: --handlers MODULE, or worker.handlers in perdure.yaml"
        )
    where = place_of(url, at, lease_ttl=lease_ttl)
    at_once = settings.concurrency if concurrency is None else concurrency
    seconds = settings.grace if grace is None else grace
    with _lines_printed(quiet=quiet):
        options: dict[str, Any] = {"concurrency": at_once, "grace": seconds, "name": name, "traceback": traceback}
        asyncio.run(_serve(where, named, options))


def resume(
    url: Address,
    thread: ThreadId,
    /,
    *,
    handlers: Handlers,
    input: str | None = None,
    changed: Literal["refuse", "accept"] = "refuse",
    take_over: bool = False,
    user: Owner = None,
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """Go on with the unfinished run of a thread, here and now.

    The module is imported and its register(store) called, which registers the handlers.

    Parameters
    ----------
    input
        A new input, as JSON; it takes the place of the old one.
    changed
        Whether code that asks for something else than the log recorded is let.
    take_over
        Take the run from an owner that seems alive.
    """
    given: dict[str, Any] = {"input": typed(input, "--input"), "changed": changed, "take_over": take_over}
    done = asyncio.run(_resumed(place_of(url, at), handlers, thread, user, given))
    if output == "json":
        write_json(info_data(done))
    else:
        write(_told(done))


async def _serve(where: Where, handlers: str, options: dict[str, Any]) -> None:
    async with _opened(where, Telling()) as store:
        names = await register(store, handlers)
        serving = store.worker(**options)
        write(f"serves             {', '.join(map(shown, names))}; SIGTERM or Ctrl-C ends it")
        await serving.run()
    write("ended              nothing more is taken up")


async def _resumed(where: Where, handlers: str, thread: str, user: str | None, given: dict[str, Any]) -> RunInfo:
    warn_of_exposed_files(*where)
    async with _opened(where, Silence()) as store:
        await register(store, handlers)
        whose = user_of(user, store)
        try:
            return await store.resume(thread, user=whose, **given)
        except PerdureError:
            raise
        except Exception as exc:  # what the handler raised: it is in the log by now
            run = (await store.why(thread, user=whose)).run
            raise RunFailedError(run.id if run else "", type(exc).__name__, str(exc)) from exc


@asynccontextmanager
async def _opened(where: Where, telemetry: Silence) -> AsyncGenerator[Perdure]:
    url, options = where
    check_there(url)
    async with Perdure.open(url, telemetry=telemetry, **options) as store:
        await store.setup()
        yield store


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
    said = [] if done.result is None else [f"result             {brief(done.result, 200)}"]
    return "\n".join([f"{done.status:<18} {done.id} of thread {shown(done.thread)}", *said])
