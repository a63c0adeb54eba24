"""`perdure import langgraph SOURCE` and `perdure export langgraph THREAD --to TARGET`: LangGraph's own databases."""

from __future__ import annotations

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from typing import Annotated, Any

from cyclopts import Parameter

from perdure.cli.common_options import (
    HERE,
    Output,
    ThreadOptions,
    check_exists,
    store_address,
    warn_of_exposed,
    warn_of_exposed_files,
)
from perdure.cli.output import progress, write_data, write_lines
from perdure.cli.problems import UsageError
from perdure.core.errors import InvalidInputError
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.weights import shown_bytes

_Threads = Annotated[
    tuple[str, ...],
    Parameter(name=["--thread", "--threads"], negative="", consume_multiple=True, show_default=False,
              help="Only threads of this id; may be given several times."),
]  # fmt: skip
_Types = Annotated[
    tuple[str, ...],
    Parameter(negative="", consume_multiple=True, show_default=False,
              help="A class whose objects may be built, as MODULE:CLASS; may be given several times."),
]  # fmt: skip
_User = Annotated[str, Parameter(help="Whose threads they are here.", show_default=False)]
_SAID = {"copied": "{}ed", "grew": "brought up to date", "same": "already there", "refused": "not {}ed"}


def import_langgraph(
    source: str,
    /,
    *,
    into: str | None = None,
    thread: _Threads = (),
    types: _Types = (),
    opaque: bool = False,
    max_rows: int = 1_000_000,
    max_bytes: int = 64 << 20,
    max_seconds: float = 600.0,
    user: _User = "",
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Bring threads of LangGraph's own savers into a storage.

    The source is opened read-only. Each checkpoint is read back and compared. Run it again to catch up, also after a
    crash: what is there already is skipped. A thread that cannot be read is skipped and named, and the exit code is 1.

    Parameters
    ----------
    source
        A file of the SqliteSaver, or the postgresql:// address of a PostgresSaver.
    into
        The address of the store, instead of --store; it is set up if it is empty.
    opaque
        Whether a value of another class is kept as the bytes it was.
    max_rows
        The most checkpoints of a thread, and the most threads; others are skipped.
    max_bytes
        The most bytes of a checkpoint with everything that was written for it; its thread is skipped otherwise.
    max_seconds
        How long a thread may take; the next import goes on where it ended.
    """
    graphs, classes = _adapter(), [_class(each) for each in types]
    with _saver(graphs, _named(at, into), user, "auto") as saver, progress("checkpoints") as tell:
        done = graphs.import_from(
            source, saver, threads=thread or None, types=classes, opaque=opaque, max_rows=max_rows,
            max_bytes=max_bytes, max_seconds=max_seconds, progress=tell,
        )  # fmt: skip
    return _tell(done, output, "import")


def export_langgraph(
    *threads: str,
    from_: Annotated[str | None, Parameter(name="--from", help="The address of the store, instead of --store.")] = None,
    to: Annotated[str, Parameter(help="A file for the SqliteSaver, or a postgresql:// address for the PostgresSaver.")],
    all: bool = False,
    types: _Types = (),
    user: _User = "",
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Write threads of graphs into LangGraph's own tables.

    Its own saver writes them, so that a graph goes on with it. Each checkpoint is read back and compared. Run it again
    to catch up.

    Parameters
    ----------
    threads
        The ids of the threads.
    all
        Whether all threads of graphs are written.
    """
    if bool(threads) == all:
        raise UsageError("name threads, or say --all")
    graphs, classes = _adapter(), [_class(each) for each in types]
    warn_of_exposed([to.removeprefix("sqlite:///")], at.options)
    with _saver(graphs, _named(at, from_), user, "check") as saver, progress("checkpoints") as tell:
        done = graphs.export_to(to, saver, threads=None if all else threads, types=classes, progress=tell)
    return _tell(done, output, "export")


def _adapter() -> Any:
    """The adapter of LangGraph; without LangGraph it says which extra is missing."""
    return import_module("perdure.adapters.langgraph")


@contextmanager
def _saver(graphs: Any, at: ThreadOptions, user: str, migrate: str) -> Generator[Any]:
    address, options = store_address(at)
    if migrate == "check":
        check_exists(address)
    warn_of_exposed_files(address, options)
    with graphs.PerdureSaver.open(address, user=user, **{**options, "migrate": migrate}) as saver:
        yield saver


def _named(at: ThreadOptions, url: str | None) -> ThreadOptions:
    """The options with the store of --into or --from."""
    return at if url is None else replace(at, store=url)


def _class(named: str) -> Any:
    """A class by the name that a person typed, never by one that is stored."""
    module, _, name = named.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    try:
        found: Any = import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as exc:
        raise InvalidInputError(f"--types {named}: {exc}; give MODULE:CLASS") from exc
    return found


def _tell(done: Any, output: Output, verb: str) -> int:
    if output == "table":
        write_lines(_lines(done, verb))
    else:
        write_data(done, output)
    return 1 if done.refused else 0


def _lines(done: Any, verb: str) -> Generator[tuple[str, str]]:
    for outcome, words in _SAID.items():
        threads = [each for each in done.threads if each.outcome == outcome]
        if threads or outcome == "copied":
            said = words.format(verb)
            yield f"{said:<18} {_counted(threads)}", "red" if outcome == "refused" else ""
    for each in done.refused:
        kept = f" ({each.new:,} of {each.checkpoints:,} checkpoints were written before)" if each.new else ""
        yield f"  {shown(each.thread)}: {printable(each.reason)}{kept}", "red"
    times = done.source_bytes / done.target_bytes if done.target_bytes else 0
    less = f", {times:,.0f} times less" if times >= 2 else ""
    yield f"{'size':<18} {shown_bytes(done.source_bytes)} → {shown_bytes(done.target_bytes)}{less}", ""


def _counted(threads: list[Any]) -> str:
    count, new, total = len(threads), sum(each.new for each in threads), sum(each.checkpoints for each in threads)
    words = f"{count:,} thread{'' if count == 1 else 's'}"
    return f"{words}, {new:,} new of {total:,} checkpoints" if count else words
