"""Comparing points of threads, on every storage, for both kinds of callers."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path

import pytest

from perdure import ANY_USER, MISSING, Comparison, Comparisons, Perdure, Thread, sync
from perdure.core.entries import EntryKind
from perdure.core.errors import AmbiguousThreadError, InvalidInputError, InvalidRefError, NotFoundError
from perdure.testing.clock import ManualClock

HI, HOW, BYE = ({"role": "user", "content": text} for text in ("hi", "how are you?", "bye"))


@pytest.fixture(params=["memory", "file", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    places = {"memory": "memory://", "file": f"file://{tmp_path}/store", "sqlite": f"sqlite:///{tmp_path}/store.db"}
    return places[request.param]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(url: str, clock: ManualClock) -> AsyncIterator[Perdure]:
    async with Perdure.open(url, clock=clock) as opened:
        yield opened


@pytest.fixture
async def thread(store: Perdure) -> Thread:
    """Three versions: the second has no checkpoint, the third a status of its own."""
    made = store.thread("ticket-42", user="alice")
    await made.save({"city": "Paris", "messages": [HI]}, status="collecting")
    await made.append("messages", HOW)
    await made.save({"city": "Rome", "messages": [HI, HOW, BYE]}, status="done")
    return made


async def test_two_checkpoints_are_compared_by_id(store: Perdure, thread: Thread) -> None:
    """S1.19, S1.20, S1.21."""
    new, old = await thread.history()
    found = await store.compare(old.id, new.id, user="alice")
    assert found.changed_fields == ["city", "messages"]
    assert (found.old_status, found.new_status) == ("collecting", "done")
    assert str(found.differences[0]) == "city: 'Paris' -> 'Rome'"
    assert (found.old.version, found.new.version) == (1, 3)


async def test_a_thread_compares_whatever_its_refs_can_name(thread: Thread, clock: ManualClock) -> None:
    """S1.19, B7."""
    expected = (await thread.compare("@1", "@3")).data()
    new, old = await thread.history()
    for a, b in (("@-3", "@-1"), (1, 3), ("@1", None), (f"@{old.id}", new.id), (old, new)):
        assert (await thread.compare(a, b)).data() == expected
    clock.advance(timedelta(hours=3))
    await thread.update(set={"city": "Milan"})
    assert (await thread.compare("@1", "@2h")).data() == expected


async def test_every_way_to_name_a_point_means_the_same(store: Perdure, thread: Thread) -> None:
    expected = (await thread.compare("@1", "@3")).data()
    new, old = await thread.history()
    for a, b in (
        ("ticket-42@1", "ticket-42"),
        ("ticket-42@1", thread),
        (("ticket-42", 1), ("ticket-42", None)),
        ((thread, "@1"), (thread, new)),
        (f"ticket-42@{old.id}", f"@{new.id}"),
        (old, new),
    ):
        for user in ("alice", ANY_USER):
            assert (await store.compare(a, b, user=user)).data() == expected
    for a, b in ((thread, (thread, 1)), ((thread, "@1"), (thread, new)), (old, new)):  # these say themselves whose
        assert (await store.compare(a, b)).data() == (await store.compare(a, b, user="alice")).data()


async def test_the_status_is_that_of_the_newest_checkpoint_up_to_the_version(thread: Thread) -> None:
    """S1.21."""
    found = await thread.compare("@2", "@3")
    assert (found.old_status, found.new_status) == ("collecting", "done")
    await thread.update(set={"n": 1})
    assert (await thread.compare("@2", "@4")).new_status == "done"


async def test_a_version_before_every_checkpoint_has_no_status(store: Perdure, clock: ManualClock) -> None:
    """S1.21. Many checkpoints of one moment do not hide each other, nor do later ones."""
    made = store.thread("t")
    await made.update(set={"n": 0})
    for at in range(40):
        await made.save({"n": at}, status=f"s{at}")
    clock.advance(timedelta(seconds=1))
    await made.save({"n": -1}, status="last")
    found = await made.compare("@1", "@2")
    assert (found.old_status, found.new_status) == (None, "s0")


async def test_two_versions_of_one_thread_part_after_the_older_one(thread: Thread) -> None:
    """B6: first divergence."""
    where = (await thread.compare("@1", "@3")).first_divergence
    assert where is not None
    assert (where.common, where.version) == (1, 2)
    assert [None if each is None else (each.version, each.kind) for each in where.entries] == [
        None,
        (2, EntryKind.STATE_UPDATED),
    ]
    assert where.message is not None
    assert (where.message.kind, where.message.new) == ("right", HOW)
    assert (await thread.compare("@3", "@3")).first_divergence is None


async def test_forks_part_where_their_logs_do(store: Perdure, thread: Thread) -> None:
    """B6: forks of forks, and forks of one parent, also once that is deleted."""
    left = await thread.fork("@2", to="left")
    await left.append("messages", BYE)
    deep = await left.fork(to="deep")
    await deep.update(set={"city": "Milan"})
    right = await thread.fork("@2", to="right")
    await right.update(set={"city": "Bonn"})
    await thread.delete()
    assert [await _common(store, a, b) for a, b in ((left, right), (deep, right), (left, deep), (deep, left))] == [
        (2, 3),
        (2, 3),
        (3, 4),
        (3, 4),
    ]
    await store.thread("other", user="alice").save({"city": "Bonn"})
    assert await _common(store, left, "other", user="alice") == (0, 1)


async def _common(store: Perdure, a: object, b: object, user: str | None = None) -> tuple[object, object]:
    where = (await store.compare(a, b, user=user)).first_divergence
    return (where.common, where.version) if where is not None else (None, None)


async def test_the_first_entry_of_each_branch_is_named(store: Perdure, thread: Thread) -> None:
    branch = await thread.fork("@1", to="branch")
    await branch.save({"city": "Bonn"})
    where = (await store.compare(thread, branch)).first_divergence
    assert where is not None
    kinds = [each and each.kind for each in where.entries]
    assert kinds == [EntryKind.STATE_UPDATED, EntryKind.STATE_SAVED]
    assert [each and each.payload for each in where.entries] == [None, None]


async def test_three_and_four_points_are_compared_with_the_first(store: Perdure, thread: Thread) -> None:
    """B6: 2 to 4 at once."""
    left, right = [await thread.fork("@2", to=name) for name in ("left", "right")]
    await left.append("messages", BYE)
    await right.append("messages", BYE)
    found = await store.compare("ticket-42@2", left, right, thread, user="alice")
    assert isinstance(found, Comparisons)
    assert [str(side) for side in found.sides] == ["ticket-42@2", "left@3", "right@3", "ticket-42@3"]
    assert [one.changed_fields for one in found.each] == [["messages"], ["messages"], ["city", "messages"]]
    assert [(row.kind, *row.indexes) for row in found.messages][2:] == [("some", None, 2, 2, 2)]
    assert found.messages[2].values == (MISSING, BYE, BYE, BYE)
    assert found.first_divergence is not None
    assert (found.first_divergence.common, found.first_divergence.entries[0]) == (2, None)
    assert json.loads(json.dumps(found.data())) == found.data()


@pytest.mark.parametrize("count", [0, 1, 5])
async def test_other_counts_are_refused(store: Perdure, thread: Thread, count: int) -> None:
    with pytest.raises(InvalidInputError, match=f"2 to 4 points, not {count}"):
        await store.compare(*["ticket-42"] * count, user="alice")


async def test_what_cannot_be_a_point_is_refused(store: Perdure, thread: Thread) -> None:
    for point in (None, 3, [], ("ticket-42", 1, 2), (1, 1), object()):
        with pytest.raises(InvalidInputError):
            await store.compare("ticket-42", point, user="alice")
    for ref in ("@nonsense", 1.5):
        with pytest.raises(InvalidRefError):
            await thread.compare("@1", ref)
    async with Perdure.open("memory://") as other:
        with pytest.raises(InvalidInputError, match="another store"):
            await store.compare("ticket-42", other.thread("ticket-42", user="alice"), user="alice")


async def test_what_is_not_there_is_not_found(store: Perdure, thread: Thread) -> None:
    absent = ("nobody", "ticket-42@99", "chk_nothing", ("ticket-42", "@tag:x"), store.thread("empty", user="alice"))
    for point in absent:
        for user in ("alice", ANY_USER):
            with pytest.raises(NotFoundError):
                await store.compare("ticket-42", point, user=user)


async def test_a_thread_of_another_user_is_not_there(store: Perdure, thread: Thread) -> None:
    point = (await thread.history())[0]
    await store.thread("mine", user="mallory").save({"n": 1})
    for theirs in ("ticket-42", "ticket-42@1", point.id, point, thread, ("ticket-42", 1)):
        with pytest.raises(NotFoundError):
            await store.compare("mine", theirs, user="mallory")
    for theirs in ("ticket-42", "ticket-42@1", point.id, f"@{point.id}", ("ticket-42", 1)):
        with pytest.raises(NotFoundError):
            await store.compare(store.thread("mine", user="mallory"), theirs)
    await store.thread("ticket-42", user="mallory").save({"n": 1})
    with pytest.raises(AmbiguousThreadError):
        await store.compare("ticket-42", "mine", user=ANY_USER)
    assert (await store.compare("ticket-42", "mine", user="mallory")).equal


async def test_an_id_with_an_at_sign_is_an_id(store: Perdure) -> None:
    for name in ("bob@example.com", "a@b@1"):
        await store.thread(name).save({"n": name})
    found = await store.compare("bob@example.com", ("a@b@1", "@1"))
    assert [side.thread for side in (found.old, found.new)] == ["bob@example.com", "a@b@1"]


def test_the_synchronous_face_compares_the_same_things(url: str) -> None:
    with sync.Perdure.open(url) as store:
        thread = store.thread("ticket-42")
        old = thread.save({"n": 1}, status="open")
        thread.save({"n": 2})
        branch = thread.fork("@1", to="branch")
        for a, b in ((old, thread), ((thread, 1), (thread, None)), ("branch", "ticket-42"), (branch, thread)):
            found = store.compare(a, b)
            assert isinstance(found, Comparison)
            assert str(found) == "n: 1 -> 2"
            assert found.old_status == "open"
        assert len(store.compare(branch, thread, old).each) == 2
        assert thread.compare(old, "@-1").changed_fields == ["n"]


async def test_a_status_that_a_rewind_left_behind_is_not_that_of_what_came_after(thread: Thread) -> None:
    """S1.21, B5."""
    await thread.rewind("@2")
    await thread.update(set={"city": "Bonn"})
    found = await thread.compare("@3", None)
    assert found.old_status == "done"
    assert found.new_status != "done"


async def test_a_status_that_was_given_later_belongs_to_the_version_it_names(thread: Thread) -> None:
    """S1.21."""
    await thread.checkpoint("@2", status="checked")
    await thread.update(set={"city": "Bonn"})
    found = await thread.compare("@2", None)
    assert (found.old_status, found.new_status) == ("checked", "done")
    assert (await thread.compare("@1", "@3")).old_status == "collecting"
