"""Writes of a caller who knows the thread, as engines make them: judged and kept like any other.

A storage may have shorter ways for such a write (one entry, to a thread that is there), and a shorter one still for a
thread that it was the last to write. So each test is done by one opening, and by two in turn.
"""

from __future__ import annotations

import itertools
from collections.abc import Coroutine
from datetime import timedelta
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.digest import GENESIS, verify_links
from perdure.core.errors import KeyReusedError, LeaseHeldError, LeaseLostError, NotFoundError, VersionConflictError
from perdure.core.threads import ThreadQuery
from perdure.core.writes import Appended, Write
from perdure.storage.contract import Storage
from perdure.testing.clock import ManualClock
from perdure.testing.contract.running import Contract, Place, Run, Together
from perdure.testing.scribe import MESSAGE, OTHER, SECOND, STATE, THREAD, Scribe

TTL = 30 * SECOND
WRITERS = 16


class ByTurns:
    """Two openings of a place that write in turn: neither knows what the other did last."""

    def __init__(self, first: Storage, second: Storage) -> None:
        self._first = first
        self._turns = itertools.cycle((first, second))

    def append(self, write: Write) -> Coroutine[Any, Any, Appended]:
        return next(self._turns).append(write)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._first, name)


class _Openings(Contract):
    """One opening or two."""

    @pytest.fixture(params=["one", "two"])
    def opened(self, run: Run, place: Place, request: pytest.FixtureRequest) -> Any:
        first = run(place.ready())
        return first if request.param == "one" else ByTurns(first, run(place.ready()))

    @pytest.fixture
    def author(self, opened: Storage, clock: ManualClock) -> Scribe:
        return Scribe(opened, clock)


class KnownContract(_Openings):
    """One writer."""

    async def test_a_known_thread_moves_by_one_version(self, opened: Storage, author: Scribe) -> None:
        first = await author.append()
        made = await author.append(THREAD, uid=first.row.uid, expected=1)
        assert (made.version, made.state_version, made.before, made.again) == (2, 2, 1, False)
        assert await opened.thread(THREAD) == made.row

    async def test_a_message_to_a_known_thread_changes_no_state(self, opened: Storage, author: Scribe) -> None:
        first = await author.append()
        made = await author.append(THREAD, MESSAGE, uid=first.row.uid, idem_key="k", request=b"r")
        assert (made.version, made.state_version, made.row.state_version) == (2, 0, 1)
        assert await opened.thread(THREAD) == made.row

    async def test_an_entry_of_a_known_thread_comes_back_whole(self, opened: Storage, author: Scribe) -> None:
        uid, new = (await author.append()).row.uid, author.entry(STATE, actor="Zoë")
        write = author.write(THREAD, entries=(new,), uid=uid, idem_key="k", request=b"r" * 32)
        made = await opened.append(write)
        (entry,) = await opened.entries(THREAD, after=1)
        assert (entry.kind, entry.actor, entry.schema) == (STATE, "Zoë", new.schema)
        assert (entry.payload, entry.digest, entry.micros) == (new.payload, new.digest, write.micros)
        assert (entry.write_id, entry.key, entry.request) == (write.write_id, "k", b"r" * 32)
        assert entry.chain == made.row.head_digest

    async def test_the_chain_digest_of_a_known_thread_leads_to_its_head(self, opened: Storage, author: Scribe) -> None:
        uid = (await author.append()).row.uid
        await author.append(THREAD, uid=uid, expected=1, idem_key="k", request=b"r", checkpoint=author.mark())
        made = await author.append(THREAD, uid=uid, expected=2)
        assert verify_links(THREAD.id, 0, GENESIS, await opened.entries(THREAD)) == made.row.head_digest

    async def test_times_of_a_known_thread_never_go_back(self, opened: Storage, author: Scribe) -> None:
        first = await author.append()
        author.clock.advance(timedelta(hours=-2))
        made = await author.append(THREAD, uid=first.row.uid, expected=1, checkpoint=author.mark())
        assert [entry.micros for entry in await opened.entries(THREAD)] == [first.row.updated] * 2
        assert made.row.updated == first.row.updated
        assert [row.micros for row in await opened.checkpoints(THREAD, CheckpointQuery())] == [first.row.updated]

    async def test_a_stale_writer_of_a_known_thread_is_refused(self, opened: Storage, author: Scribe) -> None:
        before = (await author.grow(THREAD, 2)).row
        with pytest.raises(VersionConflictError) as caught:
            await author.append(THREAD, uid=before.uid, expected=1)
        assert (caught.value.expected, caught.value.actual) == (1, 2)
        assert await opened.thread(THREAD) == before

    async def test_a_deleted_thread_that_forks_still_need_is_not_written(self, opened: Storage, author: Scribe) -> None:
        uid = (await author.append()).row.uid
        await author.fork(THREAD, 1, OTHER)
        await opened.delete(THREAD)
        with pytest.raises(NotFoundError):
            await author.append(THREAD, MESSAGE, uid=uid)
        assert len(await opened.entries(OTHER)) == 1

    async def test_a_late_writer_to_a_known_thread_is_refused(self, opened: Storage, author: Scribe) -> None:
        uid, until = await leased(opened, author)
        await opened.claim(THREAD, "you", until=until + TTL, now=until)
        with pytest.raises(LeaseLostError):
            await author.append(THREAD, uid=uid, epoch=1, expected=1)
        await opened.release(THREAD, 2)
        with pytest.raises(LeaseLostError):
            await author.append(THREAD, uid=uid, epoch=2, expected=1)
        assert len(await opened.entries(THREAD)) == 1

    async def test_a_run_that_wrote_before_is_a_late_writer_after_the_next_claim(
        self, opened: Storage, author: Scribe
    ) -> None:
        uid, until = await leased(opened, author)
        for expected in (1, 2):
            await author.append(THREAD, uid=uid, epoch=1, expected=expected)
        await opened.claim(THREAD, "you", until=until + TTL, now=until)
        for expected in (3, None):
            with pytest.raises(LeaseLostError):
                await author.append(THREAD, uid=uid, epoch=1, expected=expected)
        assert len(await opened.entries(THREAD)) == 3

    async def test_a_run_whose_lease_was_given_back_elsewhere_is_a_late_writer(
        self, opened: Storage, author: Scribe, place: Place
    ) -> None:
        uid, _ = await leased(opened, author)
        for expected in (1, 2):
            await author.append(THREAD, uid=uid, epoch=1, expected=expected)
        await (await place.ready()).release(THREAD, 1)
        for expected in (3, None):
            with pytest.raises(LeaseLostError):
                await author.append(THREAD, uid=uid, epoch=1, expected=expected)
        assert len(await opened.entries(THREAD)) == 3

    async def test_a_lease_that_was_renewed_elsewhere_is_not_cut_short_by_a_write(
        self, opened: Storage, author: Scribe, place: Place
    ) -> None:
        uid, until = await leased(opened, author)
        for expected in (1, 2):
            await author.append(THREAD, uid=uid, epoch=1, expected=expected)
        await (await place.ready()).renew(THREAD, 1, until=until + TTL, now=author.clock.now())
        made = await author.append(THREAD, uid=uid, epoch=1, expected=3, renew_until=until + 1)
        assert (await opened.thread(THREAD), made.row.lease_until) == (made.row, until + TTL)

    async def test_a_state_write_to_a_known_thread_waits_for_the_run(self, opened: Storage, author: Scribe) -> None:
        uid, until = await leased(opened, author)
        with pytest.raises(LeaseHeldError):
            await author.append(THREAD, uid=uid, expected=1, micros=until - 1)
        assert (await author.append(THREAD, uid=uid, commutes=True)).version == 2
        assert (await author.append(THREAD, MESSAGE, uid=uid)).version == 3
        assert (await author.append(THREAD, uid=uid, micros=until)).version == 4

    async def test_a_write_to_a_known_thread_renews_the_lease_of_its_run(self, opened: Storage, author: Scribe) -> None:
        uid, until = await leased(opened, author)
        made = await author.append(THREAD, uid=uid, epoch=1, expected=1, renew_until=until + TTL)
        assert (made.row.lease_until, made.row.lease_owner) == (until + TTL, "me")
        for expected, asked in ((2, until), (3, until + 2 * TTL), (4, 0)):
            later = await author.append(THREAD, uid=uid, epoch=1, expected=expected, renew_until=asked)
            assert later.row.lease_until == (until + TTL if expected == 2 else until + 2 * TTL)
        outside = await author.append(THREAD, uid=uid, expected=5, commutes=True, renew_until=until + 9 * TTL)
        assert await opened.thread(THREAD) == outside.row
        assert outside.row.lease_until == until + 2 * TTL

    async def test_checkpoints_of_a_known_thread_follow_each_other(self, opened: Storage, author: Scribe) -> None:
        uid, marks = (await author.append()).row.uid, [author.mark(), author.mark(version=1)]
        made = [await author.append(THREAD, uid=uid, expected=n, checkpoint=mark) for n, mark in enumerate(marks, 1)]
        plain = await author.append(THREAD, MESSAGE, uid=uid)
        last = author.mark(parent=marks[0].id, note="n")
        made.append(await author.append(THREAD, uid=uid, expected=3, checkpoint=last))
        told = [(row.mark.id, row.version, row.parent) for each in made if (row := each.checkpoint)]
        kept = [(row.mark.id, row.version, row.parent) for row in await opened.checkpoints(THREAD, CheckpointQuery())]
        assert kept == told[::-1]
        assert [(version, parent) for _, version, parent in told] == [(2, None), (1, marks[0].id), (5, marks[0].id)]
        assert (plain.checkpoint, plain.row.last_checkpoint) == (None, marks[1].id)
        assert await opened.thread(THREAD) == made[-1].row

    async def test_a_known_thread_that_is_written_to_comes_first_in_the_directory(
        self, opened: Storage, author: Scribe
    ) -> None:
        for _ in range(2):
            for key in (THREAD, OTHER):
                for wait in (timedelta(), timedelta(seconds=40), timedelta(hours=3)):
                    author.clock.advance(wait)
                    await author.append(key, MESSAGE)
                found = await opened.threads(ThreadQuery(namespace="", user="alice"))
                assert [row.key for row in found][:1] == [key]

    async def test_a_key_of_a_known_thread_answers_again(self, opened: Storage, author: Scribe) -> None:
        uid = (await author.append()).row.uid
        first = await author.append(THREAD, uid=uid, expected=1, idem_key="k", request=b"1", checkpoint=author.mark())
        again = await author.append(THREAD, uid=uid, expected=2, idem_key="k", request=b"1", checkpoint=author.mark())
        assert (again.again, again.version, again.checkpoint) == (True, 2, first.checkpoint)
        with pytest.raises(KeyReusedError):
            await author.append(THREAD, uid=uid, expected=2, idem_key="k", request=b"2")
        assert await opened.thread(THREAD) == first.row


class KnownTogetherContract(_Openings):
    """Several writers."""

    async def test_every_acknowledged_write_to_a_known_thread_is_there_once(
        self, opened: Storage, author: Scribe, together: Together
    ) -> None:
        uid = (await author.append()).row.uid
        writes = [author.write(THREAD, uid=uid, checkpoint=author.mark()) for _ in range(WRITERS)]
        answers = await together([opened.append(write) for write in writes])
        found = await opened.entries(THREAD, after=1)
        assert [entry.version for entry in found] == list(range(2, WRITERS + 2))
        at = {entry.version: entry.write_id for entry in found}
        assert [at[made.version] for made in answers] == [write.write_id for write in writes]

    async def test_of_many_writers_that_expect_the_same_of_a_known_thread_one_wins(
        self, opened: Storage, author: Scribe, together: Together
    ) -> None:
        uid = (await author.append()).row.uid
        answers = await together([opened.append(author.write(THREAD, uid=uid, expected=1)) for _ in range(WRITERS)])
        assert sum(isinstance(answer, Appended) for answer in answers) == 1
        assert {answer.actual for answer in answers if isinstance(answer, VersionConflictError)} == {2}
        assert len(await opened.entries(THREAD)) == 2

    async def test_of_many_writers_with_one_key_to_a_known_thread_one_writes(
        self, opened: Storage, author: Scribe, together: Together
    ) -> None:
        known: dict[str, Any] = {"uid": (await author.append()).row.uid, "idem_key": "k", "request": b"r"}
        answers: Any = await together([opened.append(author.write(THREAD, **known)) for _ in range(WRITERS)])
        assert {made.version for made in answers} == {2}
        assert sorted(made.again for made in answers) == [False] + [True] * (WRITERS - 1)

    async def test_no_write_of_a_run_lands_behind_the_next_claim(
        self, opened: Storage, author: Scribe, together: Together
    ) -> None:
        uid, until = await leased(opened, author)
        for epoch in range(1, 9):
            known: dict[str, Any] = {"uid": uid, "epoch": epoch, "request": b"r"}
            writes = [author.write(THREAD, MESSAGE, **known, idem_key=f"{epoch} {n}") for n in range(WRITERS)]
            works = [opened.append(write) for write in writes]
            works.insert(2, opened.claim(THREAD, "next", until=until, now=until))  # type: ignore[arg-type]
            answers = await together(works)
            made = [answer for answer in answers if isinstance(answer, Appended)]
            assert [each.row.epoch for each in made] == [epoch] * len(made)
            assert sum(isinstance(answer, LeaseLostError) for answer in answers) == WRITERS - len(made)


async def leased(opened: Storage, author: Scribe) -> tuple[str, int]:
    """Make the thread, lease it to "me" with epoch 1, and return its uid and until when."""
    uid = (await author.append()).row.uid
    until = author.clock.now() + TTL
    await opened.claim(THREAD, "me", until=until, now=author.clock.now())
    return uid, until
