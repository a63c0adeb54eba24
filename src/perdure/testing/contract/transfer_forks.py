"""Forks on their way from one storage to another: each brings its whole history."""

from __future__ import annotations

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import KeyReusedError
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadQuery
from perdure.storage.contract import BLOB_GRACE, Storage
from perdure.storage.transfer import take
from perdure.testing.contract.running import Place
from perdure.testing.contract.transfer import ALL, BLOB, Moving, everything, referring, seen
from perdure.testing.scribe import OTHER, THREAD, Scribe

GRANDCHILD = ThreadKey("", "alice", "t3")
SIBLING = ThreadKey("", "alice", "t4")
FIRST, SECOND_REQUEST = b"1" * 32, b"2" * 32


class TransferForkContract(Moving):
    """Copying forks."""

    async def test_a_fork_copied_alone_has_its_whole_history(
        self, storage: Storage, source: Scribe, place: Place
    ) -> None:
        await family(source)
        made = await storage.put_thread(await take(source.storage, GRANDCHILD))
        storage = await place.reopen(storage)
        row, entries, marks = await everything(storage, GRANDCHILD)
        there = await everything(source.storage, GRANDCHILD)
        assert (entries, marks) == there[1:]
        assert (made, verify_links("t3", 0, GENESIS, entries)) == (row, made.head_digest)
        assert [each.key for each in await storage.threads(ThreadQuery())] == [GRANDCHILD]
        assert await storage.thread(THREAD) is None

    async def test_every_version_of_a_copied_fork_restores(self, storage: Storage, source: Scribe) -> None:
        await family(source)
        copy = await take(source.storage, GRANDCHILD)
        await storage.put_thread(copy)
        for at in range(copy.row.head + 1):
            found = await storage.restore(GRANDCHILD, at=at)
            assert found is not None
            assert [entry.chain for entry in found.entries] == [entry.chain for entry in copy.entries[:at]]

    async def test_a_fork_beside_its_parent_shares_its_past(self, storage: Storage, source: Scribe) -> None:
        await family(source)
        for key in (THREAD, OTHER, GRANDCHILD):
            await storage.put_thread(await take(source.storage, key))
        there, here = await source.storage.sizes(), await storage.sizes()
        assert (here.threads, here.entries, here.checkpoints) == (there.threads, there.entries, there.checkpoints)
        for key in (THREAD, OTHER, GRANDCHILD):
            assert await everything(storage, key) == await everything(source.storage, key)

    @pytest.mark.parametrize("order", [(GRANDCHILD, OTHER, THREAD), (OTHER, GRANDCHILD, THREAD)])
    async def test_forks_may_come_before_their_parents(
        self, storage: Storage, source: Scribe, order: tuple[ThreadKey, ...]
    ) -> None:
        await family(source)
        for number, key in enumerate(order):
            await storage.put_thread(await take(source.storage, key, spare_uid=f"spare{number}"))
        for key in order:
            assert (await everything(storage, key))[1:] == (await everything(source.storage, key))[1:]
        listed = await storage.user_checkpoints("", "alice", ALL)
        there = await source.storage.user_checkpoints("", "alice", ALL)
        assert [row.mark.id for row in listed] == [row.mark.id for row in there]
        assert await storage.user_checkpoints("", "alice", CheckpointQuery(before=there[1].mark.id)) == listed[2:]

    async def test_a_fork_whose_parent_was_deleted_is_copied(self, storage: Storage, source: Scribe) -> None:
        await family(source)
        await source.fork(THREAD, 3, SIBLING)
        await source.storage.delete(THREAD)
        for number, key in enumerate((OTHER, SIBLING, GRANDCHILD)):
            await storage.put_thread(await take(source.storage, key, spare_uid=f"spare{number}"))
            assert (await everything(storage, key))[1:] == (await everything(source.storage, key))[1:]

    async def test_a_copied_forks_past_goes_with_it(self, storage: Storage, source: Scribe) -> None:
        await source.append(THREAD, entries=(referring(source, BLOB),), blobs=(BLOB,))
        await source.save(THREAD)
        await source.fork(THREAD, 2, OTHER)
        await source.append(OTHER)
        await storage.put_thread(await take(source.storage, OTHER))
        later = source.clock.now() + 2 * BLOB_GRACE
        assert await storage.sweep_blobs(later) == 0
        assert list(await storage.blobs(OTHER, [BLOB.digest])) == [BLOB.digest]
        await storage.delete(OTHER)
        assert await storage.sweep_blobs(later) == 1
        sizes = await storage.sizes()
        assert (sizes.threads, sizes.entries, sizes.checkpoints, sizes.blobs) == (0, 0, 0, 0)

    async def test_a_copied_fork_outlives_the_parent_it_shares_its_past_with(
        self, storage: Storage, source: Scribe
    ) -> None:
        await family(source)
        for key in (THREAD, OTHER):
            await storage.put_thread(await take(source.storage, key))
        await storage.delete(THREAD)
        assert (await everything(storage, OTHER))[1:] == (await everything(source.storage, OTHER))[1:]
        await storage.delete(OTHER)
        assert (await storage.sizes()).entries == 0

    async def test_keys_of_the_past_do_not_answer_for_a_copied_fork(self, storage: Storage, source: Scribe) -> None:
        """Each generation used the same key again, which is what running a fork again does."""
        for parent, key in ((None, THREAD), (THREAD, OTHER), (OTHER, GRANDCHILD)):
            if parent is not None:
                await source.fork(parent, 2 if parent == OTHER else 1, key)
            await source.append(key, idem_key="k", request=key.id.encode())
        await source.append(THREAD, idem_key="past", request=FIRST)
        await source.fork(GRANDCHILD, 3, SIBLING)
        for key in (SIBLING, GRANDCHILD):
            await storage.put_thread(await take(source.storage, key, spare_uid="spare"))
        assert [entry.key for entry in await storage.entries(SIBLING)] == ["k", "k", "k"]
        assert not (await storage.append(source.write(SIBLING, idem_key="k", request=SECOND_REQUEST))).again
        assert (await storage.append(source.write(GRANDCHILD, idem_key="k", request=b"t3"))).version == 3
        with pytest.raises(KeyReusedError):
            await storage.append(source.write(GRANDCHILD, idem_key="k", request=SECOND_REQUEST))

    async def test_a_parent_of_another_past_is_not_shared(self, storage: Storage, source: Scribe) -> None:
        await family(source)
        short = await take(source.storage, THREAD)
        await storage.put_thread(short)
        await storage.append(source.write(THREAD))
        await source.append(THREAD)
        await source.fork(THREAD, short.row.head + 1, SIBLING)
        await storage.put_thread(await take(source.storage, SIBLING))
        assert (await everything(storage, SIBLING))[1:] == (await everything(source.storage, SIBLING))[1:]

    async def test_a_copied_fork_grows(self, storage: Storage, source: Scribe, place: Place) -> None:
        await family(source)
        for key in (THREAD, OTHER):
            await storage.put_thread(await take(source.storage, key))
        await source.save(OTHER)
        made = await storage.put_thread(await take(source.storage, OTHER))
        storage = await place.reopen(storage)
        assert await everything(storage, OTHER) == await everything(source.storage, OTHER)
        assert made == await storage.thread(OTHER)

    async def test_a_copied_fork_can_be_forked(self, storage: Storage, source: Scribe) -> None:
        await family(source)
        copy = await take(source.storage, GRANDCHILD)
        await storage.put_thread(copy)
        for at in range(copy.row.head + 1):
            made = await storage.fork(GRANDCHILD, at, source.target(ThreadKey("", "alice", f"branch {at}")))
            assert await storage.entries(made.key) == copy.entries[:at]
        await storage.delete(GRANDCHILD)
        assert await storage.entries(ThreadKey("", "alice", "branch 5")) == copy.entries[:5]

    async def test_a_fork_for_another_user_shares_nothing(self, storage: Storage, source: Scribe) -> None:
        await family(source)
        for key in (THREAD, OTHER):
            await storage.put_thread(await take(source.storage, key))
        copy = await take(source.storage, OTHER, spare_uid="bobs")
        bobs = ThreadKey("", "bob", "t2")
        await storage.put_thread(copy.under(bobs))
        await storage.delete(THREAD)
        await storage.delete(OTHER)
        assert await storage.entries(bobs) == copy.entries
        assert [row.mark.id for row in seen(await storage.checkpoints(bobs, ALL))] == [
            row.mark.id for row in reversed(copy.checkpoints)
        ]


async def family(scribe: Scribe) -> None:
    """A thread of four versions, a fork of it at the third, and a fork of that at the fourth; with checkpoints."""
    await scribe.save(THREAD)
    await scribe.append(THREAD)
    await scribe.save(THREAD)
    await scribe.append(THREAD)
    await scribe.fork(THREAD, 3, OTHER)
    await scribe.save(OTHER)
    await scribe.append(OTHER)
    await scribe.fork(OTHER, 4, GRANDCHILD)
    await scribe.grow(GRANDCHILD, 2)
    await scribe.save(GRANDCHILD)
