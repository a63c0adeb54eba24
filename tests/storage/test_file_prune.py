"""A pruned log in a folder: the same answers as in memory, readable, and whole whatever happens on the way."""

from __future__ import annotations

import json
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from typing import Any

import msgspec
import pytest

from perdure.core.entries import EntryKind
from perdure.core.errors import (
    EntryDamagedError,
    NotFoundError,
    PlanOutdatedError,
    StorageFullError,
)
from perdure.core.identity import ThreadKey
from perdure.core.pruning import is_blank, standing_for
from perdure.core.seams import Range, Rewind, Seams
from perdure.core.writes import Appended, Write
from perdure.storage.contract import BLOB_GRACE, Storage
from perdure.storage.drive import drive
from perdure.storage.file.disk import RealDisk
from perdure.storage.file.store import FileStorage
from perdure.storage.memory import MemoryStorage
from perdure.storage.ports import InPlace
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.powerloss import PowerLossDisk, PowerLost
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of, snapshot_of
from tests.storage.pruned import LONG, lasting, planned, prune, pruning, told

THIRD = ThreadKey("", "alice", "t3")
REWOUND = EntryKind.THREAD_REWOUND
Step = Callable[[Scribe], Coroutine[Any, Any, object]]


def opened(path: Path | str, **parts: Any) -> FileStorage:
    storage = FileStorage(str(path), port=InPlace(str(path)), **parts)
    drive(storage.setup())
    return storage


class Both:
    """The same calls, in a folder and in memory."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.file = Scribe(opened(place), ManualClock())
        self.memory = Scribe(MemoryStorage(), ManualClock())

    def do(self, step: Step) -> object:
        """Play one step on both, and expect the same answer."""
        answers = [drive(step(scribe)) for scribe in (self.file, self.memory)]
        assert answers[0] == answers[1]
        return answers[0]

    def refuse(self, step: Step, error: type[Exception]) -> None:
        """Play one step on both, and expect the same refusal."""
        said: list[str] = []
        for scribe in (self.file, self.memory):
            with pytest.raises(error) as caught:
                drive(step(scribe))
            said.append(str(caught.value))
        assert said[0] == said[1]

    def agree(self, *keys: ThreadKey) -> None:
        """Everything asked of the folder is answered as from memory: now, by a fresh process, and without an index."""
        for key in keys or (THREAD,):
            expected = drive(told(self.memory.storage, key))
            assert drive(told(self.file.storage, key)) == expected
            assert drive(told(opened(self.place), key)) == expected
        for index in self.place.rglob("index.jsonl"):
            index.unlink()
        for key in keys or (THREAD,):
            assert drive(told(opened(self.place), key)) == drive(told(self.memory.storage, key))


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "agents"


@pytest.fixture
def both(place: Path) -> Both:
    return Both(place)


async def busy(scribe: Scribe) -> None:
    """Twelve entries of several kinds, with checkpoints, snapshots, a rewind."""
    await scribe.append(THREAD, STATE, MESSAGE, idem_key="first")
    for number in range(4):
        await scribe.append(THREAD, STATE, MESSAGE, checkpoint=scribe.mark(note=f"n{number}"))
    await scribe.append(THREAD, STATE, REWOUND, back_to=3)
    row = await scribe.storage.thread(THREAD)
    assert row is not None
    for version in (2, 5, 8, 11):
        await scribe.storage.put_snapshot(THREAD, row.uid, snapshot_of(version))


def folder_of(place: Path, key: ThreadKey = THREAD) -> Path:
    return place / "threads" / key.digest()


def lines_of(place: Path, name: str = "log.jsonl") -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder_of(place) / name).read_text().splitlines()]


# ── the same answers as memory ────────────────────────────────────────────────────────────────────────────────────────


def test_a_rewind_is_told_without_reading_a_body(both: Both) -> None:
    both.do(busy)
    both.agree()
    assert drive(both.file.storage.seams(THREAD)) == Seams([Rewind(12, 3)], [])


@pytest.mark.parametrize(
    ("ranges", "base"),
    [([(2, 5)], None), ([], 5), ([(5, 9)], 4), ([(1, 3), (4, 7), (7, 11)], None), ([(0, 12)], None), ([], None)],
)
def test_a_pruned_log_says_what_memory_says(both: Both, ranges: list[tuple[int, int]], base: int | None) -> None:
    both.do(busy)
    both.do(lambda scribe: prune(scribe, *ranges, base=base, blank=(4, 12), unmarked=(4, 6)))
    both.agree()
    both.do(lambda scribe: scribe.append(THREAD, STATE, checkpoint=scribe.mark()))
    both.agree()


def test_a_later_prune_takes_the_place_of_earlier_records(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: prune(scribe, (2, 4), (5, 7), (8, 10)))
    both.do(lambda scribe: prune(scribe, (1, 5), (5, 7), base=1))
    both.do(lambda scribe: scribe.grow(THREAD, 3))
    both.do(lambda scribe: prune(scribe, (9, 11), base=9))
    both.agree()
    assert [record.version for record in drive(both.file.storage.records(THREAD))] == [9, 11]


def test_a_base_that_was_put_counts_as_one_that_was_pruned_to(both: Both) -> None:
    both.do(busy)

    async def put(scribe: Scribe, version: int, **fields: Any) -> bool:
        row = await scribe.storage.thread(THREAD)
        assert row is not None
        return await scribe.storage.put_snapshot(THREAD, row.uid, snapshot_of(version, base=True, **fields))

    for version in (5, 8, 2, 8):
        both.do(lambda scribe, version=version: put(scribe, version))
    both.agree()
    both.do(lambda scribe: prune(scribe, base=8))
    both.agree()


def test_a_prune_of_a_fork_and_of_its_parent(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.fork(THREAD, 6, OTHER))
    both.do(lambda scribe: scribe.grow(OTHER, 6))
    both.do(lambda scribe: scribe.fork(OTHER, 4, THIRD))
    both.do(lambda scribe: scribe.storage.forks(THREAD))
    both.do(lambda scribe: prune(scribe, (6, 11), base=4))
    both.do(lambda scribe: prune(scribe, (9, 11), key=OTHER, base=8))
    both.agree(THREAD, OTHER, THIRD)
    both.refuse(lambda scribe: scribe.fork(THREAD, 8, ThreadKey("", "alice", "t4")), NotFoundError)
    both.refuse(lambda scribe: scribe.fork(OTHER, 3, ThreadKey("", "alice", "t4")), NotFoundError)


def test_what_forks_need_is_known_though_they_were_deleted(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.fork(THREAD, 6, OTHER))
    both.do(lambda scribe: scribe.fork(OTHER, 4, THIRD))
    both.do(lambda scribe: scribe.storage.delete(OTHER))
    assert both.do(lambda scribe: scribe.storage.forks(THREAD)) == [4, 6]
    both.do(lambda scribe: scribe.storage.delete(THIRD))
    assert both.do(lambda scribe: scribe.storage.forks(THREAD)) == []
    assert both.do(lambda scribe: scribe.storage.forks(THIRD)) == []


def test_what_forks_need_is_known_though_a_mark_is_damaged(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.fork(THREAD, 6, OTHER))
    (mark,) = (folder_of(both.place) / "forks").iterdir()
    mark.write_bytes(mark.read_bytes()[:-9])
    assert drive(both.file.storage.forks(THREAD)) == [0, 1, 2, 3, 4, 5, 6]  # and whatever it may have gone back to
    both.refuse(lambda scribe: prune(scribe, (5, 7)), PlanOutdatedError)


def test_a_version_that_a_fork_went_back_to_is_needed(both: Both, place: Path) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.fork(THREAD, 6, OTHER))
    both.do(lambda scribe: scribe.fork(OTHER, 5, THIRD))
    for key, to in ((OTHER, 4), (THIRD, 2), (THIRD, 5), (OTHER, 8), (OTHER, 1)):
        both.do(lambda scribe, key=key, to=to: scribe.append(key, STATE, REWOUND, back_to=to))
    assert both.do(lambda scribe: scribe.storage.forks(THREAD)) == [1, 2, 4, 5, 6]
    both.refuse(lambda scribe: prune(scribe, (1, 4)), PlanOutdatedError)
    both.do(lambda scribe: scribe.storage.delete(OTHER))
    both.do(lambda scribe: prune(scribe, (2, 4)))
    both.agree(THREAD, THIRD)


def test_a_version_that_a_copied_fork_went_back_to_is_needed(both: Both, place: Path) -> None:
    elsewhere = Both(place.parent / "elsewhere")
    both.do(busy)
    elsewhere.do(lambda scribe: scribe.storage.put_thread(drive(take(both.file.storage, THREAD))))
    both.do(lambda scribe: scribe.fork(THREAD, 6, OTHER))
    for to in (4, 2):
        both.do(lambda scribe, to=to: scribe.append(OTHER, STATE, REWOUND, back_to=to))
        elsewhere.do(lambda scribe: scribe.storage.put_thread(drive(take(both.file.storage, OTHER))))
        assert both.do(lambda scribe: scribe.storage.forks(THREAD)) == drive(elsewhere.file.storage.forks(THREAD))
    elsewhere.agree(THREAD, OTHER)
    assert drive(elsewhere.file.storage.forks(THREAD)) == [2, 4, 6]


@pytest.mark.parametrize("kind", [EntryKind.CHECKPOINT_TAGGED, REWOUND, EntryKind.RANGE_PRUNED])
def test_a_plan_that_would_drop_what_was_named_since_changes_nothing(both: Both, kind: EntryKind) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.append(THREAD, kind))
    both.refuse(lambda scribe: prune(scribe, (2, 5), seen=12), PlanOutdatedError)
    both.agree()


def test_a_deleted_parent_keeps_the_records_that_its_fork_needs(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: prune(scribe, (2, 4), (6, 9), base=2))
    both.do(lambda scribe: scribe.fork(THREAD, 6, OTHER))
    both.do(lambda scribe: scribe.append(OTHER))
    both.do(lambda scribe: scribe.storage.delete(THREAD))
    both.agree(OTHER)
    assert [record.version for record in drive(both.file.storage.records(OTHER))] == [2, 4]


def test_a_pruned_thread_is_copied_as_it_stands(both: Both, place: Path) -> None:
    both.do(busy)
    both.do(lambda scribe: prune(scribe, (2, 4), (6, 9), base=2, unmarked=(4,)))
    both.do(lambda scribe: scribe.fork(THREAD, 10, OTHER))
    both.do(lambda scribe: scribe.grow(OTHER, 4))
    both.do(lambda scribe: prune(scribe, (11, 13), key=OTHER))
    for key in (THREAD, OTHER):
        copy = drive(take(both.file.storage, key))
        elsewhere = Both(place.parent / key.id)
        elsewhere.do(lambda scribe, copy=copy: scribe.storage.put_thread(copy))
        elsewhere.agree(key)
        assert drive(lasting(elsewhere.file.storage, key))[1:] == drive(lasting(both.file.storage, key))[1:]


def test_a_copy_is_brought_up_by_a_pruned_rest(both: Both, place: Path) -> None:
    both.do(busy)
    elsewhere = Both(place.parent / "elsewhere")
    first = drive(take(both.file.storage, THREAD))
    elsewhere.do(lambda scribe: scribe.storage.put_thread(first))
    both.do(lambda scribe: scribe.grow(THREAD, 4))
    both.do(lambda scribe: prune(scribe, (11, 14)))
    rest = drive(take(both.file.storage, THREAD, after=12, chain=first.row.head_digest))
    elsewhere.do(lambda scribe: scribe.storage.put_thread(rest))
    elsewhere.do(lambda scribe: scribe.append(THREAD))
    elsewhere.agree()


def test_large_values_that_only_a_pruned_range_referred_to_are_swept(both: Both) -> None:
    kept, gone, new = blob_of("kept"), blob_of("gone"), blob_of("new")
    both.do(lambda scribe: scribe.append(THREAD, blobs=(kept, gone)))
    both.do(lambda scribe: scribe.append(THREAD, blobs=(gone,)))
    both.do(lambda scribe: scribe.append(THREAD))

    async def write(scribe: Scribe, **fields: Any) -> Appended:
        plan = await planned(scribe.storage, THREAD, (0, 2), uses={kept.digest: 1, new.digest: 2}, **fields)
        return await scribe.append(THREAD, EntryKind.RANGE_PRUNED, pruning=plan, blobs=(new,))

    both.do(lambda scribe: scribe.append(THREAD, MESSAGE))
    both.do(lambda scribe: write(scribe, seen=3))  # what came since may refer to others: nothing is let go of
    assert both.do(lambda scribe: scribe.storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE)) == 0
    both.do(write)
    assert both.do(lambda scribe: scribe.storage.sweep_blobs(scribe.clock.now() + 2 * BLOB_GRACE)) == 1
    found = drive(both.file.storage.blobs(THREAD, [kept.digest, gone.digest, new.digest]))
    assert found == {kept.digest: kept.payload, new.digest: new.payload}


def test_a_retry_prunes_nothing_twice(both: Both) -> None:
    both.do(busy)
    writes = [drive(pruning(scribe, (2, 5))) for scribe in (both.file, both.memory)]
    for storage, write in zip((both.file.storage, both.memory.storage), writes, strict=True):
        assert not drive(storage.append(write)).again
    before = (folder_of(both.place) / "log.jsonl").read_bytes()
    for storage, write in zip((both.file.storage, both.memory.storage), writes, strict=True):
        assert drive(storage.append(msgspec.structs.replace(write, since=12))).again
    assert (folder_of(both.place) / "log.jsonl").read_bytes() == before
    both.agree()


# ── what people find in the folder ────────────────────────────────────────────────────────────────────────────────────


def test_records_and_bases_can_be_read_where_the_changes_were(place: Path) -> None:
    scribe = Scribe(opened(place), ManualClock())
    drive(scribe.grow(THREAD, 7))
    drive(prune(scribe, (4, 6), base=3))
    lines = lines_of(place)
    shown = [line["record"]["version"] if "record" in line else line["entries"][0]["version"] for line in lines]
    assert shown == [1, 2, 3, 3, 4, 5, 6, 6, 7, 8]
    assert lines[3]["payload"][0][0] == {"version": 3, "text": LONG}
    assert lines[7]["payload"][0][2] == [[1, [], {"version": 6, "text": LONG}]]
    assert [line["payload"] == [None] for line in lines] == [at in {0, 1, 2, 5, 6} for at in range(10)]
    assert LONG not in (folder_of(place) / "index.jsonl").read_text()


def test_a_prune_gives_the_disk_back_at_once(place: Path) -> None:
    storage = opened(place)
    scribe = Scribe(storage, ManualClock())
    for _ in range(20):
        drive(scribe.append(THREAD, entries=(scribe.entry(body=msgspec.msgpack.encode("x" * 10_000)),)))
    before = drive(storage.sizes()).disk_bytes
    drive(prune(scribe, base=19))
    pruned = drive(storage.sizes()).disk_bytes
    assert pruned < before / 4
    old_rows = _directory_bytes(place)
    freed = drive(storage.compact())
    assert freed == old_rows - _directory_bytes(place) == pruned - drive(storage.sizes()).disk_bytes
    assert drive(storage.compact()) == 0


def _directory_bytes(place: Path) -> int:
    """Compacting writes the directory anew, so that rows of threads that were deleted go: it alone may shrink too."""
    return (place / "directory.jsonl").stat().st_size


def test_the_seams_and_the_forks_of_a_log_are_found_without_its_bodies() -> None:
    disk = PowerLossDisk()
    scribe = Scribe(opened("/agents", disk=disk), ManualClock())
    drive(busy(scribe))
    drive(prune(scribe, (5, 8), base=4))
    drive(scribe.fork(THREAD, 10, OTHER))
    disk.bytes_read.clear()
    fresh = FileStorage("/agents", port=InPlace("/agents"), disk=disk)
    assert drive(fresh.seams(THREAD)) == Seams([Rewind(12, 3)], [Range(0, 3), Range(5, 7)])
    assert drive(fresh.forks(THREAD)) == [10]
    own = f"/agents/threads/{THREAD.digest()}/log.jsonl"
    assert disk.bytes_read[own] < 200


def test_a_damaged_record_is_an_error_and_never_left_out(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: prune(scribe, (5, 8), base=4))
    both.do(lambda scribe: scribe.storage.drop_snapshot(THREAD, 8))
    log = folder_of(both.place) / "log.jsonl"
    whole = log.read_bytes()
    for version in (4, 8):
        at = whole.index(b'"version":%d,"text"' % version)
        log.write_bytes(whole[:at] + whole[at:].replace(b"as it was", b"as it wav", 1))
        with pytest.raises(EntryDamagedError):
            drive(opened(both.place).restore(THREAD, at=version))
        with pytest.raises(EntryDamagedError):
            drive(opened(both.place).records(THREAD))


def test_a_copy_of_the_folder_with_the_index_of_an_earlier_edition_is_whole(both: Both) -> None:
    both.do(busy)
    index = folder_of(both.place) / "index.jsonl"
    earlier = index.read_bytes()
    both.do(lambda scribe: prune(scribe, (1, 8)))
    index.write_bytes(earlier)
    both.agree()


def test_an_index_with_lines_of_two_editions_proves_nothing_of_the_earlier_one(both: Both) -> None:
    both.do(busy)
    index = folder_of(both.place) / "index.jsonl"
    earlier = index.read_bytes().splitlines(keepends=True)
    both.do(lambda scribe: prune(scribe, (0, 12)))
    later = index.read_bytes().splitlines(keepends=True)
    index.write_bytes(b"".join([*later[:3], *earlier[3:]]))
    both.agree()


# ── neighbours ────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_one_who_remembers_an_earlier_edition_sees_the_new_one(both: Both) -> None:
    neighbour = opened(both.place)
    both.do(busy)
    for ranges in ([(1, 4)], [(5, 7)], [(8, 10)], [(0, 11)]):
        drive(neighbour.entries(THREAD))
        both.do(lambda scribe, ranges=ranges: prune(scribe, *ranges))
        assert drive(told(neighbour, THREAD)) == drive(told(both.memory.storage, THREAD))


def test_a_reader_never_sees_an_empty_change_without_what_stands_for_it(place: Path) -> None:
    scribe = Scribe(opened(place), ManualClock())
    keys = [ThreadKey("", "alice", f"t{number}") for number in range(5)]
    for key in keys:
        drive(scribe.grow(key, 40))
    done, seen, pruned = Event(), list[str](), [keys[0]]

    def look() -> None:
        storage = FileStorage(str(place), port=InPlace(str(place)))
        while not done.wait(0.001):  # or the one who prunes would wait for its turn most of the time
            found = drive(storage.restore(pruned[0]))
            assert found is not None
            blanks = [entry.version for entry in found.entries if is_blank(entry)]
            seen.append("blanks" if blanks else "none")
            if any(standing_for(found.records, version) is None for version in blanks):
                seen.append("bare")

    readers = [Thread(target=look) for _ in range(2)]
    for reader in readers:
        reader.start()
    for pruned[0] in keys:
        for low in range(1, 36, 2):
            drive(prune(scribe, (low, low + 2), key=pruned[0]))
    done.set()
    for reader in readers:
        reader.join(30)
    assert "bare" not in seen
    assert "blanks" in seen


# ── on the way ────────────────────────────────────────────────────────────────────────────────────────────────────────

ROOT = "/srv/agents"


class Scene:
    """A thread on a disk that forgets, about to be pruned."""

    def __init__(self) -> None:
        self.disk = PowerLossDisk()
        self.scribe = Scribe(opened(ROOT, disk=self.disk), ManualClock())
        drive(busy(self.scribe))
        drive(prune(self.scribe, (2, 4), (5, 7)))
        self.before = drive(lasting(self.scribe.storage, THREAD))
        plan = drive(planned(self.scribe.storage, THREAD, (5, 8), base=4, unmarked=(4, 6), blank=(3,)))
        self.write = self.scribe.write(THREAD, EntryKind.RANGE_PRUNED, pruning=plan, blobs=(blob_of("new"),))

    def prune(self) -> None:
        """Prune; what is said of the thread afterwards is `after`."""
        drive(self.scribe.storage.append(self.write))
        self.after = drive(lasting(self.scribe.storage, THREAD))

    def stop_at(self, operation: int, *, late: bool) -> bool:
        """Prune until the machine stops at an operation; False when it did not come to it."""
        self.disk.fails_after, self.disk.fails_late = self.disk.operations + operation, late
        with suppress(PowerLost):
            self.prune()
            return False
        self.disk.fails_after = None
        return True


def _whole() -> list[object]:
    scene = Scene()
    scene.prune()
    return scene.after


def _retried(storage: Storage, write: Write) -> None:
    drive(storage.append(msgspec.structs.replace(write, since=13)))


@pytest.mark.parametrize("late", [False, True])
@pytest.mark.parametrize("losing", [False, True])
def test_a_prune_that_dies_at_any_operation_is_done_or_not_at_all(late: bool, losing: bool) -> None:
    after, outcomes, operation = _whole(), set[bool](), 0
    while (scene := Scene()).stop_at(operation, late=late):
        for seed in range(12 if losing else 1):
            disk = scene.disk.after_power_loss(seed) if losing else scene.disk
            storage = opened(ROOT, disk=disk)
            found = drive(lasting(storage, THREAD))
            assert found in (scene.before, after)
            outcomes.add(found == after)
            _retried(storage, scene.write)
            assert drive(lasting(storage, THREAD)) == drive(lasting(opened(ROOT, disk=disk), THREAD)) == after
            drive(storage.compact())
            assert not [path for path in disk.files() if path.endswith(".tmp")]
            assert drive(lasting(opened(ROOT, disk=disk), THREAD)) == after
        operation += 1
    assert outcomes == {False, True}
    assert operation > 10


def test_an_acknowledged_prune_outlives_a_power_loss() -> None:
    for seed in range(40):
        scene = Scene()
        scene.prune()
        storage = opened(ROOT, disk=scene.disk.after_power_loss(seed))
        assert drive(lasting(storage, THREAD)) == scene.after
        assert drive(storage.append(scene.scribe.write(THREAD))).version == 15


def test_a_prune_on_a_full_disk_changes_nothing(place: Path) -> None:
    class Full(RealDisk):
        full = False

        def open(self, path: str, *, write: bool = False, create: bool = False) -> Any:
            if self.full and "log.jsonl." in path:
                raise StorageFullError(path, "no space left on device")
            return super().open(path, write=write, create=create)

    disk = Full()
    scribe = Scribe(opened(place, disk=disk), ManualClock())
    drive(busy(scribe))
    before = drive(told(scribe.storage, THREAD))
    disk.full = True
    with pytest.raises(StorageFullError):
        drive(prune(scribe, (2, 5)))
    assert drive(told(scribe.storage, THREAD)) == drive(told(opened(place), THREAD)) == before


# ── leftovers ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_compacting_removes_what_died_processes_left_and_tells_how_much(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.append(OTHER, blobs=(blob_of("x"),)))
    both.do(lambda scribe: scribe.fork(THREAD, 6, THIRD))
    storage, place = both.file.storage, both.place
    drive(storage.keep("name", b"value"))
    (scope,) = [path for path in (place / "blobs").iterdir() if path.is_dir()]
    folder = folder_of(place)
    for path in (folder, folder / "snapshots", folder / "forks", scope, place / "kept", place):
        (path / "x.0123456789abcdef.tmp").write_bytes(b"x" * 100)
    (place / "trash" / "a").mkdir()
    (place / "trash" / "a" / "log.jsonl").write_bytes(b"x" * 50)
    index = folder_of(place, OTHER) / "index.jsonl"
    index.write_bytes(index.read_bytes() + b"torn")
    before, old_rows = drive(storage.sizes()).disk_bytes, _directory_bytes(place)
    freed = drive(storage.compact())
    assert freed == before - drive(storage.sizes()).disk_bytes
    assert freed - (old_rows - _directory_bytes(place)) == 6 * 100 + 50 + 4
    assert drive(storage.compact()) == 0
    assert "thread" in storage.compacting()
    both.agree(THREAD, OTHER, THIRD)


def test_compacting_leaves_a_damaged_thread_to_others(both: Both) -> None:
    both.do(busy)
    both.do(lambda scribe: scribe.append(OTHER))
    log = folder_of(both.place, OTHER) / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-30])
    (folder_of(both.place) / "log.jsonl.0123456789abcdef.tmp").write_bytes(b"x")
    old_rows = _directory_bytes(both.place)
    freed = drive(opened(both.place).compact())
    assert freed - (old_rows - _directory_bytes(both.place)) == 1
    both.agree()
