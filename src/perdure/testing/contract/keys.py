"""Keys and write ids: the same request again is answered, not done again."""

from __future__ import annotations

import pytest

from perdure.core.entries import EntryKind
from perdure.core.errors import KeyReusedError, LeaseHeldError, VersionConflictError
from perdure.core.writes import Appended
from perdure.storage.contract import Storage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import BOBS, MESSAGE, OTHER, SECOND, STATE, THREAD, Scribe

FIRST, SECOND_REQUEST = b"1" * 32, b"2" * 32
HOSTILE = ["", " ", "a'; DROP TABLE entry--", 'qu"ote', "NaN", "../../x", "漢字" * 300, "line\nbreak", "%_"]


class KeyContract(Contract):
    """Idempotency keys."""

    async def test_the_same_key_again_gives_the_earlier_answer(self, storage: Storage, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, idem_key="k", request=FIRST, checkpoint=scribe.mark())
        await scribe.append()
        again = await scribe.append(THREAD, idem_key="k", request=FIRST, checkpoint=scribe.mark())
        assert again.again
        assert outcome(again) == outcome(first)
        assert [entry.version for entry in await storage.entries(THREAD)] == [1, 2]

    async def test_an_answer_given_again_carries_the_thread_as_it_is(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        newest = await scribe.append(THREAD, STATE, MESSAGE)
        again = await scribe.append(THREAD, idem_key="k", request=FIRST)
        assert again.row == newest.row
        assert await storage.thread(THREAD) == newest.row

    async def test_a_key_of_several_entries_answers_their_last_version(self, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, MESSAGE, STATE, idem_key="k", checkpoint=scribe.mark())
        again = await scribe.append(THREAD, MESSAGE, STATE, idem_key="k")
        assert outcome(again) == outcome(first)
        assert again.version == 2

    async def test_an_answer_given_again_names_the_same_version_of_the_state(self, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, STATE, MESSAGE, idem_key="k")
        again = await scribe.append(THREAD, STATE, MESSAGE, idem_key="k")
        assert (first.state_version, again.state_version) == (1, 1)

    async def test_a_key_answers_with_what_stands_when_it_would_be_written_otherwise_now(self, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, idem_key="k", request=FIRST, checkpoint=scribe.mark())
        again = await scribe.append(THREAD, EntryKind.THREAD_REWOUND, STATE, idem_key="k", request=FIRST)
        assert outcome(again) == outcome(first)

    async def test_a_key_used_for_another_request_is_refused(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        with pytest.raises(KeyReusedError) as caught:
            await scribe.append(THREAD, idem_key="k", request=SECOND_REQUEST)
        assert (caught.value.key, caught.value.version) == ("k", 3)
        assert len(await storage.entries(THREAD)) == 3

    async def test_no_request_is_another_request(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        with pytest.raises(KeyReusedError):
            await scribe.append(THREAD, idem_key="k", request=None)

    async def test_keys_belong_to_one_thread(self, scribe: Scribe) -> None:
        for key in (THREAD, OTHER, BOBS):
            made = await scribe.append(key, idem_key="k", request=key.id.encode() + key.user.encode())
            assert not made.again
            assert made.version == 1

    @pytest.mark.parametrize("text", HOSTILE)
    async def test_any_text_is_a_key_and_is_compared_exactly(self, scribe: Scribe, text: str) -> None:
        await scribe.append(THREAD, idem_key=text, request=FIRST)
        assert not (await scribe.append(THREAD, idem_key=text + "x", request=FIRST)).again
        assert (await scribe.append(THREAD, idem_key=text, request=FIRST)).again

    async def test_keys_differ_by_case_and_trailing_space(self, scribe: Scribe) -> None:
        made = [await scribe.append(THREAD, idem_key=key, request=FIRST) for key in ("k", "K", "k ", "é", "e\u0301")]
        assert [each.version for each in made] == [1, 2, 3, 4, 5]

    async def test_a_key_that_stands_is_found_before_a_conflict(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST, expected=0)
        await scribe.append()
        assert (await scribe.append(THREAD, idem_key="k", request=FIRST, expected=0)).again
        with pytest.raises(KeyReusedError):
            await scribe.append(THREAD, idem_key="k", request=SECOND_REQUEST, expected=0)

    async def test_a_key_that_stands_is_found_under_a_lease(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        await claim(storage, scribe)
        assert (await scribe.append(THREAD, idem_key="k", request=FIRST)).again
        assert (await scribe.append(THREAD, idem_key="k", request=FIRST, epoch=9)).again

    async def test_a_refused_write_does_not_use_up_its_key(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, idem_key="k", request=FIRST, expected=0)
        await claim(storage, scribe)
        with pytest.raises(LeaseHeldError):
            await scribe.append(THREAD, idem_key="k", request=SECOND_REQUEST)
        assert not (await scribe.append(THREAD, MESSAGE, idem_key="k", request=SECOND_REQUEST)).again

    async def test_keys_stand_after_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        first = await scribe.append(THREAD, idem_key="k", request=FIRST, checkpoint=scribe.mark())
        storage = await place.reopen(storage)
        again = await storage.append(scribe.write(THREAD, idem_key="k", request=FIRST))
        assert outcome(again) == outcome(first)
        with pytest.raises(KeyReusedError):
            await storage.append(scribe.write(THREAD, idem_key="k", request=SECOND_REQUEST))

    async def test_keys_go_with_their_thread(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        await storage.delete(THREAD)
        assert not (await scribe.append(THREAD, idem_key="k", request=SECOND_REQUEST)).again

    async def test_a_fork_has_keys_of_its_own(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        await scribe.fork(THREAD, 1, OTHER)
        made = await scribe.append(OTHER, idem_key="k", request=SECOND_REQUEST)
        assert (made.again, made.version) == (False, 2)
        assert (await scribe.append(OTHER, idem_key="k", request=SECOND_REQUEST)).again
        assert (await scribe.append(THREAD, idem_key="k", request=FIRST)).version == 1


class KeyedContract(Contract):
    """The entry that a key stands on."""

    async def test_a_key_leads_to_the_first_entry_of_its_write(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await scribe.append(THREAD, MESSAGE, STATE, idem_key="k", request=FIRST)
        await scribe.append(THREAD, idem_key="l")
        found = await storage.keyed(THREAD, "k")
        assert found is not None
        assert found == (await storage.entries(THREAD))[1]
        assert found.payload
        assert (found.version, found.kind, found.key, found.request) == (2, MESSAGE, "k", FIRST)

    async def test_an_absent_key_leads_nowhere(self, storage: Storage, scribe: Scribe) -> None:
        assert await storage.keyed(THREAD, "k") is None
        await scribe.append(BOBS, idem_key="k")
        await scribe.append()
        assert await storage.keyed(THREAD, "k") is None
        assert await storage.keyed(THREAD, "") is None

    async def test_a_refused_write_leaves_no_key(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        with pytest.raises(VersionConflictError):
            await scribe.append(THREAD, idem_key="k", expected=0)
        assert await storage.keyed(THREAD, "k") is None

    @pytest.mark.parametrize("text", HOSTILE)
    async def test_any_text_is_looked_up_exactly(self, storage: Storage, scribe: Scribe, text: str) -> None:
        for key in ("before", text, text + "x"):
            await scribe.append(THREAD, idem_key=key)
        found = await storage.keyed(THREAD, text)
        assert found is not None
        assert (found.version, found.key) == (2, text)

    async def test_case_and_trailing_space_tell_keys_apart(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k")
        assert [await storage.keyed(THREAD, key) for key in ("K", "k ", " k")] == [None] * 3

    async def test_a_fork_finds_only_keys_of_its_own(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k", request=FIRST)
        await scribe.fork(THREAD, 1, OTHER)
        assert await storage.keyed(OTHER, "k") is None
        await scribe.append(OTHER, MESSAGE, idem_key="k", request=SECOND_REQUEST)
        found = [await storage.keyed(key, "k") for key in (THREAD, OTHER)]
        assert [entry and (entry.version, entry.request) for entry in found] == [(1, FIRST), (2, SECOND_REQUEST)]

    async def test_a_key_is_found_after_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        await scribe.append(THREAD, idem_key="k")
        before = await storage.keyed(THREAD, "k")
        assert before is not None
        assert await (await place.reopen(storage)).keyed(THREAD, "k") == before

    async def test_what_another_opening_wrote_is_found(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        elsewhere = await place.ready()
        await scribe.append(THREAD, idem_key="k")
        assert await elsewhere.keyed(THREAD, "k") == await storage.keyed(THREAD, "k")

    async def test_keys_are_not_found_once_their_thread_is_deleted(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append(THREAD, idem_key="k")
        await scribe.fork(THREAD, 1, OTHER)
        await storage.delete(THREAD)
        assert await storage.keyed(THREAD, "k") is None
        await scribe.append(THREAD)
        assert await storage.keyed(THREAD, "k") is None


class WriteIdContract(Contract):
    """Retries of a write whose answer was lost."""

    async def test_a_retry_finds_the_write_that_landed(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        first = await scribe.append(THREAD, write_id=b"w", checkpoint=scribe.mark())
        await scribe.append()
        again = await scribe.append(THREAD, write_id=b"w", since=1)
        assert again.again
        assert outcome(again) == outcome(first)
        assert len(await storage.entries(THREAD)) == 3

    async def test_a_retry_of_a_write_that_never_landed_writes_it(self, scribe: Scribe) -> None:
        await scribe.append()
        made = await scribe.append(THREAD, write_id=b"w", since=1, expected=1)
        assert (made.again, made.version) == (False, 2)

    async def test_a_conflict_with_oneself_is_no_conflict(self, scribe: Scribe) -> None:
        await scribe.append()
        first = await scribe.append(THREAD, STATE, MESSAGE, write_id=b"w", expected=1)
        again = await scribe.append(THREAD, STATE, MESSAGE, write_id=b"w", expected=1)
        assert again.again
        assert again.version == first.version == 3

    async def test_a_conflict_with_oneself_is_found_behind_other_writes(self, scribe: Scribe) -> None:
        first = await scribe.append(THREAD, write_id=b"w", expected=0)
        await scribe.grow(THREAD, 3)
        again = await scribe.append(THREAD, write_id=b"w", expected=0)
        assert (again.again, again.version) == (True, first.version)

    async def test_a_write_that_landed_is_found_before_a_lost_lease(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await scribe.append(THREAD, write_id=b"w")
        await claim(storage, scribe)
        assert (await scribe.append(THREAD, write_id=b"w", since=1, epoch=9)).version == 2
        assert (await scribe.append(THREAD, write_id=b"w", since=1)).version == 2

    async def test_writes_up_to_since_are_not_looked_at(self, scribe: Scribe) -> None:
        await scribe.append(THREAD, write_id=b"w")
        made = await scribe.append(THREAD, write_id=b"w", since=1)
        assert (made.again, made.version) == (False, 2)

    async def test_write_ids_of_other_threads_do_not_count(self, scribe: Scribe) -> None:
        await scribe.append(OTHER, write_id=b"w")
        await scribe.append()
        assert not (await scribe.append(THREAD, write_id=b"w", since=0)).again

    async def test_a_retry_is_found_after_opening_again(self, storage: Storage, scribe: Scribe, place: Place) -> None:
        first = await scribe.append(THREAD, write_id=b"\x00\xffw", expected=0)
        storage = await place.reopen(storage)
        again = await storage.append(scribe.write(THREAD, write_id=b"\x00\xffw", expected=0))
        assert outcome(again) == outcome(first)

    async def test_a_retry_in_a_fork_is_found(self, scribe: Scribe) -> None:
        await scribe.grow(THREAD, 2)
        await scribe.fork(THREAD, 2, OTHER)
        first = await scribe.append(OTHER, write_id=b"w", expected=2)
        again = await scribe.append(OTHER, write_id=b"w", expected=2)
        assert (again.again, again.version) == (True, first.version)


def outcome(made: Appended) -> tuple[object, ...]:
    """What a caller goes on with; the same for the first and for a later answer."""
    return made.version, made.state_version, made.checkpoint, made.row.uid


async def claim(storage: Storage, scribe: Scribe) -> None:
    """Lease the thread to somebody."""
    now = scribe.clock.now()
    await storage.claim(THREAD, "me", until=now + 30 * SECOND, now=now)
