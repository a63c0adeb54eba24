"""Quarantined threads: read and written like others, never run, and marked in whatever is made from them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from perdure.core.entries import EntryKind
from perdure.core.errors import QuarantinedError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.quarantine import RUN_KINDS
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.transfer import ThreadCopy
from perdure.storage.contract import Storage
from perdure.storage.transfer import take
from perdure.testing.contract.running import Place
from perdure.testing.contract.transfer import Moving
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe

ORIGIN = "ab" * 32
SINCE = 7
LATE = 1 << 60
THIRD = ThreadKey("", "alice", "t3")
TRUST = ThreadPatch(trusted=True)


class QuarantineContract(Moving):
    """What a storage refuses and keeps of a thread that nobody has trusted."""

    async def test_the_mark_and_the_origin_last(self, storage: Storage, source: Scribe, place: Place) -> None:
        made = await quarantined(storage, source)
        assert (made.quarantined_at, made.origin, made.origin_version) == (SINCE, ORIGIN, made.head)
        storage = await place.reopen(storage)
        assert await storage.thread(THREAD) == made
        assert await storage.threads(ThreadQuery()) == [made]
        assert await storage.find("", "t1") == [made]
        taken = await take(storage, THREAD)
        assert taken.row == made

    async def test_it_is_written_like_any_other(self, storage: Storage, source: Scribe) -> None:
        row = await quarantined(storage, source)
        for kinds in ((STATE,), (MESSAGE,), (MESSAGE, STATE), (EntryKind.RUN_CANCELLED,)):
            made = await storage.append(source.write(THREAD, *kinds, uid=row.uid))
            assert made.row == msgspec.structs.replace(
                made.row, quarantined_at=SINCE, origin=ORIGIN, origin_version=row.head
            )
        patch = ThreadPatch(name="seen", tags=("a",), wake_at=3, status="waiting", agent="agent")
        made = await storage.append(source.write(THREAD, uid=row.uid, patch=patch, checkpoint=source.mark()))
        assert (made.row.name, made.row.quarantined_at) == ("seen", SINCE)
        assert await storage.thread(THREAD) == made.row
        assert await storage.due("", LATE) == []

    async def test_it_is_never_due(self, storage: Storage, source: Scribe, place: Place) -> None:
        await quarantined(storage, source, status="waiting", wake_at=5, agent="agent")
        awake = await source.append(OTHER, patch=ThreadPatch(wake_at=6))
        await storage.put_thread(await take(source.storage, OTHER))
        for reopened in (False, True):
            storage = await place.reopen(storage) if reopened else storage
            assert [row.uid for row in await storage.due("", LATE)] == [awake.row.uid]
            assert await storage.due("", LATE, agents=["agent"]) == []
            assert await storage.due("", 0, ahead=LATE, agents=["agent"]) == []

    async def test_no_lease_of_it_is_given(self, storage: Storage, source: Scribe) -> None:
        row = await quarantined(storage, source)
        with pytest.raises(QuarantinedError, match="perdure trust"):
            await storage.claim(THREAD, "me", until=LATE, now=1)
        assert await storage.thread(THREAD) == row

    @pytest.mark.parametrize("kind", sorted(RUN_KINDS))
    async def test_nothing_is_started_answered_or_signalled(
        self, storage: Storage, source: Scribe, kind: EntryKind
    ) -> None:
        row = await quarantined(storage, source)
        keyed: dict[str, Any] = {"idem_key": "k", "request": b"r" * 32}
        for fields in ({}, {"uid": row.uid}, keyed, {"patch": ThreadPatch(wake_at=1)}):
            for kinds in ((kind,), (MESSAGE, kind)):
                with pytest.raises(QuarantinedError):
                    await storage.append(source.write(THREAD, *kinds, **fields))
        assert await storage.thread(THREAD) == row
        await storage.append(source.write(THREAD))  # the line is known now, by whatever way that was
        with pytest.raises(QuarantinedError):
            await storage.append(source.write(THREAD, kind, uid=row.uid))

    async def test_trust_ends_it_and_keeps_the_origin(self, storage: Storage, source: Scribe, place: Place) -> None:
        row = await quarantined(storage, source, status="waiting", wake_at=5, agent="agent")
        made = await storage.append(source.write(THREAD, EntryKind.THREAD_TRUSTED, head=row.head, patch=TRUST))
        assert (made.row.quarantined_at, made.row.origin, made.row.origin_version) == (None, ORIGIN, row.head)
        for reopened in (False, True):
            storage = await place.reopen(storage) if reopened else storage
            assert await storage.due("", 6) == [made.row]
        lease = await storage.claim(THREAD, "me", until=LATE, now=6)
        assert lease.epoch == row.epoch + 1

    async def test_trust_of_another_head_than_was_seen_is_refused(self, storage: Storage, source: Scribe) -> None:
        row = await quarantined(storage, source)
        grown = await storage.append(source.write(THREAD, MESSAGE))
        for uid in (None, row.uid):
            write = source.write(THREAD, EntryKind.THREAD_TRUSTED, uid=uid, head=row.head, patch=TRUST)
            with pytest.raises(VersionConflictError):
                await storage.append(write)
        assert await storage.thread(THREAD) == grown.row

    async def test_a_fork_has_the_standing_of_its_parent(self, storage: Storage, source: Scribe, place: Place) -> None:
        await quarantined(storage, source, wake_at=5)
        here = Scribe(storage, source.clock, seed=3)
        for version, key in ((1, OTHER), (0, THIRD)):
            fork = await here.fork(THREAD, version, key)
            assert (fork.quarantined_at, fork.origin) == (SINCE, ORIGIN)
        again = await here.fork(OTHER, 1, ThreadKey("", "alice", "t4"))
        assert again.is_quarantined
        await storage.delete(THREAD)
        storage = await place.reopen(storage)
        for key in (OTHER, THIRD, again.key):
            with pytest.raises(QuarantinedError):
                await storage.claim(key, "me", until=LATE, now=1)

    @pytest.mark.parametrize("forged_first", [True, False])
    async def test_a_checkpoint_is_that_of_the_trusted_thread(
        self, storage: Storage, source: Scribe, forged_first: bool
    ) -> None:
        made = await source.save(THREAD)
        copies = [marked((await take(source.storage, THREAD, spare_uid=source.uid())).under(OTHER))]
        copies.insert(forged_first, await take(source.storage, THREAD, spare_uid=source.uid()))
        for copy in copies:
            await storage.put_thread(copy)
        for user in ("alice", None):
            found = await storage.checkpoint("", user, made.mark.id)
            assert found is not None
            assert found.thread_id == "t1"

    async def test_a_grown_thread_has_the_standing_that_its_copy_names(self, storage: Storage, source: Scribe) -> None:
        row = await quarantined(storage, source)
        await source.append(THREAD)
        copy = marked(await take(source.storage, THREAD))
        grown = await storage.put_thread(copy)
        assert (grown.head, grown.is_quarantined) == (row.head + 1, True)
        await source.append(THREAD)
        grown = await storage.put_thread(await take(source.storage, THREAD))
        assert (grown.head, grown.is_quarantined, grown.origin) == (row.head + 2, False, None)
        assert await storage.thread(THREAD) == grown

    async def test_a_trusted_fork_shares_no_past_with_a_quarantined_parent(
        self, storage: Storage, source: Scribe
    ) -> None:
        parent = await quarantined(storage, source)
        await source.fork(THREAD, 2, OTHER)
        await source.append(OTHER)
        fork = await storage.put_thread(await take(source.storage, OTHER))
        assert fork.parent_uid not in (None, parent.uid)
        await source.fork(THREAD, 2, THIRD)
        third = await storage.put_thread(marked(await take(source.storage, THIRD)))
        assert third.parent_uid == parent.uid

    async def test_the_past_of_a_quarantined_fork_is_no_past_of_a_trusted_one(
        self, storage: Storage, source: Scribe
    ) -> None:
        await source.grow(THREAD, 3)
        for key in (OTHER, THIRD):
            await source.fork(THREAD, 2, key)
            await source.append(key)
        first = await storage.put_thread(marked(await take(source.storage, OTHER)))
        second = await storage.put_thread(await take(source.storage, THIRD))
        assert first.parent_uid != second.parent_uid
        assert [entry.version for entry in await storage.entries(THIRD)] == [1, 2, 3]


async def quarantined(storage: Storage, source: Scribe, **fields: Any) -> ThreadRow:
    """A thread of three versions that came from a file, and is not trusted."""
    await source.grow(THREAD, 3)
    copy = await take(source.storage, THREAD)
    row = msgspec.structs.replace(copy.row, **fields)
    return await storage.put_thread(marked(msgspec.structs.replace(copy, row=row)))


def marked(copy: ThreadCopy) -> ThreadCopy:
    """The copy as it arrives from a file."""
    row = msgspec.structs.replace(copy.row, quarantined_at=SINCE, origin=ORIGIN, origin_version=copy.row.head)
    return msgspec.structs.replace(copy, row=row)
