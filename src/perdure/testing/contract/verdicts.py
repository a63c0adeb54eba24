"""Verdicts: what a write expects is checked, in one order, with one error each, and nothing is written then."""

from __future__ import annotations

import pytest

from perdure.core.entries import EntryKind
from perdure.core.errors import LeaseHeldError, LeaseLostError, NotFoundError, VersionConflictError
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract
from perdure.testing.scribe import MESSAGE, SECOND, STATE, THREAD, Scribe

TTL = 30 * SECOND


class VerdictContract(Contract):
    """Expected version, thread, lease."""

    async def test_a_stale_writer_is_refused_and_changes_nothing(self, storage: Storage, scribe: Scribe) -> None:
        before = (await scribe.grow(THREAD, 2)).row
        with pytest.raises(VersionConflictError) as caught:
            await scribe.append(THREAD, expected=1)
        assert (caught.value.expected, caught.value.actual) == (1, 2)
        assert await storage.thread(THREAD) == before

    async def test_expected_is_the_last_version_that_changed_the_state(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, STATE, MESSAGE, MESSAGE)
        made = await scribe.append(THREAD, expected=1)
        assert made.version == 4
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, expected=3)

    async def test_a_version_from_the_future_is_refused(self, scribe: Scribe) -> None:
        await scribe.append()
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, expected=2)

    async def test_expecting_nothing_makes_a_thread_and_only_once(self, scribe: Scribe) -> None:
        assert (await scribe.append(THREAD, expected=0)).version == 1
        with pytest.raises(VersionConflictError) as caught:
            await scribe.append(THREAD, expected=0)
        assert (caught.value.expected, caught.value.actual) == (0, 1)

    async def test_expecting_a_version_of_an_absent_thread_conflicts(self, scribe: Scribe) -> None:
        with pytest.raises(VersionConflictError) as caught:
            await scribe.append(THREAD, expected=4)
        assert (caught.value.expected, caught.value.actual) == (4, 0)

    async def test_a_write_that_expects_nothing_in_particular_rebases(self, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        assert (await scribe.append(THREAD, MESSAGE)).version == 3
        assert (await scribe.append(THREAD, commutes=True)).version == 4

    @pytest.mark.parametrize("kind", [MESSAGE, STATE])
    async def test_whoever_names_a_version_gets_it_checked(self, scribe: Scribe, kind: EntryKind) -> None:
        await scribe.grow(THREAD, 2)
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, kind, expected=1, commutes=True)

    async def test_the_thread_that_the_caller_knows_is_written(self, scribe: Scribe) -> None:
        first = await scribe.append()
        assert (await scribe.append(THREAD, uid=first.row.uid)).version == 2

    async def test_a_deleted_thread_is_not_made_again_by_a_late_writer(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        await storage.delete(THREAD)
        with pytest.raises(NotFoundError):
            await scribe.append(THREAD, uid=first.row.uid)
        assert await storage.thread(THREAD) is None

    async def test_a_thread_made_again_by_another_is_not_written(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append()
        await storage.delete(THREAD)
        second = await scribe.append()
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, uid=first.row.uid, expected=1)
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, MESSAGE, uid=first.row.uid)
        assert await storage.thread(THREAD) == second.row

    async def test_a_run_in_an_absent_thread_is_told_so(self, scribe: Scribe) -> None:
        with pytest.raises(NotFoundError):
            await scribe.append(THREAD, epoch=1)

    async def test_a_state_write_from_outside_waits_for_the_run(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        with pytest.raises(LeaseHeldError) as caught:
            await scribe.append(THREAD)
        assert caught.value.owner == "me"
        assert len(await storage.entries(THREAD)) == 1

    async def test_messages_and_appends_go_past_a_live_lease(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        assert (await scribe.append(THREAD, MESSAGE)).version == 2
        assert (await scribe.append(THREAD, STATE, MESSAGE, commutes=True)).version == 4

    async def test_a_write_with_any_change_of_state_is_held_back(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        with pytest.raises(LeaseHeldError):
            await scribe.append(THREAD, MESSAGE, STATE)

    async def test_a_lease_that_ran_out_holds_nobody_back(self, storage: Storage, scribe: Scribe) -> None:
        until = await leased(storage, scribe)
        assert (await scribe.append(THREAD, micros=until)).version == 2

    async def test_a_lease_holds_others_back_to_its_last_moment(self, storage: Storage, scribe: Scribe) -> None:
        until = await leased(storage, scribe)
        with pytest.raises(LeaseHeldError):
            await scribe.append(THREAD, micros=until - 1)

    async def test_the_run_itself_writes_and_rebases(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        await scribe.append(THREAD, commutes=True)
        assert (await scribe.append(THREAD, epoch=1)).version == 3

    async def test_a_late_writer_of_an_older_epoch_is_refused(self, storage: Storage, scribe: Scribe) -> None:
        until = await leased(storage, scribe)
        await storage.claim(THREAD, "you", until=until + TTL, now=until)
        with pytest.raises(LeaseLostError) as caught:
            await scribe.append(THREAD, MESSAGE, epoch=1)
        assert (caught.value.epoch, caught.value.actual) == (1, 2)
        assert len(await storage.entries(THREAD)) == 1

    async def test_a_run_that_gave_its_lease_back_writes_no_more(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        await storage.release(THREAD, 1)
        with pytest.raises(LeaseLostError):
            await scribe.append(THREAD, epoch=1)

    async def test_a_run_whose_lease_ran_out_unnoticed_still_writes(self, storage: Storage, scribe: Scribe) -> None:
        until = await leased(storage, scribe)
        assert (await scribe.append(THREAD, epoch=1, micros=until + TTL)).version == 2

    async def test_a_write_inside_a_run_renews_the_lease(self, storage: Storage, scribe: Scribe) -> None:
        until = await leased(storage, scribe)
        made = await scribe.append(THREAD, epoch=1, renew_until=until + TTL)
        assert made.row.lease_until == until + TTL
        await scribe.append(THREAD, epoch=1, renew_until=until)
        assert await lease_until(storage) == until + TTL

    async def test_a_write_outside_a_run_renews_nothing(self, storage: Storage, scribe: Scribe) -> None:
        until = await leased(storage, scribe)
        await scribe.append(THREAD, MESSAGE, renew_until=until + TTL)
        assert await lease_until(storage) == until

    async def test_another_thread_is_noticed_before_a_lost_lease(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, uid="somebody else's", epoch=7)

    async def test_a_lost_lease_is_noticed_before_a_stale_version(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        with pytest.raises(LeaseLostError):
            await scribe.append(THREAD, epoch=7, expected=9)

    async def test_a_held_lease_is_noticed_before_a_stale_version(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        with pytest.raises(LeaseHeldError):
            await scribe.append(THREAD, expected=9)

    async def test_a_run_can_be_stale_too(self, storage: Storage, scribe: Scribe) -> None:
        await leased(storage, scribe)
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, epoch=1, expected=9)


async def leased(storage: Storage, scribe: Scribe) -> int:
    """Make the thread, lease it to "me" with epoch 1, and return until when."""
    await scribe.append()
    until = scribe.clock.now() + TTL
    await storage.claim(THREAD, "me", until=until, now=scribe.clock.now())
    return until


async def lease_until(storage: Storage) -> int:
    """Until when the thread is leased."""
    row = await storage.thread(THREAD)
    assert row is not None
    return row.lease_until
