"""Leases: one owner at a time, a number for each, and a list of those that need somebody."""

from __future__ import annotations

import pytest

from perdure.core.errors import LeaseHeldError, LeaseLostError, NotFoundError
from perdure.core.identity import ThreadKey
from perdure.core.threads import Lease, ThreadPatch, Which
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place, Together
from perdure.testing.scribe import OTHER, SECOND, THREAD, Scribe

NOW = 1_800_000_000 * SECOND
TTL = 30 * SECOND


class LeaseContract(Contract):
    """Claiming, renewing, giving back."""

    async def test_the_first_claim_gets_the_first_epoch(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        lease = await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        assert lease == Lease(owner="me", epoch=1, until=NOW + TTL)
        row = await storage.thread(THREAD)
        assert row is not None
        assert (row.lease_owner, row.epoch, row.lease_until) == ("me", 1, NOW + TTL)
        assert (row.head, row.updated) == (made.row.head, made.row.updated)

    async def test_a_live_lease_is_not_given_away(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        for owner in ("you", "me"):
            with pytest.raises(LeaseHeldError) as caught:
                await storage.claim(THREAD, owner, until=NOW + 2 * TTL, now=NOW + TTL - 1)
            assert caught.value.owner == "me"
        row = await storage.thread(THREAD)
        assert row is not None
        assert (row.epoch, row.lease_until) == (1, NOW + TTL)

    async def test_a_lease_that_ran_out_is_taken_with_the_next_epoch(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        lease = await storage.claim(THREAD, "you", until=NOW + 2 * TTL, now=NOW + TTL)
        assert (lease.owner, lease.epoch) == ("you", 2)

    async def test_a_dead_owners_lease_is_taken_at_once(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "dead", until=NOW + TTL, now=NOW)
        lease = await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW, take_from="dead")
        assert (lease.owner, lease.epoch) == ("me", 2)
        with pytest.raises(LeaseHeldError):
            await storage.claim(THREAD, "you", until=NOW + TTL, now=NOW, take_from="dead")

    async def test_epochs_grow_with_each_claim(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        for epoch in (1, 2, 3):
            assert (await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)).epoch == epoch
            await storage.release(THREAD, epoch)

    async def test_a_renewed_lease_lasts_longer_and_never_shorter(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        assert (await storage.renew(THREAD, 1, until=NOW + 2 * TTL, now=NOW)).until == NOW + 2 * TTL
        assert (await storage.renew(THREAD, 1, until=NOW, now=NOW)).until == NOW + 2 * TTL

    async def test_a_lost_lease_is_neither_renewed_nor_given_back(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW, now=NOW - TTL)
        await storage.claim(THREAD, "you", until=NOW + TTL, now=NOW)
        with pytest.raises(LeaseLostError):
            await storage.renew(THREAD, 1, until=NOW + 9 * TTL, now=NOW)
        with pytest.raises(LeaseLostError):
            await storage.release(THREAD, 1)
        row = await storage.thread(THREAD)
        assert row is not None
        assert (row.lease_owner, row.epoch, row.lease_until) == ("you", 2, NOW + TTL)

    async def test_a_lease_given_back_is_gone(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        await storage.release(THREAD, 1)
        with pytest.raises(LeaseLostError):
            await storage.renew(THREAD, 1, until=NOW + TTL, now=NOW)
        with pytest.raises(LeaseLostError):
            await storage.release(THREAD, 1)
        row = await storage.thread(THREAD)
        assert row is not None
        assert (row.lease_owner, row.lease_until, row.epoch) == (None, 0, 1)

    async def test_a_thread_that_nobody_claimed_cannot_be_renewed(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        with pytest.raises(LeaseLostError):
            await storage.renew(THREAD, 0, until=NOW, now=NOW)

    async def test_an_absent_thread_has_no_lease(self, storage: Storage) -> None:
        with pytest.raises(NotFoundError):
            await storage.claim(THREAD, "me", until=NOW, now=0)
        with pytest.raises(NotFoundError):
            await storage.renew(THREAD, 1, until=NOW, now=NOW)
        with pytest.raises(NotFoundError):
            await storage.release(THREAD, 1)
        assert await storage.thread(THREAD) is None

    async def test_only_one_of_many_claimers_wins(self, storage: Storage, scribe: Scribe, together: Together) -> None:
        await scribe.append()
        works = [storage.claim(THREAD, f"owner {n}", until=NOW + TTL, now=NOW) for n in range(16)]
        answers = await together(works)
        won = [answer for answer in answers if isinstance(answer, Lease)]
        assert [lease.epoch for lease in won] == [1]
        assert sum(isinstance(answer, LeaseHeldError) for answer in answers) == 15

    async def test_a_lease_lasts_through_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        storage = await place.reopen(storage)
        with pytest.raises(LeaseHeldError):
            await storage.claim(THREAD, "you", until=NOW + TTL, now=NOW)
        assert (await storage.renew(THREAD, 1, until=NOW + 2 * TTL, now=NOW)).owner == "me"


class DueContract(Contract):
    """Who needs somebody."""

    async def test_a_lease_that_ran_out_is_due(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW, now=NOW - TTL)
        assert await due(storage, NOW - 1) == []
        assert await due(storage, NOW) == [THREAD]

    async def test_what_will_be_due_can_be_seen_ahead(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + 5, now=NOW)
        rows = [await storage.due("", NOW, ahead=ahead) for ahead in (0, 4, 5)]
        assert [[row.key for row in each] for each in rows] == [[], [], [THREAD]]

    async def test_a_timer_that_ran_out_is_due(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, patch=ThreadPatch(wake_at=NOW))
        assert await due(storage, NOW - 1) == []
        assert await due(storage, NOW) == [THREAD]

    async def test_a_released_thread_can_ask_to_be_woken(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        await storage.release(THREAD, 1, wake_at=NOW + 1)
        assert await due(storage, NOW) == []
        assert await due(storage, NOW + 1) == [THREAD]

    async def test_a_timer_waits_while_somebody_runs_the_thread(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        await scribe.append(THREAD, epoch=1, patch=ThreadPatch(wake_at=NOW))
        assert await due(storage, NOW + 1) == []
        assert await due(storage, NOW + TTL) == [THREAD]

    async def test_a_timer_that_is_set_meanwhile_stays_when_the_lease_is_given_back(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        await scribe.append()
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        await scribe.append(THREAD, epoch=1, patch=ThreadPatch(wake_at=NOW + 5))
        await storage.release(THREAD, 1)
        assert await due(storage, NOW + 4) == []
        assert await due(storage, NOW + 5) == [THREAD]

    async def test_of_two_timers_the_earlier_stays(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        for mine, other in ((1, 5), (5, 1)):
            lease = await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
            await scribe.append(THREAD, epoch=lease.epoch, patch=ThreadPatch(wake_at=NOW + other))
            await storage.release(THREAD, lease.epoch, wake_at=NOW + mine)
            assert await due(storage, NOW) == []
            assert await due(storage, NOW + 1) == [THREAD]

    async def test_a_timer_can_be_set_for_one_status_only(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, patch=ThreadPatch(status="decided", wake_at=NOW))
        kept = await scribe.append(THREAD, patch=ThreadPatch(wake_at=NOW + 9, if_status="input_required", attempts=1))
        moved = await scribe.append(THREAD, patch=ThreadPatch(wake_at=NOW + 9, if_status="decided"))
        assert (kept.row.wake_at, kept.row.attempts, moved.row.wake_at) == (NOW, 1, NOW + 9)

    async def test_due_threads_are_told_apart_by_their_status(self, storage: Storage, scribe: Scribe) -> None:
        for at, status in enumerate(("queued", "decided", "input_required", "decided"), 1):
            await scribe.append(ThreadKey("", "", f"{status} {at}"), patch=ThreadPatch(status=status, wake_at=at))
        paused = Which(statuses=("input_required", "other"))
        assert [row.key.id for row in await storage.due("", NOW, which=paused)] == ["input_required 3"]
        left = Which(never=("input_required",), left=("decided", "running"), since=3)
        assert [row.key.id for row in await storage.due("", NOW, which=left)] == ["queued 1", "decided 4"]
        assert [row.key.id for row in await storage.due("", NOW, 1, which=left)] == ["queued 1"]

    async def test_what_an_owner_left_can_be_left_to_a_person(self, storage: Storage, scribe: Scribe) -> None:
        for key, status in ((THREAD, "decided"), (OTHER, "running")):
            await scribe.append(key, patch=ThreadPatch(status=status))
            await storage.claim(key, "me", until=NOW + 5, now=NOW)
        chosen = {("decided",): [OTHER], ("running", "other"): [THREAD], ("decided", "running"): []}
        for cut_off, keys in chosen.items():
            found = await storage.due("", NOW + 9, agents=[""], which=Which(never=("x",), cut_off=cut_off))
            assert [row.key for row in found] == keys

    async def test_timers_and_leases_are_left_to_a_person_each_by_their_own_statuses(
        self, storage: Storage, scribe: Scribe
    ) -> None:
        """A run that was cut off beside a question is no answer that waits, and the other way round."""
        await scribe.append(OTHER, patch=ThreadPatch(status="decided", wake_at=NOW + 4))
        await scribe.append(THREAD, patch=ThreadPatch(status="decided", wake_at=NOW + 1))
        await storage.claim(THREAD, "me", until=NOW + 5, now=NOW)
        by_timer, by_lease = Which(left=("decided",), since=NOW + 9), Which(cut_off=("decided",), since=NOW + 9)
        found = [await storage.due("", NOW + 9, which=which) for which in (by_timer, by_lease)]
        assert [[row.key for row in each] for each in found] == [[THREAD], [OTHER]]
        assert [row.key for row in await storage.due("", NOW, ahead=9, which=by_lease)] == [OTHER]

    async def test_a_claim_answers_the_timer(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, patch=ThreadPatch(wake_at=NOW))
        await storage.claim(THREAD, "me", until=NOW + TTL, now=NOW)
        await storage.release(THREAD, 1)
        assert await due(storage, NOW + 9 * TTL) == []

    async def test_a_released_or_unclaimed_thread_is_not_due(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(OTHER)
        await scribe.append(THREAD)
        await storage.claim(THREAD, "me", until=NOW, now=NOW - TTL)
        await storage.release(THREAD, 1)
        assert await due(storage, NOW + TTL) == []

    async def test_what_waits_longest_comes_first(self, storage: Storage, scribe: Scribe) -> None:
        keys = [ThreadKey("", "", name) for name in "abcd"]
        for key, at in zip(keys, (4, 2, 3, 1), strict=True):
            await scribe.append(key, patch=ThreadPatch(wake_at=NOW + at))
        for key, at in ((keys[0], 4), (keys[2], 3)):
            await storage.claim(key, "me", until=NOW + at, now=NOW)
        assert [key.id for key in await due(storage, NOW + 9)] == ["d", "b", "c", "a"]
        assert [key.id for key in await due(storage, NOW + 9, limit=2)] == ["d", "b"]
        assert [key.id for key in await due(storage, NOW + 2)] == ["d", "b"]

    async def test_due_work_of_namespaces_is_apart(self, storage: Storage, scribe: Scribe) -> None:
        there = ThreadKey("staging", "", "t")
        await scribe.append(there, patch=ThreadPatch(wake_at=1))
        assert await due(storage, NOW) == []
        assert [row.key for row in await storage.due("staging", NOW)] == [there]

    async def test_due_threads_come_as_their_whole_line(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append(THREAD, patch=ThreadPatch(wake_at=1, name="n", tags=("x",), attempts=3))
        assert await storage.due("", NOW) == [made.row]

    async def test_due_work_is_chosen_by_agent(self, storage: Storage, scribe: Scribe) -> None:
        keys = [ThreadKey("", "", name) for name in "abcdef"]
        for at, (key, agent) in enumerate(zip(keys, ("bot", None, "Bot", "bot ", "x'; --", ""), strict=True), 1):
            await scribe.append(key, patch=ThreadPatch(agent=agent, wake_at=at))
        await storage.claim(keys[0], "me", until=NOW, now=0)
        chosen = {("bot",): "a", ("",): "bf", ("Bot", ""): "bcf", ("x'; --", "bot ", "none"): "de", ("BOT",): ""}
        for agents, names in chosen.items():
            found = [row.key.id for row in await storage.due("", NOW, agents=agents)]
            assert found == list(names)

    async def test_no_agents_at_all_have_nothing_due(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, patch=ThreadPatch(wake_at=1))
        await scribe.append(OTHER, patch=ThreadPatch(wake_at=1, agent="bot"))
        assert await storage.due("", NOW, agents=[]) == []
        assert len(await storage.due("", NOW, agents=None)) == 2

    async def test_a_limit_counts_only_the_chosen_agents(self, storage: Storage, scribe: Scribe) -> None:
        keys = [ThreadKey("", "", name) for name in "abcdefgh"]
        for at, key in enumerate(keys, 1):
            await scribe.append(key, patch=ThreadPatch(agent=f"agent {at % 4}", wake_at=at))
        agents = ["agent 3", "agent 1", "agent 1"]
        assert [row.key.id for row in await storage.due("", NOW, 3, agents)] == ["a", "c", "e"]
        assert [row.key.id for row in await storage.due("", NOW, agents=agents)] == ["a", "c", "e", "g"]

    async def test_many_agents_may_be_asked_for(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append(THREAD, patch=ThreadPatch(agent="agent 77", wake_at=1))
        await scribe.append(OTHER, patch=ThreadPatch(agent="another", wake_at=1))
        assert await storage.due("", NOW, agents=[f"agent {number}" for number in range(300)]) == [made.row]


async def due(storage: Storage, now: int, limit: int = 100) -> list[ThreadKey]:
    """Which threads are due."""
    return [row.key for row in await storage.due("", now, limit)]
