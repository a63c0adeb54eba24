"""The faults: each breaks one promise, and names the tests that have to notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec

from perdure.core import checkpoint, digest, writes
from perdure.core.errors import LeaseHeldError, LeaseLostError, VersionConflictError
from perdure.core.writes import Write
from perdure.storage import lineage, memory
from perdure.storage.file import history, log, reading
from perdure.storage.file import store as file_store
from perdure.storage.file import writing as file_writing
from perdure.storage.sql import reading as sql_reading
from perdure.storage.sql import statements
from perdure.storage.sql import writing as sql_writing
from perdure.storage.sqlite import connection
from tests.mutants.planting import replace, rewrite

CONTRACT = "tests/contract/test_contract.py"
DAMAGE = "tests/contract/test_damage.py"
DURABLE = "tests/contract/test_durable.py"
POWER = "tests/storage/test_file_power_loss.py"
NO_USER = ("(? IS NULL OR t.user_id = ?)", "(? IS NULL OR ? IS NOT NULL)")


class Fault(NamedTuple):
    """What is broken, and where that has to be noticed."""

    plant: Callable[[], None]
    tests: str  # words of test names, as pytest's -k takes them
    where: str = CONTRACT


def no_request_comparison() -> None:
    replace(writes.same_request, lambda write, request, version: None)


def no_uid_check() -> None:
    admit = writes.admit
    replace(admit, lambda row, write: admit(row, write if row is None else _with(write, uid=None)))


def no_expected_check() -> None:
    admit = writes.admit
    replace(admit, lambda row, write: admit(row, _with(write, expected=None)))


def no_epoch_check() -> None:
    _forgive(LeaseLostError)


def no_lease_held_check() -> None:
    _forgive(LeaseHeldError)


def _forgive(error: type[Exception]) -> None:
    check = writes._check_lease

    def forgiving(row: Any, write: Write) -> None:
        try:
            check(row, write)
        except error:
            return

    writes._check_lease = forgiving


def lease_before_thread() -> None:
    """The order of the checks is turned round."""
    admit = writes.admit

    def hasty(row: Any, write: Write) -> Any:
        if row is not None and write.expected not in (None, row.state_version):
            raise VersionConflictError(write.key.id, 0, 0)
        return admit(row, write)

    replace(admit, hasty)


def times_go_back() -> None:
    stamped = writes.stamped
    replace(stamped, lambda row, write: stamped(msgspec.structs.replace(row, updated=0), write))


def epochs_stand_still() -> None:
    claimed = writes.claimed

    def claims(row: Any, *asked: Any) -> Any:
        return msgspec.structs.replace(claimed(row, *asked), epoch=max(row.epoch, 1))

    replace(claimed, claims)


def a_write_renews_nothing() -> None:
    stamped = writes.stamped
    replace(stamped, lambda row, write: stamped(row, _with(write, renew_until=0)))


def no_chain() -> None:
    replace(digest.link, lambda *parts: bytes(32))


def no_chain_check() -> None:
    replace(digest.verify_links, lambda thread_id, version, chain, entries: entries[-1].chain if entries else chain)


def no_payload_check() -> None:
    unseal = digest.unseal
    replace(digest.body_of, lambda thread_id, entry: unseal(entry.payload or b""))


def metadata_is_not_compared() -> None:
    replace(checkpoint.has_metadata, lambda encoded, wanted: True)


def metadata_types_are_mixed_up() -> None:
    decode = checkpoint.decode
    replace(
        checkpoint.has_metadata,
        lambda encoded, wanted: all(decode(encoded).get(name) == value for name, value in wanted.items()),
    )


def filters_are_ignored() -> None:
    replace(checkpoint.matches, lambda row, query: True)


def forks_see_their_parents_future() -> None:
    def boundless(heads: Any, at: int) -> Any:
        return [lineage.Span(low, min(high, at)) for low, high in heads]

    replace(lineage.spans, boundless)


def no_grace() -> None:
    for module in (memory, sql_writing, file_store):
        module.BLOB_GRACE = 0


def memory_forgets_keys() -> None:
    again = memory.MemoryStorage._again
    memory.MemoryStorage._again = lambda self, log, write: again(self, log, _with(write, idem_key=None))


def file_forgets_keys() -> None:
    again = file_writing._again
    file_writing._again = lambda log, write: again(log, _with(write, idem_key=None))


def sqlite_forgets_keys() -> None:
    rewrite(statements, "ENTRY_BY_KEY", "WHERE", "WHERE 0 AND")


def memory_forgets_retries() -> None:
    memory.MemoryStorage._retried = lambda self, log, write: None


def file_forgets_retries() -> None:
    file_writing._retried = lambda log, write: None


def sqlite_forgets_retries() -> None:
    rewrite(statements, "ENTRY_BY_WRITE", "WHERE", "WHERE 0 AND")


def memory_lists_backwards() -> None:
    marks = memory.MemoryStorage._marks
    memory.MemoryStorage._marks = lambda self, log: marks(self, log)[::-1]


def file_lists_backwards() -> None:
    checkpoints = history.History.checkpoints
    history.History.checkpoints = lambda self: checkpoints(self)[::-1]


def sqlite_lists_backwards() -> None:
    rewrite(statements, "CHECKPOINTS", "ORDER BY c.row DESC", "ORDER BY c.row")


def memory_shows_everybodys() -> None:
    visible = memory.MemoryStorage._visible
    memory.MemoryStorage._visible = lambda self, namespace, user: visible(self, namespace, None)


def file_shows_everybodys() -> None:
    reading._belongs = lambda key, namespace, user: key.namespace == namespace


def sqlite_lists_everybodys() -> None:
    rewrite(statements, "USER_CHECKPOINTS", *NO_USER)


def sqlite_finds_everybodys() -> None:
    rewrite(statements, "CHECKPOINT", *NO_USER)


def memory_restores_the_future() -> None:
    newest = memory.MemoryStorage._newest_snapshot
    memory.MemoryStorage._newest_snapshot = lambda self, log, at: newest(self, log, log.row.head)


def file_restores_the_future() -> None:
    newest = reading._newest_snapshot
    reading._newest_snapshot = lambda logs, found, at: newest(logs, found, found.row.head)


def sqlite_restores_the_future() -> None:
    newest = sql_reading._newest_snapshot

    async def later(tx: Any, found: Any, *rest: Any) -> Any:
        return await newest(tx, [(owner, lineage.Span(span.low, owner.row.head)) for owner, span in found], *rest)

    sql_reading._newest_snapshot = later


def sqlite_frees_parents_at_once() -> None:
    rewrite(statements, "NEEDED_BY_FORKS", "WHERE", "WHERE 0 AND")


def memory_frees_parents_at_once() -> None:
    trim = memory._trim
    replace(trim, lambda log, version: trim(log, version - 1))


def file_is_not_synced() -> None:
    """The commit itself: lines are written and acknowledged, but nobody waits for the disk."""
    for name in ("_append", "append"):
        append = getattr(log.Log, name, None)
        if append is not None:
            setattr(log.Log, name, _without_sync(append))


def _without_sync(method: Any) -> Any:
    def lazy(self: Any, *arguments: Any) -> Any:
        file = self._file
        self._file = _Lazy(file)
        try:
            return method(self, *arguments)
        finally:
            self._file = file if isinstance(self._file, _Lazy) else self._file

    return lazy


class _Lazy:
    """A file that does not sync."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def sync(self) -> None: ...

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def sqlite_is_not_synced() -> None:
    connect = connection.Connection._connect

    def lazy(self: Any) -> Any:
        self._synchronous = "OFF"
        return connect(self)

    connection.Connection._connect = lazy


def _with(write: Write, **changes: Any) -> Write:
    return msgspec.structs.replace(write, **changes)


STALE = "stale or expect"
KEYS = "key"
RETRY = "retry or oneself or landed"
ORDER = "newest_first or paging"
OWNER = "another_user or owner_only or names_no_user"
FUTURE = "restored_from or before_every or exactly_that"

FAULTS: dict[str, Fault] = {
    "request comparison dropped": Fault(no_request_comparison, "another_request"),
    "uid check dropped": Fault(no_uid_check, "made_again_by_another"),
    "expected check dropped": Fault(no_expected_check, STALE),
    "epoch check dropped": Fault(no_epoch_check, "late_writer or writes_no_more"),
    "lease-held check dropped": Fault(no_lease_held_check, "waits_for_the_run or held_back"),
    "checks in another order": Fault(lease_before_thread, "noticed_before"),
    "times go back": Fault(times_go_back, "times_never or forks_time"),
    "epochs stand still": Fault(epochs_stand_still, "epoch"),
    "a write renews nothing": Fault(a_write_renews_nothing, "renews_the_lease"),
    "chain not computed": Fault(no_chain, "chain_digest"),
    "chain check dropped": Fault(no_chain_check, "", DAMAGE),
    "payload digest check dropped": Fault(no_payload_check, "", DAMAGE),
    "metadata filter dropped": Fault(metadata_is_not_compared, "metadata or missing_key"),
    "metadata types mixed up": Fault(metadata_types_are_mixed_up, "exact_type or missing_key"),
    "checkpoint filters dropped": Fault(filters_are_ignored, "Filter or matched or window or conditions"),
    "fork bound dropped": Fault(forks_see_their_parents_future, "fork"),
    "blob grace dropped": Fault(no_grace, "swept_after_the_grace"),
    "key check dropped: memory": Fault(memory_forgets_keys, f"TestMemory and ({KEYS})"),
    "key check dropped: file": Fault(file_forgets_keys, f"TestFile and ({KEYS})"),
    "key check dropped: sqlite": Fault(sqlite_forgets_keys, f"TestSqlite and ({KEYS})"),
    "write id check dropped: memory": Fault(memory_forgets_retries, f"TestMemory and ({RETRY})"),
    "write id check dropped: file": Fault(file_forgets_retries, f"TestFile and ({RETRY})"),
    "write id check dropped: sqlite": Fault(sqlite_forgets_retries, f"TestSqlite and ({RETRY})"),
    "listing reversed: memory": Fault(memory_lists_backwards, f"TestMemory and ({ORDER})"),
    "listing reversed: file": Fault(file_lists_backwards, f"TestFile and ({ORDER})"),
    "listing reversed: sqlite": Fault(sqlite_lists_backwards, f"TestSqlite and ({ORDER})"),
    "user predicate dropped: memory": Fault(memory_shows_everybodys, f"TestMemory and ({OWNER})"),
    "user predicate dropped: file": Fault(file_shows_everybodys, f"TestFile and ({OWNER})"),
    "user predicate dropped: sqlite list": Fault(sqlite_lists_everybodys, f"TestSqlite and ({OWNER})"),
    "user predicate dropped: sqlite find": Fault(sqlite_finds_everybodys, f"TestSqlite and ({OWNER})"),
    "snapshot bound dropped: memory": Fault(memory_restores_the_future, f"TestMemory and ({FUTURE})"),
    "snapshot bound dropped: file": Fault(file_restores_the_future, f"TestFile and ({FUTURE})"),
    "snapshot bound dropped: sqlite": Fault(sqlite_restores_the_future, f"TestSqlite and ({FUTURE})"),
    "parents freed too early: memory": Fault(memory_frees_parents_at_once, "TestMemory and outlives"),
    "parents freed too early: sqlite": Fault(sqlite_frees_parents_at_once, "TestSqlite and outlives"),
    "sync dropped: file": Fault(file_is_not_synced, "", POWER),
    "sync dropped: sqlite": Fault(sqlite_is_not_synced, "", DURABLE),
}
