"""`perdure copy [SOURCE] TARGET`: threads move to another storage, each checked after it was put there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from cyclopts import Parameter

from perdure.app.copying import Choice, Copied, Outcome, copy_threads
from perdure.app.opening import parse, plain_storage
from perdure.app.options import UserIdType, given
from perdure.cli.common_options import (
    ANY_STORE,
    Output,
    StoreOptions,
    check_exists,
    store_address,
    warn_of_exposed_files,
)
from perdure.cli.output import progress, write, write_data
from perdure.core.addresses import display_url
from perdure.core.identity import check_namespace
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.permissions import parse_file_mode

_Several = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
_SAID = {
    Outcome.COPIED: "{}",
    Outcome.GREW: "brought up to date",
    Outcome.SAME: "already there",
    Outcome.REFUSED: "not {}",
}


def copy(
    source: str,
    target: str | None = None,
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
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> int:
    """Copy threads from one storage to another.

    Versions, times, keys, checkpoints and digests stay as they are. Each thread is put in one transaction and read
    back. Run it again to catch up: what is there already is skipped, what has grown is brought up to date.

    Parameters
    ----------
    source
        The address to copy from, where TARGET follows; nothing is changed there.
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
    if target is None:
        source, target = store_address(at).url, source
    check_exists(source)
    origin = _storage(source, source_schema, source_user_id_type)
    goal = _storage(target, target_schema, target_user_id_type, target_file_mode)
    choice = Choice(namespaces=tuple(map(check_namespace, namespace)), user=user, threads=thread)
    try:
        drive(origin.setup("check"))
        drive(goal.setup())
        if output == "table":
            write(f"{printable(display_url(parse(source).url))} → {printable(display_url(parse(target).url))}", "bold")
        done = _with_progress(origin, goal, choice, overwrite == "yes")
    finally:
        drive(origin.close())
        drive(goal.close())
    if output == "table":
        tell_outcomes(done, "copied")
    else:
        write_data(done, output)
    return 1 if any(each.outcome is Outcome.REFUSED for each in done) else 0


def _storage(url: str, schema: str | None, user_id_type: UserIdType | None, file_mode: str | None = None) -> Storage:
    address, mode = parse(url), None if file_mode is None else parse_file_mode(file_mode)
    options = given({"schema": schema, "user_id_type": user_id_type, "file_mode": mode}, address.scheme)
    warn_of_exposed_files(url, options)
    return plain_storage(address, options)


def _with_progress(source: Storage, target: Storage, choice: Choice, overwrite: bool) -> list[Copied]:
    with progress("threads") as tell:
        done = copy_threads(
            source, target, choice, overwrite=overwrite, progress=lambda count, total, _: tell(count, total)
        )
        return drive(done)


def tell_outcomes(done: Sequence[Copied], verb: str) -> None:
    """What became of threads that were copied or imported."""
    for outcome, words in _SAID.items():
        said = words.format(verb)
        threads = [each for each in done if each.outcome is outcome]
        if threads or outcome is Outcome.COPIED:
            style = "red" if outcome is Outcome.REFUSED else ""
            write(f"{said:<18} {_counted(threads)}", style)
    for each in done:
        if each.outcome is Outcome.REFUSED:
            write(f"  {_name(each)}: {printable(each.reason)}", "red")


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
    owner = f" of {shown(key.user)}" if key.user else ""
    return f"{shown(key.id)}{owner}" + (f" in {shown(key.namespace)}" if key.namespace else "")
