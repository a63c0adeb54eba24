"""Writes of a caller who knows the thread, as engines make them: judged and kept like any other.

A storage may have a shorter way for such a write: one entry, to a thread that is there.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import KeyReusedError, LeaseHeldError, LeaseLostError, VersionConflictError
from perdure.core.writes import Appended
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Together
from perdure.testing.scribe import MESSAGE, SECOND, STATE, THREAD, Scribe

TTL = 30 * SECOND
WRITERS = 16


class KnownContract(Contract):
    """One writer."""

    async def test_a_known_thread_moves_by_one_version(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        made = await scribe.append(THREAD, uid=first.row.uid, expected=1)
        assert (made.version, made.state_version, made.before, made.again) == (2, 2, 1, False)
        assert await storage.thread(THREAD) == made.row

    async def test_a_message_to_a_known_thread_changes_no_state(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        made = await scribe.append(THREAD, MESSAGE, uid=first.row.uid)
        assert (made.version, made.state_version, made.row.state_version) == (2, 0, 1)
        assert await storage.thread(THREAD) == made.row

    async def test_an_entry_of_a_known_thread_comes_back_whole(self, storage: Storage, scribe: Scribe) -> None:
        uid, new = (await scribe.append()).row.uid, scribe.entry(STATE, actor="Zoë")
        write = scribe.write(THREAD, entries=(new,), uid=uid, idem_key="k", request=b"r" * 32)
        made = await storage.append(write)
        (entry,) = await storage.entries(THREAD, after=1)
        assert (entry.kind, entry.actor, entry.schema) == (STATE, "Zoë", new.schema)
        assert (entry.payload, entry.digest, entry.micros) == (new.payload, new.digest, write.micros)
        assert (entry.write_id, entry.key, entry.request) == (write.write_id, "k", b"r" * 32)
        assert entry.chain == made.row.head_digest

    async def test_the_chain_digest_of_a_known_thread_leads_to_its_head(self, storage: Storage, scribe: Scribe) -> None:
        uid = (await scribe.append()).row.uid
        await scribe.append(THREAD, uid=uid, idem_key="k", request=b"r", checkpoint=scribe.mark())
        made = await scribe.append(THREAD, MESSAGE, uid=uid)
        assert verify_links(THREAD.id, 0, GENESIS, await storage.entries(THREAD)) == made.row.head_digest

    async def test_times_of_a_known_thread_never_go_back(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        scribe.clock.advance(timedelta(hours=-2))
        made = await scribe.append(THREAD, uid=first.row.uid, checkpoint=scribe.mark())
        assert [entry.micros for entry in await storage.entries(THREAD)] == [first.row.updated] * 2
        assert made.row.updated == first.row.updated
        assert [row.micros for row in await storage.checkpoints(THREAD, CheckpointQuery())] == [first.row.updated]

    async def test_a_stale_writer_of_a_known_thread_is_refused(self, storage: Storage, scribe: Scribe) -> None:
        before = (await scribe.grow(THREAD, 2)).row
        with pytest.raises(VersionConflictError) as caught:
            await scribe.append(THREAD, uid=before.uid, expected=1)
        assert (caught.value.expected, caught.value.actual) == (1, 2)
        assert await storage.thread(THREAD) == before

    async def test_a_late_writer_to_a_known_thread_is_refused(self, storage: Storage, scribe: Scribe) -> None:
        uid, until = await leased(storage, scribe)
        await storage.claim(THREAD, "you", until=until + TTL, now=until)
        with pytest.raises(LeaseLostError):
            await scribe.append(THREAD, uid=uid, epoch=1)
        await storage.release(THREAD, 2)
        with pytest.raises(LeaseLostError):
            await scribe.append(THREAD, MESSAGE, uid=uid, epoch=2)
        assert len(await storage.entries(THREAD)) == 1

    async def test_a_state_write_to_a_known_thread_waits_for_the_run(self, storage: Storage, scribe: Scribe) -> None:
        uid, until = await leased(storage, scribe)
        with pytest.raises(LeaseHeldError):
            await scribe.append(THREAD, uid=uid, expected=1, micros=until - 1)
        assert (await scribe.append(THREAD, uid=uid, commutes=True)).version == 2
        assert (await scribe.append(THREAD, MESSAGE, uid=uid)).version == 3
        assert (await scribe.append(THREAD, uid=uid, micros=until)).version == 4

    async def test_a_write_to_a_known_thread_renews_the_lease_of_its_run(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        uid, until = await leased(storage, scribe)
        made = await scribe.append(THREAD, uid=uid, epoch=1, renew_until=until + TTL)
        assert (made.row.lease_until, made.row.lease_owner) == (until + TTL, "me")
        assert (await scribe.append(THREAD, uid=uid, epoch=1, renew_until=until)).row.lease_until == until + TTL
        outside = await scribe.append(THREAD, MESSAGE, uid=uid, renew_until=until + 9 * TTL)
        assert await storage.thread(THREAD) == outside.row
        assert outside.row.lease_until == until + TTL

    async def test_checkpoints_of_a_known_thread_follow_each_other(self, storage: Storage, scribe: Scribe) -> None:
        uid, marks = (await scribe.append()).row.uid, [scribe.mark(), scribe.mark(version=1)]
        made = [await scribe.append(THREAD, uid=uid, checkpoint=mark) for mark in marks]
        plain = await scribe.append(THREAD, MESSAGE, uid=uid)
        made.append(await scribe.append(THREAD, uid=uid, checkpoint=scribe.mark(parent=marks[0].id, note="n")))
        told = [(row.mark.id, row.version, row.parent) for each in made if (row := each.checkpoint)]
        kept = [(row.mark.id, row.version, row.parent) for row in await storage.checkpoints(THREAD, CheckpointQuery())]
        assert kept == told[::-1]
        assert [(version, parent) for _, version, parent in told] == [(2, None), (1, marks[0].id), (5, marks[0].id)]
        assert (plain.checkpoint, plain.row.last_checkpoint) == (None, marks[1].id)

    async def test_a_key_of_a_known_thread_answers_again(self, storage: Storage, scribe: Scribe) -> None:
        uid = (await scribe.append()).row.uid
        first = await scribe.append(THREAD, uid=uid, expected=1, idem_key="k", request=b"1", checkpoint=scribe.mark())
        again = await scribe.append(THREAD, uid=uid, expected=2, idem_key="k", request=b"1", checkpoint=scribe.mark())
        assert (again.again, again.version, again.checkpoint) == (True, 2, first.checkpoint)
        with pytest.raises(KeyReusedError):
            await scribe.append(THREAD, uid=uid, expected=2, idem_key="k", request=b"2")
        assert await storage.thread(THREAD) == first.row


class KnownTogetherContract(Contract):
    """Several writers."""

    async def test_every_acknowledged_write_to_a_known_thread_is_there_once(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        uid = (await scribe.append()).row.uid
        writes = [scribe.write(THREAD, uid=uid, checkpoint=scribe.mark()) for _ in range(WRITERS)]
        answers = await together([storage.append(write) for write in writes])
        found = await storage.entries(THREAD, after=1)
        assert [entry.version for entry in found] == list(range(2, WRITERS + 2))
        at = {entry.version: entry.write_id for entry in found}
        assert [at[made.version] for made in answers] == [write.write_id for write in writes]

    async def test_of_many_writers_that_expect_the_same_of_a_known_thread_one_wins(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        uid = (await scribe.append()).row.uid
        answers = await together([storage.append(scribe.write(THREAD, uid=uid, expected=1)) for _ in range(WRITERS)])
        assert sum(isinstance(answer, Appended) for answer in answers) == 1
        assert {answer.actual for answer in answers if isinstance(answer, VersionConflictError)} == {2}
        assert len(await storage.entries(THREAD)) == 2

    async def test_of_many_writers_with_one_key_to_a_known_thread_one_writes(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        known: dict[str, Any] = {"uid": (await scribe.append()).row.uid, "idem_key": "k", "request": b"r"}
        answers: Any = await together([storage.append(scribe.write(THREAD, **known)) for _ in range(WRITERS)])
        assert {made.version for made in answers} == {2}
        assert sorted(made.again for made in answers) == [False] + [True] * (WRITERS - 1)

    async def test_no_write_of_a_run_lands_behind_the_next_claim(
        self, storage: Storage, scribe: Scribe, together: Together
    ) -> None:
        uid, until = await leased(storage, scribe)
        for epoch in range(1, 9):
            writes = [scribe.write(THREAD, MESSAGE, uid=uid, epoch=epoch) for _ in range(WRITERS)]
            works = [storage.append(write) for write in writes]
            works.insert(2, storage.claim(THREAD, "next", until=until, now=until))  # type: ignore[arg-type]
            answers = await together(works)
            made = [answer for answer in answers if isinstance(answer, Appended)]
            assert [each.row.epoch for each in made] == [epoch] * len(made)
            assert sum(isinstance(answer, LeaseLostError) for answer in answers) == WRITERS - len(made)


async def leased(storage: Storage, scribe: Scribe) -> tuple[str, int]:
    """Make the thread, lease it to "me" with epoch 1, and return its uid and until when."""
    uid = (await scribe.append()).row.uid
    until = scribe.clock.now() + TTL
    await storage.claim(THREAD, "me", until=until, now=scribe.clock.now())
    return uid, until
