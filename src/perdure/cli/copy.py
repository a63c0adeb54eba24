"""`perdure copy SOURCE TARGET`: threads move to another storage, each checked after it was put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from perdure.app.copying import Choice, Copied, Outcome, copy_threads
from perdure.app.opening import parse, plain_storage
from perdure.app.options import UserIdType, given
from perdure.app.servers import place
from perdure.cli.places import check_there, warn_of_exposed_files
from perdure.core.identity import check_namespace
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.permissions import parse_file_mode

_Several = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
_SERVERS = ("postgresql", "mysql")
_SAID = {
    Outcome.COPIED: "{}",
    Outcome.GREW: "brought up to date",
    Outcome.SAME: "already there",
    Outcome.REFUSED: "not {}",
}


def copy(
    source: str,
    target: str,
    /,
    *,
    namespace: _Several = (),
    user: str | None = None,
    thread: _Several = (),
    overwrite: Literal["no", "yes"] = "no",
    source_schema: str | None = None,
    target_schema: str | None = None,
    source_user_id_type: UserIdType | None = None,
    target_user_id_type: UserIdType | None = None,
    target_file_mode: str | None = None,
) -> int:
    """Copy threads from one storage to another.

    Versions, times, keys, checkpoints and digests stay as they are. Each thread is put in one transaction and read
    back. Run it again to catch up: what is there already is skipped, what has grown is brought up to date.

    Parameters
    ----------
    source
        The address to copy from; nothing is changed there.
    target
        The address to copy to; it is set up if it is empty.
    namespace
        Only threads of this namespace, and what is kept beside them; may be given several times.
    user
        Only threads of this user; "" for those that belong to nobody.
    thread
        Only threads of this id; may be given several times.
    overwrite
        Whether a thread of the target with another history is deleted for the one of the source.
    source_schema
        PostgreSQL: the schema of the source's tables.
    target_schema
        PostgreSQL: the schema of the target's tables.
    source_user_id_type
        Servers: the type of the source's user ids.
    target_user_id_type
        Servers: the type of the target's user ids.
    target_file_mode
        Files: the mode of those that are made in the target, in octal digits (600).
    """
    console = Console(highlight=False)
    check_there(source)
    origin = _storage(source, source_schema, source_user_id_type)
    goal = _storage(target, target_schema, target_user_id_type, target_file_mode)
    choice = Choice(namespaces=tuple(map(check_namespace, namespace)), user=user, threads=thread)
    try:
        drive(origin.setup("check"))
        drive(goal.setup())
        console.print(Text(f"{_shown(source)} → {_shown(target)}", style="bold"), soft_wrap=True)
        done = _with_progress(console, origin, goal, choice, overwrite == "yes")
    finally:
        drive(origin.close())
        drive(goal.close())
    tell_outcomes(console, done, "copied")
    return 1 if any(each.outcome is Outcome.REFUSED for each in done) else 0


def _storage(url: str, schema: str | None, user_id_type: UserIdType | None, file_mode: str | None = None) -> Storage:
    address, mode = parse(url), None if file_mode is None else parse_file_mode(file_mode)
    options = given({"schema": schema, "user_id_type": user_id_type, "file_mode": mode}, address.scheme)
    warn_of_exposed_files(url, options)
    return plain_storage(address, options)


def _shown(url: str) -> str:
    """An address without anything that may be a password."""
    address = parse(url)
    return place(address.url) if address.scheme in _SERVERS else address.url


def _with_progress(console: Console, source: Storage, target: Storage, choice: Choice, overwrite: bool) -> list[Copied]:
    columns = (TextColumn("threads"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("", total=None)

        def tell(done: int, total: int, newest: Copied) -> None:
            bar.update(task, completed=done, total=total)

        return drive(copy_threads(source, target, choice, overwrite=overwrite, progress=tell))


def tell_outcomes(console: Console, done: Sequence[Copied], verb: str) -> None:
    """What became of threads that were copied or imported."""
    for outcome, words in _SAID.items():
        said = words.format(verb)
        threads = [each for each in done if each.outcome is outcome]
        if threads or outcome is Outcome.COPIED:
            style = "red" if outcome is Outcome.REFUSED else ""
            console.print(Text(f"{said:<18} {_counted(threads)}", style=style), soft_wrap=True)
    for each in done:
        if each.outcome is Outcome.REFUSED:
            console.print(Text(f"  {_name(each)}: {each.reason}", style="red"), soft_wrap=True)


def _counted(threads: Sequence[Copied]) -> str:
    entries, size = sum(each.entries for each in threads), sum(each.bytes for each in threads)
    count = f"{len(threads):,} thread{'' if len(threads) == 1 else 's'}"
    return f"{count}, {entries:,} entr{'y' if entries == 1 else 'ies'}, {_size(size)}" if entries else count


def _size(count: int) -> str:
    """Bytes for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} bytes"


def _name(copied: Copied) -> str:
    """A thread as its owner would name it."""
    key = copied.key
    owner = f" of {key.user}" if key.user else ""
    return f"{key.id}{owner}" + (f" in {key.namespace}" if key.namespace else "")
