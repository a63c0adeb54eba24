"""The transactions that change a log: append, fork, delete, leases, snapshots, blobs."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from perdure.core.checkpoint import CheckpointRow
from perdure.core.entries import Entry
from perdure.core.errors import NotFoundError, StorageDamagedError
from perdure.core.forks import same_fork
from perdure.core.identity import ThreadKey
from perdure.core.quarantine import with_standing_of
from perdure.core.seams import PRUNED, check_there
from perdure.core.threads import ThreadRow
from perdure.core.transfer import CopiedBlob
from perdure.core.writes import (
    Appended,
    Blob,
    Snapshot,
    Write,
    accepted,
    admit,
    at_moment,
    checkpoint_row,
    deleted,
    found_again,
    same_request,
    stamped,
)
from perdure.storage.contract import BLOB_GRACE, Leftovers
from perdure.storage.sql.history import lineage, pieces, seams_of, thread, written_at
from perdure.storage.sql.messages import forget
from perdure.storage.sql.pruning import check_goal, check_plan, prune
from perdure.storage.sql.reading import checkpoint_at, whose_rows
from perdure.storage.sql.rows import (
    VERSIONS,
    StoredThread,
    checkpoint_values,
    entry_values,
    patch_values,
    scope_of,
    thread_of,
    thread_values,
)
from perdure.storage.sql.transactions import Transaction

Answer = tuple[Appended, int]  # what became of a write, and the number of the thread's row


async def append_slowly(tx: Transaction, write: Write) -> Answer:
    """The append of the contract, step by step."""
    write = at_moment(write, await tx.moment(write.micros))
    stored = await thread(tx, write.key, lock=True)
    if stored is not None:
        standing = await again(tx, stored, write)
        if standing is not None:
            return standing, stored.number
    before = admit(stored.row if stored else None, write)
    if stored is not None and write.pruning is not None:
        await check_plan(tx, stored, write.pruning)
    if stored is not None and write.goal is not None:
        await check_goal(tx, stored, write.goal)
    after, entries = stamped(before, write)
    number = stored.number if stored else await make_thread(tx, after, entries[0].chain, write)
    mark = checkpoint_row(before, after, write.checkpoint) if write.checkpoint else None
    await _store(tx, StoredThread(number, after), write, entries, mark)
    if stored is not None:
        await move(tx, StoredThread(number, after), patch=write.patches)
    if not write.is_plain:
        await _turn(tx, StoredThread(number, after), before.head, write)
    return accepted(before, after, mark), number


async def _turn(tx: Transaction, stored: StoredThread, head: int, write: Write) -> None:
    """What makes a log more than one entry after the other."""
    if write.back_to is not None:
        await tx.run(tx.sql.INSERT_REWIND, (stored.place(stored.row.head), write.back_to))
    if write.pruning is not None:
        await prune(tx, stored, head, write.pruning)


async def again(tx: Transaction, stored: StoredThread, write: Write) -> Appended | None:
    """The answer to a write that stands already, by its key or its own id; None when it does not."""
    first = await _by_key(tx, stored, write) if write.idem_key is not None else None
    if first is None:
        first = await _retried(tx, stored, write)
    if first is None:
        return None
    standing = await written_at(tx, stored, first)
    mark = await checkpoint_at(tx, stored.place(standing[-1].version))
    return found_again(stored.row, standing, lambda _: mark)


async def _by_key(tx: Transaction, stored: StoredThread, write: Write) -> int | None:
    rows = await tx.rows(tx.sql.ENTRY_BY_KEY, (stored.number, write.idem_key))
    for version, request in rows:
        same_request(write, request, version)
        return version
    return None


async def _retried(tx: Transaction, stored: StoredThread, write: Write) -> int | None:
    since = write.since if write.since is not None else write.expected
    if write.since is None and write.expected in (None, stored.row.state_version):
        return None
    values = (stored.place(since or 0), stored.place(stored.row.head), write.write_id)
    rows = await tx.rows(tx.sql.ENTRY_BY_WRITE, values)
    return rows[0][0] if rows else None


async def make_thread(tx: Transaction, row: ThreadRow, first_chain: bytes, write: Write | None = None) -> int:
    """Insert a thread's line, name it in the catalog, and return the number of its row."""
    if write is not None and await tx.rows(tx.sql.THREAD_BY_UID, (row.uid,)):
        raise deleted(write)
    await tx.run(tx.sql.INSERT_THREAD, (*thread_values(row, first_chain), *tx.sql.dialect.moment(row.updated)))
    number = (await tx.rows(tx.sql.THREAD_ROW, (row.uid,)))[0][0]
    await catalog(tx, StoredThread(number, row))
    return number


async def catalog(tx: Transaction, stored: StoredThread) -> None:
    """Name a thread in the catalog, the second record of which threads there are."""
    key = stored.row.key
    values = (bytes.fromhex(key.digest()), stored.number, stored.row.uid, key.namespace, key.user, key.id)
    await tx.run(tx.sql.CATALOG_THREAD, values)


async def hide(tx: Transaction, stored: StoredThread) -> None:
    """Let nobody but forks see a thread."""
    await tx.run(tx.sql.UNCATALOG_THREAD, (bytes.fromhex(stored.row.key.digest()),))
    await tx.run(tx.sql.HIDE_THREAD, (stored.number,))


async def _store(
    tx: Transaction, stored: StoredThread, write: Write, entries: list[Entry], mark: CheckpointRow | None
) -> None:
    for entry in entries:
        await tx.run(tx.sql.INSERT_ENTRY, entry_values(stored.place(entry.version), entry))
    if mark is not None:
        await tx.run(tx.sql.INSERT_CHECKPOINT, checkpoint_values(stored.number, stored.place(mark.entry), mark))
    for blob in write.blobs:
        await keep_blob(tx, stored, blob, stored.row.head, write.micros)


async def keep_blob(tx: Transaction, stored: StoredThread, blob: Blob | CopiedBlob, version: int, micros: int) -> None:
    """Insert or touch a large value that a version of a thread refers to."""
    scope = scope_of(stored.row.key)
    await tx.run(tx.sql.PUT_BLOB, (scope, blob.digest, micros, blob.payload))
    number = (await tx.rows(tx.sql.BLOB_ROW, (scope, blob.digest)))[0][0]
    await tx.run(tx.sql.USE_BLOB, (stored.number, number, version))


async def move(tx: Transaction, stored: StoredThread, *, patch: bool) -> None:
    """Move the head of a thread, and the rest of its line with `patch`."""
    row = stored.row
    head = (row.head, row.state_version, row.run, row.head_digest, row.last_checkpoint, row.lease_until)
    await tx.run(tx.sql.MOVE_HEAD, (*head, *tx.sql.dialect.moment(row.updated), stored.number))
    if patch:
        await tx.run(tx.sql.PATCH_THREAD, patch_values(stored.number, row))


LineChange = Callable[[ThreadRow, int], ThreadRow]  # given by how much the caller's clock is slow


async def change_line(tx: Transaction, key: ThreadKey, now: int, change: LineChange) -> ThreadRow:
    """Change the lease or timer of a thread by a rule."""
    stored = await thread(tx, key, lock=True)
    if stored is None:
        raise NotFoundError(f"thread {key.id!r}")
    after = change(stored.row, await tx.moment(now) - now)
    await tx.run(tx.sql.PATCH_THREAD, patch_values(stored.number, after))
    return after


async def put_snapshot(tx: Transaction, key: ThreadKey, uid: str, snapshot: Snapshot) -> bool:
    """The put_snapshot of the contract."""
    stored = await thread(tx, key, lock=True)
    if stored is None or stored.row.uid != uid:
        return False
    place = stored.place(snapshot.version)
    await tx.run(tx.sql.PUT_SNAPSHOT, (place, int(snapshot.base), snapshot.chain, snapshot.digest, snapshot.payload))
    for digest in snapshot.blobs:
        for (number,) in await tx.rows(tx.sql.BLOB_ROW, (scope_of(key), digest)):
            await tx.run(tx.sql.USE_BLOB, (stored.number, number, snapshot.version))
    return True


async def drop_snapshot(tx: Transaction, key: ThreadKey, version: int) -> None:
    """The drop_snapshot of the contract."""
    stored = await thread(tx, key, lock=True)
    for owner, span in await pieces(tx, stored, stored.row.head) if stored else []:
        if version <= span.high:
            await tx.run(tx.sql.DROP_SNAPSHOT, (owner.place(version),))


async def fork(tx: Transaction, source: ThreadKey, version: int, target: ThreadRow) -> ThreadRow:
    """The fork of the contract."""
    parent = await thread(tx, source, lock=True)
    if parent is None or not 0 <= version <= parent.row.head:
        raise NotFoundError(f"version {version} of thread {source.id!r}")
    standing = await thread(tx, target.key)
    if standing is not None:
        return same_fork(standing.row, parent.row.uid, version, target)
    made = await _forked(tx, parent, version, target)
    await make_thread(tx, made, made.head_digest)
    return made


async def _forked(tx: Transaction, parent: StoredThread, version: int, target: ThreadRow) -> ThreadRow:
    line = msgspec.structs.replace(
        with_standing_of(target, parent.row), head=version, parent_uid=parent.row.uid, parent_version=version
    )
    state_version, checkpoint, chain, at = 0, None, target.head_digest, 0
    for owner, span in reversed(await pieces(tx, parent, version)):
        low, high = owner.place(span.low), owner.place(span.high)
        for (found,) in await tx.rows(tx.sql.LAST_STATE, (low, high)):
            state_version = found
            await _check_there(tx, parent.row.key, version, owner.place(found))
        for (found,) in await tx.rows(tx.sql.LAST_CHECKPOINT, (low, high)):
            checkpoint = found
        for chain, at in await tx.rows(tx.sql.LAST_CHAIN, (high,)):  # noqa: B007  # the last one counts
            pass
    if state_version == 0:
        check_there(parent.row.key.id, version, (await seams_of(tx, await pieces(tx, parent, parent.row.head))).gone)
    return msgspec.structs.replace(
        line,
        state_version=state_version,
        last_checkpoint=checkpoint,
        head_digest=chain,
        updated=max(target.created, at),
    )


async def _check_there(tx: Transaction, key: ThreadKey, version: int, place: int) -> None:
    """Raise `NotFoundError` when the change that a version shows, at `place`, was pruned."""
    if await tx.rows(tx.sql.IS_GONE, (place,)):
        raise NotFoundError(f"version {version} of thread {key.id!r}", PRUNED)


async def delete(tx: Transaction, key: ThreadKey) -> str | None:
    """The delete of the contract: the uid of the thread that was deleted, if there was one."""
    try:
        stored = await thread(tx, key, lock=True)
    except StorageDamagedError:
        uid = await _delete_lost(tx, key)
        if uid is None:
            raise
        return uid
    if stored is None:
        return None
    await hide(tx, stored)
    await forget(tx, stored.number)
    # Locked from the child up: two deletions that free the same parent wait for each other, and the last one sees it.
    for each in await lineage(tx, stored, lock=True):
        if not await _freed(tx, each):
            break
    return stored.row.uid


async def _delete_lost(tx: Transaction, key: ThreadKey) -> str | None:
    """Drop what is left of a thread whose row is gone, and return its uid; None when it is not.

    What its forks need stays: they can be read again once the row is put back.
    """
    name = bytes.fromhex(key.digest())
    for number, uid in await tx.rows(tx.sql.LOST_THREAD, (name,)):
        await tx.run(tx.sql.UNCATALOG_THREAD, (name,))
        await forget(tx, number)
        await _drop(tx, number, (await tx.rows(tx.sql.NEEDED_BY_FORKS, (uid,)))[0][0])
        return uid
    return None


async def _freed(tx: Transaction, stored: StoredThread) -> bool:
    """Drop of a hidden thread what no fork needs; True when that was everything."""
    if not (await tx.rows(tx.sql.IS_HIDDEN, (stored.number,)))[0][0]:
        return False
    needed = (await tx.rows(tx.sql.NEEDED_BY_FORKS, (stored.row.uid,)))[0][0]
    await _drop(tx, stored.number, needed)
    if needed is None:
        await tx.run(tx.sql.DROP_THREAD, (stored.number,))
    return needed is None


async def _drop(tx: Transaction, number: int, needed: int | None) -> None:
    """Drop what belongs to a thread after the last version that forks need; None: they need nothing."""
    keep = -1 if needed is None else needed
    bounds = (number * VERSIONS + keep, (number + 1) * VERSIONS)
    sql = tx.sql
    for statement in (sql.DROP_ENTRIES, sql.DROP_SNAPSHOTS, sql.DROP_CHECKPOINTS, sql.DROP_REWINDS, sql.DROP_RECORDS):
        await tx.run(statement, bounds)
    await tx.run(tx.sql.DROP_BLOB_USES, (number, keep))


async def sweep_blobs(tx: Transaction, now: int) -> int:
    """The sweep_blobs of the contract."""
    return await tx.run(tx.sql.SWEEP_BLOBS, (await tx.moment(now) - BLOB_GRACE,))


async def sweep_user(tx: Transaction, namespace: str, user: str) -> Leftovers:
    """The sweep_user of the contract."""
    whose, value = whose_rows(user)
    needed = await _hidden(tx, whose, (namespace, *value))
    for stored in needed:
        await _freed(tx, stored)
    scope = scope_of(ThreadKey(namespace, user, ""))
    # Locked first: a write that is about to refer to one of them commits before the next statement looks at the uses.
    await tx.rows(tx.sql.BLOBS_LOCKED, (scope,))
    blobs = await tx.run(tx.sql.DROP_UNUSED_BLOBS, (scope,))
    return Leftovers(blobs=blobs, hidden=len(await _hidden(tx, whose, (namespace, *value))) if needed else 0)


async def _hidden(tx: Transaction, whose: str, values: tuple[str, ...]) -> list[StoredThread]:
    """The deleted threads of a user that forks need, the youngest first."""
    return [thread_of(found) for found in await tx.rows(tx.sql.hidden_threads(whose), values)]


async def keep(tx: Transaction, name: str, value: bytes) -> bytes:
    """The keep of the contract."""
    await tx.run(tx.sql.KEEP, (name, value.hex()))
    return bytes.fromhex((await tx.rows(tx.sql.META_VALUE, (name,)))[0][0])


async def discard(tx: Transaction, name: str) -> bool:
    """The discard of the contract."""
    return bool(await tx.run(tx.sql.DISCARD, (name,)))
