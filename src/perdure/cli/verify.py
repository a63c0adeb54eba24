"""`perdure verify [THREAD]` and `perdure repair [THREAD]`: whether everything is as it was written."""

from __future__ import annotations

from collections.abc import Callable

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.app.store import CACHE_BYTES
from perdure.checkpoints.engine import Engine
from perdure.checkpoints.repairing import Repaired, Repairer
from perdure.checkpoints.verifying import Verifier
from perdure.cli.common_options import ANY_STORE, Output, StoreOptions, opened_storage
from perdure.cli.lookup import find_row
from perdure.cli.output import progress, write, write_data
from perdure.cli.problems import DAMAGED, OK
from perdure.core.identity import callers_namespace, check_namespace, reserved_of
from perdure.core.limits import DecodeLimits
from perdure.core.ports import Silence
from perdure.core.verification import Damage, Report
from perdure.sessions.checking import Lines
from perdure.storage.contract import Storage
from perdure.storage.drive import drive


def verify(
    thread: str | None = None,
    /,
    *,
    restore: bool = False,
    user: str | None = None,
    namespace: str | None = None,
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> int:
    """Check every log link by link, every whole state, every index.

    Exit code 8 when something is damaged; each damage is one line with its place, and what to type next.

    Parameters
    ----------
    thread
        Only the thread of this id.
    restore
        Restore every checkpoint too, and compare it with a replay of the log.
    user
        Whose thread it is, or only threads of this user; "" for nobody's.
    namespace
        Only threads of this namespace, and what is kept beside them.
    """
    total = Report()
    with opened_storage(at) as storage, progress("threads") as tell:
        verifier = Verifier(storage, Lines(storage).faults, at.limits)
        if thread is not None:
            row = find_row(storage, namespace or "", thread, user)
            total = drive(verifier.look(row.key, restore=restore)).report
        for name in () if thread is not None else _namespaces(storage, namespace):
            done = verifier.store(name, user=user, restore=restore, progress=lambda at, of, _: tell(at, of))
            total = total.plus(drive(done))
        if thread is None and user is None:
            total = total.plus(drive(verifier.integrity())).plus(drive(verifier.strays()))
    _print(output, total, total.damaged, lambda: _told(total, at))
    return OK if total.ok else DAMAGED


def repair(
    thread: str | None = None,
    /,
    *,
    user: str | None = None,
    namespace: str | None = None,
    at: StoreOptions = ANY_STORE,
    output: Output = "table",
) -> int:
    """Make every index and snapshot again from the logs.

    The logs are never changed. Exit code 8 when something is damaged that cannot be made again.

    Parameters
    ----------
    thread
        Only the thread of this id.
    user
        Whose thread it is, or only threads of this user; "" for nobody's.
    namespace
        Only threads of this namespace, and what is kept beside them.
    """
    total = Repaired()
    with opened_storage(at) as storage, progress("threads") as tell:
        repairer = _repairer(storage, at.limits)
        if thread is not None:
            total = drive(repairer.thread(find_row(storage, namespace or "", thread, user).key))
        for name in () if thread is not None else _namespaces(storage, namespace):
            total = total.plus(drive(repairer.store(name, user=user, progress=lambda at, of, _: tell(at, of))))
        if thread is None and user is None:
            total = total.plus(drive(repairer.strays()))
    _print(output, total, total.left, lambda: str(total))
    return OK if total.ok else DAMAGED


def _repairer(storage: Storage, limits: DecodeLimits) -> Repairer:
    clock, randomness = SystemClock(), SystemRandomness()
    engine = Engine(
        storage, clock=clock, randomness=randomness, telemetry=Silence(), cache_bytes=CACHE_BYTES, limits=limits
    )
    return Repairer(storage, Verifier(storage, Lines(storage).faults, limits), engine)


def _namespaces(storage: Storage, namespace: str | None) -> list[str]:
    """All, or that of a caller and those reserved for it."""
    if namespace is None:
        return drive(storage.namespaces())
    check_namespace(namespace)
    return [namespace, *(each for each in drive(storage.namespaces()) if each != namespace == callers_namespace(each))]


def _print(output: Output, done: Report | Repaired, damaged: list[Damage], words: Callable[[], str]) -> None:
    if output != "table":
        write_data({"ok": not damaged, **_plain(done)}, output)
    else:
        write(words(), "red" if damaged else "")


def _plain(done: Report | Repaired) -> dict[str, object]:
    return {name: getattr(done, name) for name in done.__struct_fields__}


def _told(report: Report, at: StoreOptions) -> str:
    lines = str(report).splitlines()
    return "\n".join([lines[0], *(f"  {each}\n    {_next(each, at)}" for each in report.damaged)])


def _next(damage: Damage, at: StoreOptions) -> str:
    """What to type about a damage."""
    hidden = reserved_of(damage.namespace) is not None  # nobody can name the thread
    if damage.derived:
        namespace = callers_namespace(damage.namespace)
        options = {"--user": damage.user or None, "--namespace": namespace or None}
        return f"→ {at.hint('repair', *([] if hidden else [damage.thread_id]), options=options)}"
    if damage.version is None or hidden:
        return "→ restore the storage from a backup, or copy out what can still be read: perdure copy"
    named = repr(damage.thread_id) + (f", user={damage.user!r}" if damage.user else "")
    return f"→ store.thread({named}).latest() finds the newest intact point; the log itself only a backup has"
