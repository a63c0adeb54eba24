"""Whole threads on their way from one storage to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.codec import encode
from perdure.core.digest import GENESIS, verify_links
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import DamagedError, KeyReusedError, LeaseHeldError, NotFoundError, ThreadExistsError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.transfer import ThreadCopy
from perdure.core.writes import Blob
from perdure.storage.contract import BLOB_GRACE, Storage
from perdure.storage.memory import MemoryStorage
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, SECOND, STATE, THREAD, Scribe, blob_of

BLOB = blob_of("large " * 20_000)
REQUEST = b"r" * 32
ALL = CheckpointQuery(limit=1000)


class Moving(Contract):
    """A storage in memory to copy from, beside the one that is tested."""

    @pytest.fixture
    def source(self, clock: ManualClock) -> Scribe:
        return Scribe(MemoryStorage(), clock, seed=2)


class TransferContract(Moving):
    """Taking a thread, and putting it elsewhere."""

    async def test_a_copied_thread_is_the_thread_it_was(self, storage: Storage, source: Scribe, place: Place) -> None:
        copy = await busy_thread(source)
        made = await storage.put_thread(copy)
        assert made == copy.row
        storage = await place.reopen(storage)
        assert await everything(storage, THREAD) == await everything(source.storage, THREAD)
        assert await storage.threads(ThreadQuery()) == [copy.row]

    async def test_a_thread_taken_here_can_be_put_elsewhere(
        self, storage: Storage, scribe: Scribe, source: Scribe
    ) -> None:
        copy = await busy_thread(scribe)
        await source.storage.put_thread(copy)
        assert await everything(source.storage, THREAD) == await everything(storage, THREAD)
        large = await storage.blobs(THREAD, [BLOB.digest])
        assert await source.storage.blobs(THREAD, [BLOB.digest]) == large != {}

    async def test_every_version_restores_as_before(self, storage: Storage, source: Scribe) -> None:
        copy = await busy_thread(source)
        await storage.put_thread(copy)
        for at in range(copy.row.head + 1):
            found, there = await storage.restore(THREAD, at=at), await source.storage.restore(THREAD, at=at)
            assert found is not None
            assert there is not None
            assert (found.entries, found.snapshot) == (there.entries, None)

    async def test_a_copied_log_is_one_chain_and_goes_on(self, storage: Storage, source: Scribe) -> None:
        copy = await busy_thread(source)
        await storage.put_thread(copy)
        made = await storage.append(source.write(THREAD, expected=copy.row.state_version, uid=copy.row.uid))
        found = await storage.entries(THREAD)
        assert [entry.version for entry in found] == list(range(1, copy.row.head + 2))
        assert verify_links("t1", 0, GENESIS, found) == made.row.head_digest
        with pytest.raises(DamagedError):
            verify_links("t1", 0, GENESIS, found[1:])

    async def test_copied_keys_and_write_ids_still_answer(self, storage: Storage, source: Scribe) -> None:
        write = source.write(THREAD, STATE, MESSAGE, idem_key="k", request=REQUEST, checkpoint=source.mark())
        await source.append(THREAD)
        first = await source.storage.append(write)
        await storage.put_thread(await take(source.storage, THREAD))
        by_key = await storage.append(source.write(THREAD, idem_key="k", request=REQUEST))
        by_id = await storage.append(msgspec.structs.replace(write, idem_key=None, since=1))
        for again in (by_key, by_id):
            assert (again.again, again.version, again.state_version) == (True, first.version, first.state_version)
            assert again.checkpoint is not None
            assert again.checkpoint.entry == first.version
        with pytest.raises(KeyReusedError):
            await storage.append(source.write(THREAD, idem_key="k", request=b"another"))

    async def test_copied_checkpoints_are_found_and_paged(self, storage: Storage, source: Scribe) -> None:
        made = [await source.save(THREAD, metadata={"n": n}, note=f"é {n}") for n in range(5)]
        await storage.put_thread(await take(source.storage, THREAD))
        page = await storage.checkpoints(THREAD, CheckpointQuery(before=made[3].mark.id, limit=2))
        assert seen(page) == seen([made[2], made[1]])
        assert seen(await storage.user_checkpoints("", "alice", ALL)) == seen(made[::-1])
        found = await storage.checkpoint("", "alice", made[2].mark.id)
        assert found is not None
        assert seen([found]) == seen([made[2]])

    async def test_large_values_come_along_and_are_held(self, storage: Storage, source: Scribe) -> None:
        await source.append(THREAD, entries=(referring(source, BLOB),), blobs=(BLOB,))
        copy = await take(source.storage, THREAD)
        await storage.put_thread(copy)
        assert list(await storage.blobs(THREAD, [BLOB.digest])) == [BLOB.digest]
        assert await storage.blobs(BOBS, [BLOB.digest]) == {}
        later = source.clock.now() + 2 * BLOB_GRACE
        assert await storage.sweep_blobs(later) == 0
        await storage.delete(THREAD)
        assert await storage.sweep_blobs(later) == 1

    async def test_a_lease_stays_behind_and_a_timer_comes_along(self, storage: Storage, source: Scribe) -> None:
        made = await source.append(THREAD, patch=ThreadPatch(wake_at=5, attempts=2, status="waiting"))
        row = (await storage.put_thread(await take(source.storage, THREAD))).key
        assert [each.key for each in await storage.due("", 10)] == [row]
        now = source.clock.now()
        await source.storage.claim(THREAD, "me", until=now + SECOND, now=now)
        copy = await take(source.storage, THREAD)
        await storage.delete(THREAD)
        copied = await storage.put_thread(copy)
        assert (copied.lease_owner, copied.lease_until, copied.epoch, copied.attempts) == (None, 0, 1, 2)
        assert copied.created == made.row.created
        assert (await storage.claim(THREAD, "you", until=now + SECOND, now=now)).epoch == 2

    async def test_the_same_copy_again_changes_nothing(self, storage: Storage, source: Scribe) -> None:
        copy = await busy_thread(source)
        first = await storage.put_thread(copy)
        before = await storage.sizes(THREAD)
        assert await storage.put_thread(copy) == first
        assert msgspec.structs.replace(await storage.sizes(THREAD), disk_bytes=0) == msgspec.structs.replace(
            before, disk_bytes=0
        )

    async def test_of_many_who_put_the_same_copy_all_are_answered(
        self, storage: Storage, source: Scribe, together: Together
    ) -> None:
        copy = await busy_thread(source)
        answers = await together([storage.put_thread(copy) for _ in range(8)])
        assert list(answers) == [copy.row] * 8
        assert await storage.entries(THREAD) == copy.entries

    async def test_readers_see_all_of_a_copy_or_nothing(
        self, storage: Storage, source: Scribe, together: Together
    ) -> None:
        await source.grow(THREAD, 200)
        copy = await take(source.storage, THREAD)
        reads = [storage.restore(THREAD) for _ in range(8)]
        _, *answers = await together([storage.put_thread(copy), *reads])
        assert {len(found.entries) if found else 0 for found in answers} <= {0, 200}

    async def test_a_key_that_is_taken_is_refused(self, storage: Storage, scribe: Scribe, source: Scribe) -> None:
        await scribe.grow(THREAD, 3)
        before = await everything(storage, THREAD)
        copy = await busy_thread(source)
        with pytest.raises(ThreadExistsError):
            await storage.put_thread(copy)
        assert await everything(storage, THREAD) == before

    async def test_a_copy_may_get_another_name(self, storage: Storage, source: Scribe) -> None:
        copy = await busy_thread(source)
        key = ThreadKey("other", "bob", "t9")
        await storage.put_thread(copy.under(key))
        assert await storage.entries(key) == copy.entries
        marks = await storage.user_checkpoints("other", "bob", ALL)
        assert {(mark.thread_id, mark.user) for mark in marks} == {("t9", "bob")}
        assert (await storage.namespaces(), await storage.thread(THREAD)) == (["other"], None)

    async def test_a_uid_that_another_thread_has_is_not_used_twice(self, storage: Storage, source: Scribe) -> None:
        copy = await busy_thread(source)
        await storage.put_thread(copy)
        second = copy.under(OTHER)
        with pytest.raises(ThreadExistsError):
            await storage.put_thread(second)
        made = await storage.put_thread(msgspec.structs.replace(second, spare_uid="another"))
        assert made.uid == "another"
        assert await storage.entries(OTHER) == await storage.entries(THREAD)
        listed = await storage.user_checkpoints("", "alice", ALL)
        assert [row.mark.id for row in listed] == [row.mark.id for row in reversed(copy.checkpoints)]
        page = CheckpointQuery(before=copy.checkpoints[-1].mark.id, limit=1)
        for key in (THREAD, OTHER):
            assert seen(await storage.checkpoints(key, page)) == seen(named(copy.checkpoints[-2:-1], key))

    async def test_an_empty_thread_can_be_copied(self, storage: Storage, source: Scribe) -> None:
        await source.append(THREAD)
        await source.fork(THREAD, 0, OTHER)
        made = await storage.put_thread(await take(source.storage, OTHER))
        assert (made.head, made.parent_uid, await storage.entries(OTHER)) == (0, None, [])

    async def test_an_absent_thread_cannot_be_taken(self, storage: Storage) -> None:
        with pytest.raises(NotFoundError):
            await take(storage, THREAD)

    async def test_namespaces_are_those_that_have_threads(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.namespaces() == []
        for namespace in ("b", "", "a", "b"):
            await scribe.append(ThreadKey(namespace, "alice", "t1"))
        await scribe.append(ThreadKey("gone", "alice", "t1"))
        await storage.delete(ThreadKey("gone", "alice", "t1"))
        assert await storage.namespaces() == ["", "a", "b"]


class GrowingContract(Moving):
    """Copying again what has grown."""

    @pytest.mark.parametrize("whole", [True, False])
    async def test_a_copy_of_a_thread_that_has_grown_adds_what_is_missing(
        self, storage: Storage, source: Scribe, place: Place, whole: bool
    ) -> None:
        first = await storage.put_thread(await busy_thread(source))
        await busy_thread(source, "l")
        after, chain = (0, GENESIS) if whole else (first.head, first.head_digest)
        copy = await take(source.storage, THREAD, after=after, chain=chain)
        made = await storage.put_thread(copy)
        assert made == copy.row
        storage = await place.reopen(storage)
        assert await everything(storage, THREAD) == await everything(source.storage, THREAD)
        assert (await storage.append(source.write(THREAD, idem_key="l", request=REQUEST))).again
        assert await storage.put_thread(copy) == made

    async def test_an_epoch_never_goes_back(self, storage: Storage, source: Scribe) -> None:
        await storage.put_thread(await busy_thread(source))
        lease = await storage.claim(THREAD, "me", until=5, now=0)
        await storage.release(THREAD, lease.epoch)
        await source.append(THREAD)
        assert (await storage.put_thread(await take(source.storage, THREAD))).epoch == lease.epoch

    async def test_a_thread_that_went_its_own_way_is_left_alone(self, storage: Storage, source: Scribe) -> None:
        await storage.put_thread(await busy_thread(source))
        await storage.append(source.write(THREAD))
        before = await everything(storage, THREAD)
        for _ in range(2):
            with pytest.raises(ThreadExistsError):
                await storage.put_thread(await take(source.storage, THREAD))
            await source.grow(THREAD, 2)
        assert await everything(storage, THREAD) == before

    async def test_a_thread_that_somebody_runs_does_not_grow(self, storage: Storage, source: Scribe) -> None:
        copy = await busy_thread(source)
        await storage.put_thread(copy)
        await storage.claim(THREAD, "me", until=5, now=0)
        assert (await storage.put_thread(copy)).lease_owner == "me"
        await source.append(THREAD)
        with pytest.raises(LeaseHeldError):
            await storage.put_thread(await take(source.storage, THREAD))
        assert len(await storage.entries(THREAD)) == copy.row.head

    async def test_the_rest_of_a_thread_needs_its_beginning(self, storage: Storage, source: Scribe) -> None:
        whole = await busy_thread(source)
        rest = await take(source.storage, THREAD, after=2, chain=whole.entries[1].chain)
        with pytest.raises(NotFoundError):
            await storage.put_thread(rest)
        assert await storage.thread(THREAD) is None


Bent = Callable[[ThreadCopy], ThreadCopy]


def _bent(at: int, **changes: Any) -> Bent:
    def bend(copy: ThreadCopy) -> ThreadCopy:
        entries = [*copy.entries]
        entries[at] = msgspec.structs.replace(entries[at], **changes)
        return msgspec.structs.replace(copy, entries=entries)

    return bend


BENT: dict[str, Bent] = {
    "a payload": _bent(1, payload=b"\x01\x00\x00else"),
    "no payload": _bent(1, payload=None),
    "a digest": _bent(1, digest=bytes(32)),
    "a link": _bent(1, chain=bytes(32)),
    "a time": _bent(1, micros=1),
    "a key": _bent(0, key="another"),
    "the last entry": lambda copy: msgspec.structs.replace(copy, entries=copy.entries[:-1]),
    "the first entry": lambda copy: msgspec.structs.replace(copy, entries=copy.entries[1:]),
    "the head": lambda copy: msgspec.structs.replace(
        copy, row=msgspec.structs.replace(copy.row, head_digest=bytes(32))
    ),
    "a large value": lambda copy: msgspec.structs.replace(
        copy, blobs=[msgspec.structs.replace(copy.blobs[0], payload=b"\x01\x00\x00else")]
    ),
}


class DamagedCopyContract(Moving):
    """Copies that are not what they were."""

    @pytest.mark.parametrize("what", BENT)
    async def test_a_damaged_copy_is_refused_and_nothing_is_written(
        self, storage: Storage, source: Scribe, what: str
    ) -> None:
        copy = await busy_thread(source)
        with pytest.raises(DamagedError):
            await storage.put_thread(BENT[what](copy))
        sizes = await storage.sizes()
        assert (sizes.threads, sizes.entries, sizes.checkpoints, sizes.blobs) == (0, 0, 0, 0)
        assert await storage.thread(THREAD) is None
        assert await storage.put_thread(copy) == copy.row


async def busy_thread(scribe: Scribe, key: str = "k") -> ThreadCopy:
    """A copy of a thread to which writes of every kind were made."""
    patch = ThreadPatch(name="é", agent="bot", tags=("x", "y"), status="waiting", metadata=encode({"k": "é"}))
    await scribe.append(THREAD, STATE, MESSAGE, idem_key=key, request=REQUEST, patch=patch)
    await scribe.save(THREAD, metadata={"a": [1, 2.5, None]}, note="first", status="ok")
    await scribe.append(THREAD, EntryKind.TOOL_FAILED, entries=(scribe.entry(MESSAGE, actor="漢 'x'"),))
    await scribe.append(THREAD, entries=(referring(scribe, BLOB), scribe.entry()), blobs=(BLOB,))
    await scribe.save(THREAD, kind="routine", version=1)
    return await take(scribe.storage, THREAD)


def referring(scribe: Scribe, blob: Blob) -> Any:
    """An entry that refers to a large value."""
    return scribe.entry(body=msgspec.msgpack.encode([{"x": Ext(zoo.BLOB, blob.digest)}, encode("y")]))


async def everything(storage: Storage, key: ThreadKey) -> tuple[ThreadRow | None, list[Entry], list[CheckpointRow]]:
    """A thread as a storage has it."""
    marks = await storage.checkpoints(key, ALL)
    return await storage.thread(key), await storage.entries(key), seen(marks)


def seen(rows: list[CheckpointRow]) -> list[CheckpointRow]:
    """Checkpoints without what their writers had left open."""
    return [
        msgspec.structs.replace(row, mark=msgspec.structs.replace(row.mark, parent=None, version=None)) for row in rows
    ]


def named(rows: list[CheckpointRow], key: ThreadKey) -> list[CheckpointRow]:
    """Checkpoints as those of another thread."""
    return [msgspec.structs.replace(row, thread_id=key.id, user=key.user) for row in rows]
