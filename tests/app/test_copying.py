"""Copying threads: everything comes along, is read back, and can be brought up to date."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import msgspec
import pytest

from perdure.app.copying import Choice, Copied, Outcome, chosen, copy_threads
from perdure.app.opening import parse, plain_storage
from perdure.core.checkpoint import CheckpointQuery, CheckpointRow
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import NotFoundError
from perdure.core.identity import ThreadKey
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.memory import MemoryStorage
from perdure.sync import Perdure
from tests.app.test_exporting import nameless

TICKET = ThreadKey("", "alice", "ticket")
WHAT_IF = ThreadKey("", "alice", "what-if")


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/agents.db"


@pytest.fixture
def source(url: str) -> Storage:
    """A thread with large values and enough turns for a snapshot, a fork of it, and one of another user."""
    with Perdure.open(url) as store:
        thread = store.thread("ticket", user="alice", agent="bot", tags=["x"])
        for turn in range(40):
            thread.append("messages", {"turn": turn, "text": "word " * 200}, checkpoint=turn % 7 == 0, key=f"k{turn}")
        thread.update(set={"report": "x" * 100_000}, checkpoint=True)
        thread.fork("@20", to="what-if").update(set={"city": "Rome"})
        store.thread("ticket", user="bob").save({"of": "bob"})
    with Perdure.open(url, namespace="staging") as store:
        store.thread("trial", user="").save({"n": 1})
    return opened(url)


def opened(url: str) -> Storage:
    storage = plain_storage(parse(url), {})
    drive(storage.setup())
    return storage


def outcomes(done: list[Copied]) -> dict[str, Outcome]:
    return {f"{each.key.user}/{each.key.id}": each.outcome for each in done}


def test_everything_is_copied(source: Storage, tmp_path: Path) -> None:
    target = opened(f"file:{tmp_path}/place")
    done = drive(copy_threads(source, target))
    assert outcomes(done) == dict.fromkeys(("alice/ticket", "alice/what-if", "bob/ticket", "/trial"), Outcome.COPIED)
    assert sum(each.bytes for each in done) > 40 * 1000
    for each in done:
        assert nameless(drive(target.thread(each.key))) == nameless(drive(source.thread(each.key)))


def test_copied_states_load_at_every_version_and_checkpoint(source: Storage, url: str, tmp_path: Path) -> None:
    place = f"file:{tmp_path}/place"
    drive(copy_threads(source, opened(place)))
    with Perdure.open(url) as before, Perdure.open(place) as after:
        for name in ("ticket", "what-if"):
            one, other = before.thread(name, user="alice"), after.thread(name, user="alice")
            marks = [point.id for point in one.history(limit=100)]
            assert [point.id for point in other.history(limit=100)] == marks
            refs = [f"@{version}" for version in range(1, one.info().version + 1)] + [f"@{mark}" for mark in marks]
            assert [other.load(ref) for ref in refs] == [one.load(ref) for ref in refs]
        again = after.thread("ticket", user="alice").append("messages", {"turn": 1, "text": "word " * 200}, key="k1")
        assert again == 2


def test_the_newest_snapshot_and_the_forks_shared_past_come_along(source: Storage) -> None:
    target = MemoryStorage()
    drive(copy_threads(source, target))
    here, there = drive(target.restore(TICKET)), drive(source.restore(TICKET))
    assert here is not None
    assert there is not None
    assert here.snapshot == there.snapshot is not None
    assert drive(target.sizes()).entries == drive(source.sizes()).entries


def test_it_can_be_repeated_and_catches_up(source: Storage, url: str) -> None:
    target = MemoryStorage()
    drive(copy_threads(source, target))
    with Perdure.open(url) as store:
        store.thread("ticket", user="alice").update(set={"n": 1}, checkpoint=True)
        store.thread("new", user="alice").save({"n": 2})
    done = drive(copy_threads(source, target))
    assert outcomes(done) == {
        "alice/ticket": Outcome.GREW,
        "alice/new": Outcome.COPIED,
        **dict.fromkeys(("alice/what-if", "bob/ticket", "/trial"), Outcome.SAME),
    }
    assert {each.entries for each in done} == {0, 1}
    assert nameless(drive(target.thread(TICKET))) == nameless(drive(source.thread(TICKET)))
    assert set(outcomes(drive(copy_threads(source, target))).values()) == {Outcome.SAME}


def test_a_target_that_went_on_has_everything(source: Storage) -> None:
    target = MemoryStorage()
    drive(copy_threads(source, target))
    back = drive(copy_threads(target, source))
    assert set(outcomes(back).values()) == {Outcome.SAME}


def test_another_history_is_left_alone_unless_overwriting_is_asked_for(source: Storage, tmp_path: Path) -> None:
    place = f"file:{tmp_path}/place"
    with Perdure.open(place) as store:
        store.thread("ticket", user="alice").save({"mine": True})
        store.thread("ticket", user="alice").fork("@1", to="mine")
    target = opened(place)
    done = drive(copy_threads(source, target))
    (refused,) = [each for each in done if each.outcome is Outcome.REFUSED]
    assert (refused.key, "another history" in refused.reason) == (TICKET, True)
    done = drive(copy_threads(source, target, overwrite=True))
    assert outcomes(done)["alice/ticket"] is Outcome.COPIED
    assert drive(target.entries(TICKET)) == drive(source.entries(TICKET))
    with Perdure.open(place) as store:
        assert store.thread("mine", user="alice").load() == {"mine": True}


def test_a_thread_that_somebody_runs_is_neither_grown_nor_overwritten(source: Storage, url: str) -> None:
    target = MemoryStorage()
    drive(copy_threads(source, target))
    drive(target.claim(TICKET, "me", until=1 << 60, now=0))
    with Perdure.open(url) as store:
        store.thread("ticket", user="alice").append("messages", "more")
    before = drive(target.thread(TICKET))
    for overwrite in (False, True):
        done = drive(copy_threads(source, target, Choice(threads=("ticket",), user="alice"), overwrite=overwrite))
        assert [(each.outcome, "run by me" in each.reason) for each in done] == [(Outcome.REFUSED, True)]
    assert drive(target.thread(TICKET)) == before


@pytest.mark.parametrize(
    ("choice", "expected"),
    [
        (Choice(user="bob"), ["bob/ticket"]),
        (Choice(user=""), ["/trial"]),
        (Choice(threads=("ticket",)), ["alice/ticket", "bob/ticket"]),
        (Choice(threads=("ticket",), user="alice"), ["alice/ticket"]),
        (Choice(namespaces=("staging",)), ["/trial"]),
        (Choice(namespaces=("nothing",)), []),
    ],
)
def test_threads_can_be_chosen(source: Storage, choice: Choice, expected: list[str]) -> None:
    assert sorted(outcomes(drive(copy_threads(source, MemoryStorage(), choice)))) == expected


def test_a_chosen_thread_that_is_not_there_is_told(source: Storage) -> None:
    with pytest.raises(NotFoundError):
        drive(chosen(source, Choice(threads=("ticket", "nope"))))


def test_progress_is_told_thread_by_thread_parents_first(source: Storage) -> None:
    told: list[tuple[int, int, str]] = []
    drive(
        copy_threads(source, MemoryStorage(), progress=lambda done, total, new: told.append((done, total, new.key.id)))
    )
    assert [(done, total) for done, total, _ in told] == [(1, 4), (2, 4), (3, 4), (4, 4)]
    names = [name for _, _, name in told]
    assert names.index("ticket") < names.index("what-if")


def test_a_damaged_thread_is_refused_and_the_others_are_copied(source: Storage, url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute(
            "UPDATE perdure_entry SET payload = x'010000ff' WHERE kind = 'state.saved' AND \"row\" >> 32 = 3"
        )
    database.close()
    target = MemoryStorage()
    done = drive(copy_threads(source, target))
    assert [each.key.id for each in done if each.outcome is Outcome.REFUSED] == ["ticket"]
    assert drive(target.thread(ThreadKey("", "bob", "ticket"))) is None
    assert drive(target.thread(WHAT_IF)) is not None


def test_a_large_value_that_is_gone_is_found_out_before_anything_is_put(source: Storage, url: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as database:
        database.execute("DELETE FROM perdure_blob")
    database.close()
    target = MemoryStorage()
    done = drive(copy_threads(source, target, Choice(user="alice", threads=("ticket",))))
    assert [(each.outcome, "large value" in each.reason) for each in done] == [(Outcome.REFUSED, True)]
    assert drive(target.thread(TICKET)) is None


class Lying(MemoryStorage):
    """A target that gives back something else than was put."""

    lies_about = ""

    async def entries(
        self, key: ThreadKey, *, after: int = 0, limit: int | None = None, kinds: list[EntryKind] | None = None
    ) -> list[Entry]:
        found = await super().entries(key, after=after, limit=limit, kinds=kinds)
        if self.lies_about == "a payload":
            found[0] = msgspec.structs.replace(found[0], payload=b"\x01\x00\x00else")
        return found[:-1] if self.lies_about == "an entry" else found

    async def checkpoints(self, key: ThreadKey, query: CheckpointQuery) -> list[CheckpointRow]:
        found = await super().checkpoints(key, query)
        return found[1:] if self.lies_about == "a checkpoint" else found


@pytest.mark.parametrize("what", ["a payload", "an entry", "a checkpoint"])
def test_what_does_not_read_back_as_it_was_is_told(source: Storage, what: str) -> None:
    target = Lying()
    target.lies_about = what
    done = drive(copy_threads(source, target, Choice(user="alice", threads=("ticket",))))
    assert [each.outcome for each in done] == [Outcome.REFUSED]
