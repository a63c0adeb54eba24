"""`repair` makes everything again that is derived from a log, and never touches the log (B11)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from perdure import Perdure, sync
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import EntryDamagedError
from perdure.core.identity import ThreadKey
from perdure.core.writes import Snapshot
from perdure.storage.contract import Storage
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import Scribe
from tests.checkpoints.damaging import BACKENDS, Hands, MemoryHands, flipped, story, telling, told
from tests.checkpoints.places import PLACES, opened
from tests.checkpoints.survivors import play
from tests.checkpoints.test_verify import BESIDE_THE_LOG, OF_THE_LOG

Story = tuple[Perdure, Hands | MemoryHands]
KEY = ThreadKey("", "alice", "t")


@pytest.fixture(params=BACKENDS)
async def told_story(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Story]:
    async with telling(request.param, tmp_path) as told_story:
        yield told_story


async def _seen(store: Perdure, name: str = "t") -> list[Any]:
    """What users see of a thread besides its states."""
    thread = store.thread(name, user="alice")
    info = msgspec.structs.replace(await thread.info(), sizes=None)  # type: ignore[arg-type]
    return [
        info,
        await thread.history(limit=100),
        await thread.history(limit=100, everything=True),
        await thread.load(),
    ]


async def _log(storage: Storage) -> list[Entry | str]:
    """Each entry of the log, or why it cannot be read."""
    row, found = await storage.thread(KEY), list[Entry | str]()
    for before in range(row.head if row else 0):
        try:
            found += await storage.entries(KEY, after=before, limit=1)
        except EntryDamagedError as exc:
            found.append(str(exc))
    return found


@pytest.mark.parametrize("what", BESIDE_THE_LOG)
async def test_whatever_is_derived_is_made_again(what: str, told_story: Story) -> None:
    """B11: lists, head and states are what they were, and so is the log."""
    store, hands = told_story
    before, log = await _seen(store), await _log(store._parts.storage)
    BESIDE_THE_LOG[what][0](hands)
    done = await store.thread("t", user="alice").repair()
    assert done.ok, str(done)
    assert done.rebuilt
    assert (await store.verify(restore=True)).damaged == []
    assert (await _seen(store), await _log(store._parts.storage)) == (before, log)
    assert (await store.thread("t", user="alice").repair()).rebuilt == []


async def test_all_indexes_of_all_threads_are_made_again(told_story: Story) -> None:
    """B11."""
    store, hands = told_story
    before = [await _seen(store), await _seen(store, "branch")]
    for table in ("checkpoint", "rewind", "snapshot"):
        for thread in ("t", "branch"):
            for version in hands.versions(thread, table):
                hands.remove(thread, table, version)
    for thread in ("t", "branch"):
        hands.line(thread, "head", 0)
        hands.line(thread, "head_digest", bytes(32))
        hands.line(thread, "last_checkpoint", None)
    heard: list[int] = []
    done = await store.repair(progress=lambda number, total, _: heard.append(number))
    assert (done.ok, heard) == (True, [1, 2]), str(done)
    assert [await _seen(store), await _seen(store, "branch")] == before
    assert (await store.verify(restore=True)).damaged == []
    await store.thread("t", user="alice").append("messages", {"role": "user", "content": "goes on"})


async def test_a_pruned_thread_gets_back_the_checkpoints_that_were_kept(told_story: Story) -> None:
    """B11: and none of those that were dropped."""
    store, hands = told_story
    thread = store.thread("t", user="alice")
    await thread.prune(3)
    before = await thread.history(limit=100, everything=True)
    hands.remove("t", "checkpoint", before[0].version)
    hands.line("t", "last_checkpoint", None)
    done = await thread.repair()
    assert done.ok, str(done)
    assert await thread.history(limit=100, everything=True) == before
    assert (await store.verify(restore=True)).damaged == []


@pytest.mark.parametrize("seed", range(6))
async def test_after_random_lives_everything_derived_can_be_lost(seed: int) -> None:
    """B11: lists, lines and snapshots of pruned, forked and rewound threads come back from their logs."""
    async with Perdure.open("memory://") as store:
        await play(store, seed, 60)
        logs = [log for log in store._parts.storage._logs.values() if log.row.key in store._parts.storage._by_key]
        before = [(_plain(log.row), [_plain(mark) for mark in log.checkpoints]) for log in logs]
        for log in logs:
            log.checkpoints, log.blobs, fields = [], {}, {"head_digest": bytes(32), "last_checkpoint": None}
            log.row = msgspec.structs.replace(log.row, head=0, state_version=0, updated=5, **fields)
            log.snapshots = {at: each if each.base else _spoiled(each) for at, each in log.snapshots.items()}
        done = await store.repair()
        assert done.ok, str(done)
        logs = [store._parts.storage._logs[log.row.uid] for log in logs]  # put in the places of those that were spoilt
        assert [(_plain(log.row), [_plain(mark) for mark in log.checkpoints]) for log in logs] == before
        assert (await store.verify(restore=True)).damaged == []


async def test_where_the_newest_run_began_comes_back_from_the_log() -> None:
    async with Perdure.open("memory://") as store:
        thread = store.thread("t")
        await thread.save({"n": 1})
        (log,) = store._parts.storage._logs.values()
        await Scribe(store._parts.storage, ManualClock()).append(log.row.key, EntryKind.RUN_STARTED)
        await thread.fork(to="f")
        await thread.save({"n": 2})
        assert (await store.verify()).damaged == []
        log.row = msgspec.structs.replace(log.row, run=0)
        (damage,) = (await store.verify()).damaged
        assert (damage.place, damage.reason) == ("directory line", "has 0 as its newest run, the log has 2")
        assert (await store.repair()).ok
        assert [log.row.run for log in store._parts.storage._logs.values()] == [2, 0]


def _plain(row: Any) -> Any:
    """A row without the name of the checkpoint before it, which a prune may have taken out of the log."""
    return msgspec.structs.replace(row, **{"last_checkpoint" if hasattr(row, "head") else "parent": None})


def _spoiled(snapshot: Snapshot) -> Snapshot:
    return msgspec.structs.replace(snapshot, payload=flipped(snapshot.payload))


@pytest.mark.parametrize("what", OF_THE_LOG)
async def test_what_is_damaged_in_the_log_is_left_and_told(what: str, told_story: Story) -> None:
    """B11: nothing is made shorter, and nothing beside the log is lost for it."""
    store, hands = told_story
    OF_THE_LOG[what][0](hands)
    found = await store.verify()
    line, log = await store._parts.storage.thread(KEY), await _log(store._parts.storage)
    marks = hands.versions("t", "checkpoint")
    done = await store.repair()
    assert (done.left, done.rebuilt) == (found.damaged, [])
    assert (await store._parts.storage.thread(KEY), await _log(store._parts.storage)) == (line, log)
    assert hands.versions("t", "checkpoint") == marks


async def test_indexes_of_a_damaged_log_are_made_again_as_far_as_it_tells(told_story: Story) -> None:
    store, hands = told_story
    before = await store.thread("t", user="alice").history(limit=100, everything=True)
    hands.change("t", "entry", 5, "payload", flipped)
    hands.remove("t", "checkpoint", 3)
    hands.line("t", "head", 4)
    done = await store.thread("t", user="alice").repair()
    assert told_of(done.left) == ["entry 5"]
    assert await store.thread("t", user="alice").history(limit=100, everything=True) == before


def told_of(damages: list[Any]) -> list[str]:
    return [each.place for each in damages]


async def test_a_snapshot_is_written_in_the_place_of_a_damaged_one(told_story: Story) -> None:
    store, hands = told_story
    for version in hands.versions("t", "snapshot"):
        hands.change("t", "snapshot", version, "payload", flipped)
    done = await store.thread("t", user="alice").repair()
    assert len(done.rebuilt) == 4
    assert hands.versions("t", "snapshot") == [12]
    assert told(await store.verify(restore=True)) == []


@pytest.mark.parametrize("place", PLACES)
async def test_a_stale_repair_is_refused_and_changes_nothing(place: str, tmp_path: Path) -> None:
    """Who repairs must have seen the newest entry."""
    async with opened(PLACES[place](tmp_path), "async") as store:
        await story(store)
        storage = store._parts.storage
        stale = await storage.derived(KEY)
        await store.thread("t", user="alice").append("messages", {"role": "user", "content": "newer"})
        now = await storage.derived(KEY)
        assert not await storage.reindex(stale.row, msgspec.structs.replace(stale, checkpoints=[]))
        assert await storage.derived(KEY) == now
        assert await storage.reindex(now.row, now)
        assert await storage.derived(KEY) == now
        gone = ThreadKey("", "alice", "nobody")
        assert await storage.derived(gone) is None
        assert not await storage.reindex(msgspec.structs.replace(now.row, key=gone), now)


@pytest.mark.parametrize("place", PLACES)
async def test_repairing_what_is_intact_does_nothing(place: str, tmp_path: Path) -> None:
    async with opened(PLACES[place](tmp_path), "sync") as store:
        await story(store)
        done = await store.repair()
        assert (done.ok, done.rebuilt, done.threads) == (True, [], 2)
        assert (await store.thread("t", user="alice").repair()).rebuilt == []


def test_a_torn_line_that_was_committed_is_not_cut_off_by_a_repair(tmp_path: Path) -> None:
    """B11: of a log file, only the index knows that its last line had been committed."""
    with sync.Perdure.open(f"file://{tmp_path}/store") as store:
        for number in range(3):
            store.thread("t").save({"n": number})
    (log,) = tmp_path.rglob("log.jsonl")
    log.write_bytes(log.read_bytes()[:-9])
    with sync.Perdure.open(f"file://{tmp_path}/store") as store:
        torn = log.read_bytes()
        assert [each.place for each in store.repair().left] == ["entry 3"]
        assert log.read_bytes() == torn


def test_a_damaged_line_in_a_log_file_costs_no_other_line(tmp_path: Path) -> None:
    with sync.Perdure.open(f"file://{tmp_path}/store") as store:
        thread = store.thread("t")
        for number in range(5):
            thread.save({"n": number})
        (log,) = tmp_path.rglob("log.jsonl")
        lines = log.read_bytes().split(b"\n")
        lines[3] = flipped(lines[3])
        log.write_bytes(b"\n".join(lines))
        assert told_of(thread.repair().left) == ["entry 4"]
        assert thread.load("@3") == {"n": 2}
        assert thread.latest().checkpoint.version == 3
