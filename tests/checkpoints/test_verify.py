"""`verify` names every damage with its place, and nothing where there is none (S1.45, S3.34, B11)."""

from __future__ import annotations

import os
import random
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, Retention, sync
from perdure.app.copying import copy_threads
from perdure.core.digest import snapshot_digest
from perdure.core.errors import EntryDamagedError, NotFoundError
from perdure.core.ports import Silence
from perdure.core.verification import Damage, Report
from tests.checkpoints.damaging import BACKENDS, Hands, MemoryHands, flipped, story, telling, told
from tests.checkpoints.places import PLACES, opened
from tests.checkpoints.survivors import play
from tests.faults import flips
from tests.faults.places import is_typed, raised, url_of

FLIPS = int(os.environ.get("PERDURE_FLIPS", "60"))
Story = tuple[Perdure, Hands | MemoryHands]


@pytest.fixture(params=BACKENDS)
async def told_story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    async with telling(request.param, tmp_path) as told_story:
        yield told_story


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("place", PLACES)
async def test_a_chain_stays_verifiable_after_prune_fork_and_delete(place: str, mode: str, tmp_path: Path) -> None:
    """S3.34, B11: the whole of a store is intact after everything that changes more than one entry."""
    async with opened(PLACES[place](tmp_path), mode) as store:
        await story(store)
        assert (await store.verify(restore=True)).ok
        thread = store.thread("t", user="alice")
        await thread.prune(Retention(last=3))
        child = await store.thread("branch", user="alice").fork("@6", to="child")
        await child.save({"of": "the child"})
        await store.thread("branch", user="alice").prune(1)
        assert await thread.delete()
        report = await store.verify(restore=True)
        assert (report.damaged, report.threads) == ([], 2)
        assert report.restored == report.points > 0


@pytest.mark.parametrize("place", BACKENDS)
async def test_a_chain_stays_verifiable_after_an_import(place: str, tmp_path: Path) -> None:
    """B11: a copy, and an export that was imported under another name, are as intact as what they were made of."""
    async with opened(PLACES[place](tmp_path), "async") as store:
        await story(store)
        await store.thread("t", user="alice").prune(3)
        await store.export(store.thread("branch", user="alice"), tmp_path / "branch.perdure")
        await store.import_(tmp_path / "branch.perdure", to="again", user="bob")
        assert (await store.verify(restore=True)).damaged == []
        async with Perdure.open("memory://") as other:
            await copy_threads(store._parts.storage, other._parts.storage)
            assert (await other.verify(restore=True)).damaged == []


@pytest.mark.parametrize("seed", range(4))
async def test_random_lives_stay_verifiable_and_repairs_find_nothing_to_do(seed: int) -> None:
    """B11: save, fork, rewind, redo, prune, delete and compact in any order."""
    async with Perdure.open("memory://") as store:
        await play(store, seed, 60)
        report = await store.verify(restore=True)
        assert (report.damaged, report.threads > 0) == ([], True)
        assert (await store.repair()).rebuilt == []


Act = Callable[[Hands | MemoryHands], None]
OF_THE_LOG: dict[str, tuple[Act, str]] = {
    "payload": (lambda hands: hands.change("t", "entry", 7, "payload", flipped), "entry 7"),
    "torn payload": (lambda hands: hands.change("t", "entry", 7, "payload", lambda old: old[:9]), "entry 7"),
    "emptied payload": (lambda hands: hands.change("t", "entry", 7, "payload", lambda _: b""), "entry 7"),
    "emptied mark": (lambda hands: hands.change("t", "entry", 11, "payload", lambda _: b""), "entry 11"),
    "digest": (lambda hands: hands.change("t", "entry", 7, "payload_digest", flipped), "entry 7"),
    "chain": (lambda hands: hands.change("t", "entry", 7, "chain", flipped), "entry 7"),
    "time": (lambda hands: hands.change("t", "entry", 7, "at", lambda at: at + 1), "entry 7"),
    "actor": (lambda hands: hands.change("t", "entry", 7, "actor", lambda _: "mallory"), "entry 7"),
    "key": (lambda hands: hands.change("t", "entry", 7, "idem_key", lambda _: "mine"), "entry 7"),
    "newest": (lambda hands: hands.change("t", "entry", 12, "actor", lambda _: "mallory"), "entry 12"),
    "removed": (lambda hands: hands.remove("t", "entry", 12), "entry 12"),
    "inserted": (lambda hands: hands.copy("t", "entry", 12, 13), "entry 13"),
}


@pytest.mark.parametrize("what", OF_THE_LOG)
async def test_an_edited_removed_or_inserted_entry_is_found(what: str, told_story: Story) -> None:
    """S3.34, B11."""
    store, hands = told_story
    act, place = OF_THE_LOG[what]
    act(hands)
    report = await store.verify()
    assert told(report) == [("t", place)], str(report)
    assert not report.ok
    assert not any(each.derived for each in report.damaged)


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mysql"])
async def test_a_removed_entry_in_the_middle_is_found(backend: str, tmp_path: Path) -> None:
    """B11."""
    async with telling(backend, tmp_path) as (store, hands):
        hands.remove("t", "entry", 7)
        assert told(await store.verify()) == [("t", "entry 7")]


async def test_swapped_entries_are_found(told_story: Story) -> None:
    """B11: both, and none of those around them."""
    store, hands = told_story
    hands.move("t", "entry", 6, 1000)
    hands.move("t", "entry", 7, 6)
    hands.move("t", "entry", 1000, 7)
    assert told(await store.verify()) == [("t", "entries 6 to 7")]


async def test_entries_moved_up_to_hide_a_removed_one_are_found(told_story: Story) -> None:
    """B11: every one of them, as one line."""
    store, hands = told_story
    hands.remove("t", "entry", 6)
    for version in range(7, 13):
        hands.move("t", "entry", version, version - 1)
    hands.line("t", "head", 11)
    assert ("t", "entries 6 to 11") in told(await store.verify())


def _first(hands: Hands | MemoryHands, table: str) -> int:
    return hands.versions("t", table)[-1]


BESIDE_THE_LOG: dict[str, tuple[Act, str]] = {
    "head": (lambda hands: hands.line("t", "head", 6), "directory line"),
    "head of nothing": (lambda hands: hands.line("t", "head", 99), "directory line"),
    "head digest": (lambda hands: hands.line("t", "head_digest", bytes(32)), "directory line"),
    "state version": (lambda hands: hands.line("t", "head_state_version", 3), "directory line"),
    "newest run": (lambda hands: hands.line("t", "run_version", 3), "directory line"),
    "last checkpoint": (lambda hands: hands.line("t", "last_checkpoint", None), "directory line"),
    "another last checkpoint": (lambda hands: hands.line("t", "last_checkpoint", "chk_x"), "directory line"),
    "time": (lambda hands: hands.line("t", "updated_at", 1), "directory line"),
    "checkpoint kind": (lambda hands: hands.change("t", "checkpoint", 7, "kind", lambda _: "x"), "checkpoint 7"),
    "checkpoint note": (lambda hands: hands.change("t", "checkpoint", 7, "note", lambda _: None), "checkpoint 7"),
    "checkpoint version": (lambda hands: hands.change("t", "checkpoint", 7, "version", lambda _: 2), "checkpoint 7"),
    "checkpoint parent": (lambda hands: hands.change("t", "checkpoint", 7, "parent", lambda _: None), "checkpoint 7"),
    "checkpoint metadata": (
        lambda hands: hands.change("t", "checkpoint", 7, "metadata", lambda _: b"\xc1"),
        "checkpoint 7",
    ),
    "checkpoint removed": (lambda hands: hands.remove("t", "checkpoint", 7), "checkpoint 7"),
    "rewind": (lambda hands: hands.change("t", "rewind", 10, "back_to", lambda _: 2), "rewind at version 10"),
    "rewind removed": (lambda hands: hands.remove("t", "rewind", 10), "rewind at version 10"),
    "rewind moved": (lambda hands: hands.move("t", "rewind", 10, 9), "rewind at version 9"),
    "snapshot": (
        lambda hands: hands.change("t", "snapshot", _first(hands, "snapshot"), "payload", flipped),
        "snapshot",
    ),
    "snapshot digest": (
        lambda hands: hands.change("t", "snapshot", _first(hands, "snapshot"), "digest", flipped),
        "snapshot",
    ),
    "snapshot moved": (lambda hands: hands.move("t", "snapshot", _first(hands, "snapshot"), 9), "snapshot"),
    "snapshot after the head": (lambda hands: hands.move("t", "snapshot", _first(hands, "snapshot"), 90), "snapshot"),
    "large value forgotten": (lambda hands: hands.forget_uses(), "large value"),
    "large value noted late": (lambda hands: hands.move_uses(10), "large value"),
    "large value noted early": (lambda hands: hands.move_uses(4), "large value"),
    "large value noted nowhere": (lambda hands: hands.move_uses(0), "large value"),
    "end of a lease": (lambda hands: hands.line("t", "lease_until", 1 << 57), "directory line"),
}


@pytest.mark.parametrize("restore", [False, True])
@pytest.mark.parametrize("what", BESIDE_THE_LOG)
async def test_whatever_is_derived_and_differs_from_the_log_is_found(
    what: str, restore: bool, told_story: Story
) -> None:
    """B11: indexes against the log, snapshots against a replay."""
    store, hands = told_story
    marks = {mark.version: mark.id for mark in await store.thread("t", user="alice").history(everything=True)}
    act, place = BESIDE_THE_LOG[what]
    act(hands)
    report = await store.thread("t", user="alice").verify(restore=restore)
    wanted = f"checkpoint {marks[7]}" if place == "checkpoint 7" else place
    assert report.damaged, what
    assert report.damaged[0].place.startswith(wanted), str(report)
    assert all(each.derived for each in report.damaged)


@pytest.mark.parametrize("thread", ["t", "branch"])
async def test_a_flipped_head_digest_is_one_damage_that_can_be_mended(thread: str, told_story: Story) -> None:
    """B11: the log itself is intact, and every point of it is restored."""
    store, hands = told_story
    hands.line(thread, "head_digest", b"\x07" * 32)
    report = await store.thread(thread, user="alice").verify(restore=True)
    assert [(each.place, each.derived) for each in report.damaged] == [("directory line", True)]
    assert report.restored == report.points
    assert (await store.thread(thread, user="alice").repair()).ok


async def test_a_thread_that_was_made_after_its_first_entry_is_told(told_story: Story) -> None:
    """B11: when it was made is not in the log, so nothing can make it again."""
    store, hands = told_story
    for thread in ("t", "branch"):
        hands.line(thread, "created_at", 1 << 57)
        (damage,) = (await store.thread(thread, user="alice").verify()).damaged
        assert (damage.place, damage.derived) == ("directory line", False)
        assert damage.reason.startswith("says that the thread was made after its first entry")


async def test_points_that_only_the_directory_line_hides_are_no_damage_of_their_own(told_story: Story) -> None:
    store, hands = told_story
    hands.line("t", "head", 6)
    report = await store.thread("t", user="alice").verify(restore=True)
    assert {each.place for each in report.damaged} == {"directory line"}
    assert 0 < report.restored < report.points


async def test_a_checkpoint_that_is_not_in_the_log_is_found(told_story: Story) -> None:
    store, hands = told_story
    hands.move("t", "checkpoint", 7, 700)
    assert len(told(await store.verify())) == 2  # one is missing, and one too many


async def test_a_large_value_that_is_damaged_is_found(told_story: Story) -> None:
    store, hands = told_story
    hands.spoil_blobs()
    report = await store.thread("t", user="alice").verify()
    assert [each.reason for each in report.damaged if each.place.startswith("large value")] == ["fails its digest"]


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mysql"])
async def test_entries_that_no_directory_line_leads_to_are_told(backend: str, tmp_path: Path) -> None:
    """B11: the thread looks as if it had never been; its entries tell."""
    async with telling(backend, tmp_path) as (store, hands):
        assert isinstance(hands, Hands)
        number = hands.forget_line("branch")
        assert told(await store.verify()) == [("branch", "directory line")]
        hands.forget_name(number)
        report = await store.verify()
        where = f"(no thread): directory has no line for row {number}"
        left = ["checkpoints there: 1", "entries there: 1"]
        assert [str(each) for each in report.damaged] == [f"{where}; {each}" for each in left]
        assert (report.damaged[0].derived, (await store.verify(user="alice")).damaged) == (False, [])
        done = await store.repair()
        assert (done.ok, done.left) == (False, report.damaged)


def test_an_index_without_its_log_file_is_told(tmp_path: Path) -> None:
    with sync.Perdure.open(f"file://{tmp_path}/store") as store:
        for number in range(3):
            store.thread("t").save({"n": number})
        (log,) = tmp_path.rglob("log.jsonl")
        log.unlink()
        report = store.verify()
        (damage,) = report.damaged
        assert (damage.thread_id, damage.place) == ("t", str(log.parent.relative_to(tmp_path / "store")))
        assert "is gone with all of log.jsonl, although there is index.jsonl" in damage.reason


async def _pruned(store: Perdure) -> None:
    thread = store.thread("p", user="alice")
    for number in range(1, 11):
        await thread.save({"n": number, "text": f"{number} " * 500})
        if number in (3, 6):
            await thread.tag("@-1", f"tag{number}")
    await thread.prune(1)


OF_RECORDS: dict[str, Callable[[Hands | MemoryHands], None]] = {
    "payload": lambda hands: hands.change("p", "composed", hands.versions("p", "composed")[0], "payload", flipped),
    "digest": lambda hands: hands.change("p", "composed", hands.versions("p", "composed")[0], "digest", flipped),
    "chain": lambda hands: hands.change("p", "composed", hands.versions("p", "composed")[0], "chain", flipped),
    "low": lambda hands: hands.change("p", "composed", hands.versions("p", "composed")[0], "low", lambda low: low + 1),
    "removed": lambda hands: hands.remove("p", "composed", hands.versions("p", "composed")[0]),
    "base": lambda hands: hands.change("p", "snapshot", hands.versions("p", "snapshot")[0], "payload", flipped),
    "base removed": lambda hands: hands.remove("p", "snapshot", hands.versions("p", "snapshot")[0]),
}


@pytest.mark.parametrize("what", OF_RECORDS)
async def test_what_stands_for_a_pruned_range_is_verified(what: str, told_story: Story) -> None:
    """B11: the chain vouches for records too."""
    store, hands = told_story
    await _pruned(store)
    assert (await store.thread("p", user="alice").verify(restore=True)).damaged == []
    OF_RECORDS[what](hands)
    report = await store.thread("p", user="alice").verify()
    assert not report.ok
    assert not any(each.derived for each in report.damaged)


async def test_a_record_that_was_exchanged_together_with_its_digest_is_found(told_story: Story) -> None:
    """B11: the entry that told of the prune names the digest."""
    store, hands = told_story
    await _pruned(store)
    at = hands.versions("p", "composed")[0]
    kept: dict[str, bytes] = {}
    hands.change("p", "composed", at, "payload", lambda old: kept.setdefault("payload", old + b"\xc0"))
    hands.change("p", "composed", at, "chain", lambda old: kept.setdefault("chain", old))
    hands.change("p", "composed", at, "digest", lambda _: snapshot_digest(kept["chain"], kept["payload"]))
    report = await store.thread("p", user="alice").verify()
    assert "is not the one that the range.pruned entry names" in {each.reason for each in report.damaged}


async def test_every_damage_is_reported_not_only_the_first(told_story: Story) -> None:
    store, hands = told_story
    hands.change("t", "entry", 6, "payload", flipped)
    hands.change("t", "entry", 8, "actor", lambda _: "mallory")
    hands.change("t", "checkpoint", 2, "kind", lambda _: "x")
    hands.change("branch", "entry", 6, "payload", flipped)
    places = told(await store.verify())
    assert {("t", "entry 6"), ("t", "entry 8"), ("branch", "entry 6")} <= set(places)
    assert [thread for thread, place in places if place.startswith("checkpoint")] == ["t", "branch"]


async def test_every_checkpoint_is_restored_and_those_that_cannot_be_are_named(told_story: Story) -> None:
    """S1.45: test restore before you need it."""
    store, hands = told_story
    points = {point.version: point.id for point in await store.thread("t", user="alice").history()}
    hands.change("t", "entry", 5, "payload", flipped)
    report = await store.thread("t", user="alice").verify(restore=True)
    assert [each.place for each in report.damaged] == ["entry 5", f"checkpoint {points[5]}"]
    assert report.restored == report.points - 1


async def test_verifying_changes_nothing(told_story: Story) -> None:
    store, hands = told_story
    hands.change("t", "snapshot", _first(hands, "snapshot"), "payload", flipped)
    first = await store.verify(restore=True)
    assert not first.ok
    assert await store.verify(restore=True) == first


class Heard(Silence):
    """Telemetry that keeps the log."""

    def __init__(self) -> None:
        self.lines: list[tuple[str, str]] = []

    def log(self, level: str, message: str, /, **fields: object) -> None:
        self.lines.append((level, message))


async def test_the_newest_intact_point_is_found_and_the_damaged_ones_are_named(tmp_path: Path) -> None:
    """S3.34, B11: a torn record is skipped by `latest`, which says so."""
    heard = Heard()
    async with telling("sqlite", tmp_path, telemetry=heard) as (store, hands):
        thread = store.thread("new")
        points = [await thread.save({"n": number}, kind="routine") for number in range(5)]
        await thread.save({"n": 5}, kind="manual")
        hands.change("new", "entry", 4, "payload", lambda old: old[:9])
        found = await thread.latest()
        assert found.checkpoint == points[2]
        assert [each.version for each in found.skipped] == [6, 5, 4]
        assert "skipped" in str(found)
        assert heard.lines == [("warning", "a damaged checkpoint was skipped")] * 3
        with pytest.raises(NotFoundError, match="1 damaged"):
            await thread.latest(kind="manual")


async def test_latest_does_not_believe_the_index(told_story: Story) -> None:
    store, hands = told_story
    before = await store.thread("t", user="alice").history(limit=2)
    hands.change("t", "checkpoint", before[0].version, "kind", lambda _: "nice")
    found = await store.thread("t", user="alice").latest()
    assert found.checkpoint.id == before[1].id
    assert [each.place for each in found.skipped] == [f"checkpoint {before[0].id}"]
    assert "no earlier checkpoint" not in str(found)  # there is one: it was found


async def test_latest_says_so_when_the_directory_may_hide_newer_points(told_story: Story) -> None:
    store, hands = told_story
    hands.line("t", "head", 6)
    found = await store.thread("t", user="alice").latest()
    assert found.checkpoint.version == 5  # at the head that the line names, nothing is believed
    assert found.skipped[0].place == "directory line"


async def test_loading_a_damaged_thread_names_the_newest_intact_version(told_story: Story) -> None:
    """S3.34: the newest intact point is offered."""
    store, hands = told_story
    hands.change("t", "entry", 12, "payload", flipped)
    store._parts.engine.forget(store.thread("t", user="alice")._key)
    with pytest.raises(EntryDamagedError, match=r"load\('@10'\)") as caught:
        await store.thread("t", user="alice").load()
    assert caught.value.intact == 10
    assert (await store.thread("t", user="alice").load("@10"))["n"] == 8


async def test_what_redis_answers_proves_nothing(tmp_path: Path) -> None:
    place = PLACES["hot_sqlite"](tmp_path)
    async with Perdure.open(place[0], **place[1]) as store:
        await story(store)
        await store.thread("t", user="alice").load()
        Hands("sqlite", place).change("t", "entry", 12, "payload", flipped)
        assert told(await store.verify()) == [("t", "entry 12")]


@pytest.mark.parametrize("column", ["kind", "at"])
async def test_a_row_that_cannot_even_be_read_is_named(column: str, tmp_path: Path) -> None:
    async with telling("sqlite", tmp_path) as (store, hands):
        hands.change("t", "entry", 8, column, lambda _: "soon")
        places = told(await store.verify(restore=True))
        assert ("t", "entry 8") in places


async def test_a_row_that_cannot_be_read_is_told_and_the_others_are_verified(tmp_path: Path) -> None:
    async with telling("sqlite", tmp_path) as (store, hands):
        hands.line("branch", "tags", "[")
        hands.change("t", "entry", 7, "payload", flipped)
        places = told(await store.verify())
        assert {("t", "entry 7"), ("branch", "directory line")} <= set(places)


async def test_progress_is_told_thread_by_thread(told_story: Story) -> None:
    store, _ = told_story
    heard: list[tuple[int, int, bool]] = []
    await store.verify(progress=lambda done, total, newest: heard.append((done, total, newest.ok)))
    assert heard == [(1, 2, True), (2, 2, True)]
    assert (await store.verify(user="nobody")).threads == 0


@pytest.mark.parametrize("seed", range(FLIPS // 10))
def test_whatever_a_flipped_bit_breaks_is_reported(seed: int, tmp_path: Path) -> None:
    """S3.34: ten flips a seed; an error that reading gives is never missed, and verifying gives no other error."""
    rng = random.Random(seed)
    truth = flips.prepare("sqlite", tmp_path, heavy=True)
    data = (tmp_path / "agents.db").read_bytes()
    for number in range(10):
        copy = tmp_path / f"{number}"
        copy.mkdir()
        at = rng.randrange(len(data) * 8)
        spoiled = bytearray(data)
        spoiled[at // 8] ^= 1 << at % 8
        (copy / "agents.db").write_bytes(spoiled)
        reports: list[Report] = []

        def look(url: str = url_of("sqlite", copy), reports: list[Report] = reports) -> None:
            with sync.Perdure.open(url) as store:
                reports.append(store.verify(restore=True))

        error = raised(look)
        assert error is None or is_typed(error), repr(error)
        broken = any(kind == "typed" for kind, _ in flips.read_all(url_of("sqlite", copy), truth))
        assert not (broken and error is None and reports[0].ok), f"bit {at}"


def test_a_report_is_readable() -> None:
    one = Damage(thread_id="t", user="alice", place="entry 7", reason="fails its digest", version=7)
    report = Report(threads=1, entries=12, points=3, snapshots=1).plus(Report(threads=1, entries=1, damaged=[one]))
    assert str(report).splitlines() == [
        "1 damage: 2 threads, 13 entries, 3 checkpoints, 1 snapshot",
        "  t of alice: entry 7 fails its digest",
    ]


def test_a_store_of_the_first_release_is_intact(tmp_path: Path) -> None:
    text = Path("tests/corpus/v1/sqlite.sql").read_text(encoding="utf-8")
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.executescript(text)
    with sync.Perdure.open(f"sqlite:///{tmp_path}/old.db") as store:
        names: Any = store._run(store._store._parts.storage.namespaces())
    for name in names:
        with sync.Perdure.open(f"sqlite:///{tmp_path}/old.db", namespace=name) as store:
            report = store.verify(restore=True)
            assert (report.damaged, report.threads > 0) == ([], True)
