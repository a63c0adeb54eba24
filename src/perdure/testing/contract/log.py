"""The log: what is appended is there, whole, in order, and for good."""

from __future__ import annotations

from datetime import timedelta
from hashlib import sha256

import msgspec
import pytest

from perdure.core.codec import encode
from perdure.core.digest import GENESIS, digest_of, verify_links
from perdure.core.entries import EntryKind
from perdure.core.envelope import seal, seal_packed
from perdure.core.errors import VersionConflictError
from perdure.core.threads import ThreadPatch
from perdure.storage.contract import Storage
from perdure.testing.clock import SeededRandomness
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of

NOISE = SeededRandomness(7).bytes(200_000)
BODIES = {"empty": b"", "zeros": bytes(1000), "noise": NOISE, "not utf-8": b"\xff\xfe\x00\n\r{}", "newlines": b"\n" * 9}


class LogContract(Contract):
    """Appending and reading entries."""

    async def test_the_first_write_makes_the_thread(self, storage: Storage, scribe: Scribe) -> None:
        write = scribe.write(THREAD, patch=ThreadPatch(name="Ticket"))
        made = await storage.append(write)
        row = await storage.thread(THREAD)
        assert row == made.row
        assert (made.row.uid, made.row.name, made.row.created) == (write.new_uid, "Ticket", write.micros)

    async def test_entries_of_one_write_get_versions_in_their_order(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        write = scribe.write(THREAD, STATE, MESSAGE, EntryKind.RUN_STARTED)
        await storage.append(write)
        found = await storage.entries(THREAD, after=1)
        assert [(entry.version, entry.kind) for entry in found] == [
            (2, STATE),
            (3, MESSAGE),
            (4, EntryKind.RUN_STARTED),
        ]
        assert [entry.payload for entry in found] == [entry.payload for entry in write.entries]

    async def test_an_answer_tells_the_versions_before_and_after(self, scribe: Scribe) -> None:
        await scribe.append()
        made = await scribe.append(THREAD, STATE, MESSAGE)
        assert (made.before, made.state_version, made.version, made.again) == (1, 2, 3, False)
        assert (made.row.head, made.row.state_version) == (3, 2)

    async def test_a_write_without_a_change_of_state_says_so(self, scribe: Scribe) -> None:
        await scribe.append()
        made = await scribe.append(THREAD, MESSAGE)
        assert (made.before, made.state_version, made.row.state_version, made.row.head) == (1, 0, 1, 2)

    async def test_a_refused_write_leaves_nothing_behind(self, storage: Storage, scribe: Scribe) -> None:
        before = (await scribe.append()).row
        blob = blob_of("large")
        refused = scribe.write(THREAD, STATE, MESSAGE, expected=9, checkpoint=scribe.mark(), blobs=(blob,))
        refused = msgspec.structs.replace(refused, patch=ThreadPatch(name="new"), idem_key="k")
        with pytest.raises(VersionConflictError):
            await storage.append(refused)
        assert await storage.thread(THREAD) == before
        assert len(await storage.entries(THREAD)) == 1
        assert await storage.blobs(THREAD, [blob.digest]) == {}

    async def test_a_refused_first_write_makes_no_thread(self, storage: Storage, scribe: Scribe) -> None:
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, expected=3)
        assert await storage.thread(THREAD) is None
        assert await storage.entries(THREAD) == []

    async def test_an_entry_comes_back_whole(self, storage: Storage, scribe: Scribe) -> None:
        new = scribe.entry(MESSAGE, actor="Zoë")
        write = scribe.write(THREAD, entries=(new,), idem_key="k-1", request=b"r" * 32)
        made = await storage.append(write)
        (entry,) = await storage.entries(THREAD)
        assert (entry.kind, entry.actor, entry.schema) == (MESSAGE, "Zoë", new.schema)
        assert (entry.payload, entry.digest, entry.micros) == (new.payload, new.digest, write.micros)
        assert (entry.write_id, entry.key, entry.request) == (write.write_id, "k-1", b"r" * 32)
        assert entry.chain == made.row.head_digest

    async def test_an_entry_without_actor_and_key_has_none(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        (entry,) = await storage.entries(THREAD)
        assert (entry.actor, entry.key, entry.request) == (None, None, None)

    @pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
    async def test_payload_bytes_come_back_exactly(self, storage: Storage, scribe: Scribe, body: bytes) -> None:
        plain = scribe.entry(STATE, body=body)
        packed = msgspec.structs.replace(plain, payload=seal_packed(body))
        await scribe.append(THREAD, entries=(plain, packed))
        found = await storage.entries(THREAD)
        assert [entry.payload for entry in found] == [seal(body), seal_packed(body)]
        assert [entry.digest for entry in found] == [digest_of(body)] * 2

    async def test_every_kind_of_entry_is_kept(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, *EntryKind)
        assert [entry.kind for entry in await storage.entries(THREAD)] == list(EntryKind)

    async def test_only_the_first_entry_of_a_write_carries_its_key(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE, idem_key="k", request=b"r")
        found = await storage.entries(THREAD)
        assert [(entry.key, entry.request) for entry in found] == [("k", b"r"), (None, None)]
        assert found[0].write_id == found[1].write_id

    async def test_entries_after_a_version_and_up_to_a_limit(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 6)
        found = await storage.entries(THREAD, after=2, limit=3)
        assert [entry.version for entry in found] == [3, 4, 5]
        assert await storage.entries(THREAD, after=6) == []
        assert await storage.entries(THREAD, limit=0) == []

    async def test_entries_of_chosen_kinds_count_towards_the_limit(self, storage: Storage, scribe: Scribe) -> None:
        for _ in range(3):
            await scribe.append(THREAD, STATE, MESSAGE)
        found = await storage.entries(THREAD, after=1, limit=2, kinds=[MESSAGE])
        assert [entry.version for entry in found] == [2, 4]
        both = await storage.entries(THREAD, kinds=[MESSAGE, STATE])
        assert [entry.version for entry in both] == [1, 2, 3, 4, 5, 6]
        assert await storage.entries(THREAD, kinds=[]) == []

    async def test_a_thread_that_is_not_there_has_no_entries(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        assert await storage.entries(OTHER) == []
        assert await storage.thread(OTHER) is None

    async def test_a_write_touches_no_other_thread(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        await scribe.append(OTHER)
        assert await storage.thread(THREAD) == first.row
        assert len(await storage.entries(THREAD)) == 1

    async def test_times_never_go_back_when_the_clock_does(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        scribe.clock.advance(timedelta(hours=-2))
        second = await scribe.append(THREAD, checkpoint=scribe.mark())
        assert [entry.micros for entry in await storage.entries(THREAD)] == [first.row.updated] * 2
        assert second.row.updated == first.row.updated
        assert second.checkpoint is not None
        assert second.checkpoint.micros == first.row.updated

    async def test_the_chain_of_digests_leads_to_the_head(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE, idem_key="k")
        made = await scribe.grow(THREAD, 3)
        found = await storage.entries(THREAD)
        assert verify_links(THREAD.id, 0, GENESIS, found) == made.row.head_digest

    async def test_a_chain_digest_is_the_published_formula(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE, idem_key="k", request=b"r")
        chain = bytes(32)
        for entry in await storage.entries(THREAD):
            said = (entry.kind.value, entry.schema, entry.actor, entry.write_id, entry.key, entry.request)
            numbers = entry.version.to_bytes(8, "big") + entry.micros.to_bytes(8, "big", signed=True)
            chain = sha256(chain + numbers + msgspec.msgpack.encode(said) + entry.digest).digest()
            assert entry.chain == chain

    async def test_a_patch_changes_only_what_it_names(self, storage: Storage, scribe: Scribe) -> None:
        first = ThreadPatch(name="a", agent="bot", tags=("x", "y"), status="running", wake_at=5, attempts=2)
        await scribe.append(THREAD, patch=first)
        await scribe.append(THREAD, patch=ThreadPatch(status="idle"))
        row = await storage.thread(THREAD)
        assert row is not None
        assert (row.name, row.agent, row.tags, row.status) == ("a", "bot", ("x", "y"), "idle")
        assert (row.wake_at, row.attempts) == (5, 2)

    async def test_metadata_stays_until_other_metadata_takes_its_place(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        first, second = encode({"title": "Ünï 'x'", "n": (1, 2.5, None)}), encode({})
        await scribe.append(THREAD, patch=ThreadPatch(metadata=first))
        made = await scribe.append(THREAD, patch=ThreadPatch(name="n"))
        await scribe.fork(THREAD, 2, OTHER, metadata=second)
        storage = await place.reopen(storage)
        assert await storage.thread(THREAD) == made.row
        assert made.row.metadata == first
        child = await storage.thread(OTHER)
        assert child is not None
        assert child.metadata == second
        changed = await storage.append(scribe.write(THREAD, patch=ThreadPatch(metadata=second)))
        assert changed.row.metadata == second

    async def test_a_patch_can_empty_tags_and_clear_the_timer(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, patch=ThreadPatch(tags=("x",), wake_at=5))
        made = await scribe.append(THREAD, patch=ThreadPatch(tags=(), wake_at=0))
        assert (made.row.tags, made.row.wake_at) == ((), None)
        assert await storage.thread(THREAD) == made.row

    async def test_everything_is_there_after_opening_again(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        patch = ThreadPatch(name="Ünï", agent="bot", tags=("a,b", 'c"d'), status="running")
        made = await scribe.append(THREAD, STATE, MESSAGE, patch=patch, checkpoint=scribe.mark())
        before = await storage.entries(THREAD)
        again = await place.reopen(storage)
        assert await again.thread(THREAD) == made.row
        assert await again.entries(THREAD) == before

    async def test_a_log_goes_on_after_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.append()
        again = await place.reopen(storage)
        made = await again.append(scribe.write(THREAD, expected=1))
        assert made.version == 2
        assert verify_links(THREAD.id, 0, GENESIS, await again.entries(THREAD)) == made.row.head_digest

    async def test_two_openings_of_one_place_see_each_other(
        self, storage: Storage, scribe: Scribe, place: Place
    ) -> None:
        second = await place.ready()
        await scribe.append()
        made = await second.append(scribe.write(THREAD, expected=1, checkpoint=scribe.mark()))
        await scribe.append(THREAD, expected=2)
        assert [entry.version for entry in await second.entries(THREAD)] == [1, 2, 3]
        assert made.checkpoint is not None
        assert await storage.checkpoint("", "alice", made.checkpoint.mark.id) == made.checkpoint
