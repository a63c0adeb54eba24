"""What a folder of files costs as it grows: the directory of threads, and the index of a long log."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from random import Random

import pytest

from perdure import sync
from perdure.core.checkpoint import CheckpointQuery
from perdure.core.identity import ThreadKey
from perdure.core.threads import ThreadPatch, ThreadQuery
from perdure.storage.drive import drive
from perdure.storage.file.store import FileStorage
from perdure.storage.ports import InPlace
from perdure.testing.clock import ManualClock
from perdure.testing.powerloss import PowerLossDisk
from perdure.testing.scribe import STATE, THREAD, Scribe, blob_of, snapshot_of

EVERYTHING = ThreadQuery(limit=10_000)


def opened(place: Path | str, disk: PowerLossDisk | None = None) -> FileStorage:
    storage = FileStorage(str(place), port=InPlace(str(place)), disk=disk)
    drive(storage.setup())
    return storage


def key_of(number: int) -> ThreadKey:
    return ThreadKey("", f"user {number % 7}", f"thread {number}")


def filled(place: Path | str, count: int, disk: PowerLossDisk | None = None) -> Scribe:
    scribe = Scribe(opened(place, disk), ManualClock())
    for number in range(count):
        drive(scribe.append(key_of(number), patch=ThreadPatch(wake_at=number + 1 if number % 2 else None)))
    return scribe


def answers(storage: FileStorage) -> dict[str, object]:
    """Everything that is answered from the directory."""
    rows = drive(storage.threads(EVERYTHING))
    return {
        "threads": rows,
        "due": drive(storage.due("", 1 << 60)),
        "find": [drive(storage.find("", row.key.id)) for row in rows],
        "line": [drive(storage.line(row.uid)) for row in rows],
        "namespaces": drive(storage.namespaces()),
    }


def true_answers(place: Path) -> dict[str, object]:
    """The same from the logs alone."""
    (place / "directory.jsonl").unlink()
    return answers(opened(place))


# ── the directory ─────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "agents"


def test_lists_timers_and_ids_are_answered_without_opening_a_log() -> None:
    disk = PowerLossDisk()
    filled("/agents", 20, disk)
    fresh = FileStorage("/agents", port=InPlace("/agents"), disk=disk)
    disk.bytes_read.clear()
    assert len(drive(fresh.threads(EVERYTHING))) == 20
    assert drive(fresh.due("", 0)) == []
    assert len(drive(fresh.find("", "thread 3"))) == 1
    assert set(disk.bytes_read) == {"/agents/directory.jsonl"}


@pytest.mark.parametrize("harm", ["missing", "empty", "zeros", "half", "torn", "first line", "foreign"])
def test_the_directory_is_made_again_where_it_is_missing_or_wrong(place: Path, harm: str) -> None:
    filled(place, 12)
    file = place / "directory.jsonl"
    data = file.read_bytes()
    lines = data.splitlines(keepends=True)
    harmed = {
        "empty": b"", "zeros": bytes(len(data)), "half": data[: len(data) // 2], "torn": data[:-50],
        "first line": b"".join(lines[3:]), "foreign": b"hi\n" * 50,
    }  # fmt: skip
    file.unlink() if harm == "missing" else file.write_bytes(harmed[harm])
    found = answers(opened(place))
    assert len(found["threads"]) == 12  # type: ignore[arg-type]
    assert found == true_answers(place)


def test_each_flipped_byte_of_the_directory_leaves_every_answer_right(place: Path) -> None:
    filled(place, 6)
    file = place / "directory.jsonl"
    data, truth = file.read_bytes(), true_answers(place)
    for at in range(0, len(data), 97):
        file.write_bytes(data[:at] + bytes([data[at] ^ 4]) + data[at + 1 :])
        assert answers(opened(place)) == truth


@pytest.mark.parametrize("lost", ["the row", "the row and the mark"])
def test_a_writer_that_died_between_the_log_and_the_directory_is_noticed(place: Path, lost: str) -> None:
    scribe = filled(place, 5)
    file = place / "directory.jsonl"
    before = file.read_bytes()
    reader = opened(place)
    drive(reader.threads(EVERYTHING))
    drive(scribe.append(key_of(1), patch=ThreadPatch(name="renamed", wake_at=7)))
    added = file.read_bytes()[len(before) :].splitlines(keepends=True)
    mark = b"".join(added[:2])
    assert json.loads(mark)["folder"] == key_of(1).digest()
    assert "row" not in json.loads(mark)
    if lost == "the row":
        file.write_bytes(before + mark)
        assert drive(reader.threads(EVERYTHING))[0].name == "renamed"
        assert (key_of(1), 7) in [(row.key, row.wake_at) for row in drive(reader.due("", 7))]
    else:  # as after a power loss: the machine was started again
        other = file.read_bytes().replace(json.loads(before.split(b"\n")[1])["boot"].encode(), b"x" * 36)
        file.write_bytes(other[: len(before)])
    assert answers(opened(place)) == true_answers(place)


def test_a_folder_that_was_brought_back_or_taken_away_is_noticed(place: Path) -> None:
    filled(place, 5)
    reader = opened(place)
    assert len(drive(reader.threads(EVERYTHING))) == 5
    folder = place / "threads" / key_of(2).digest()
    shutil.move(folder, place.parent / "aside")
    assert len(drive(reader.threads(EVERYTHING))) == 4
    shutil.move(place.parent / "aside", folder)
    assert len(drive(reader.threads(EVERYTHING))) == 5


def test_the_directory_stays_small_whoever_writes(place: Path) -> None:
    scribe = filled(place, 3)
    for _ in range(800):
        drive(scribe.append(key_of(0)))
    assert (place / "directory.jsonl").stat().st_size < 100_000
    assert answers(opened(place)) == true_answers(place)


WRITER = """
import sys
from perdure import sync
with sync.Perdure.open(sys.argv[1]) as store:
    for number in range(60):
        store.thread(f"t{sys.argv[2]}-{number % 6}", user="ann").append("items", number)
        store.thread("shared", user="ann").append("items", number)
"""


def test_processes_that_write_together_keep_one_directory(place: Path) -> None:
    url = f"file:{place}"
    with sync.Perdure.open(url) as store:
        store.setup()
        children = [subprocess.Popen([sys.executable, "-c", WRITER, url, str(n)]) for n in range(3)]
        while any(child.poll() is None for child in children):
            infos = store.threads(100)
            assert len({info.id for info in infos}) == len(infos)
        assert [child.wait() for child in children] == [0, 0, 0]
        assert len(store.threads(100)) == 19
    assert answers(opened(place)) == true_answers(place)


KILLED = """
import sys
from perdure import sync
with sync.Perdure.open(sys.argv[1]) as store:
    number = 0
    while True:
        number += 1
        thread = store.thread(f"t{sys.argv[2]}-{number % 4}", user="ann")
        thread.append("items", number) if number % 9 else thread.delete()
        store.thread("shared", user="ann").append("items", number)
        print(number, flush=True)
"""


def test_a_real_kill_at_any_moment_leaves_a_directory_that_is_right(place: Path) -> None:
    url, rng = f"file:{place}", Random(5)
    reader = opened(place)
    for number in range(10):
        child = subprocess.Popen([sys.executable, "-c", KILLED, url, str(number % 3)], stdout=subprocess.PIPE)
        assert child.stdout is not None
        for _ in range(rng.randrange(1, 12)):
            child.stdout.readline()
        time.sleep(rng.random() / 300)
        child.kill()
        child.wait()
        child.stdout.close()
        logs = {row.key: row for row in drive(reader.threads(EVERYTHING))}
        assert logs == {key: drive(reader.thread(key)) for key in logs}
        assert answers(reader)["threads"] == answers(opened(place))["threads"]
    assert answers(reader) == true_answers(place)


# ── the index of a long log ───────────────────────────────────────────────────────────────────────────────────────────


def long_log(place: Path | str, lines: int, disk: PowerLossDisk | None = None) -> Scribe:
    scribe = Scribe(opened(place, disk), ManualClock())
    for number in range(lines):
        made = drive(scribe.append(THREAD, STATE, idem_key=f"key {number}" if number % 9 == 0 else None))
        if number % 250 == 249:
            row = made.row
            assert drive(scribe.storage.put_snapshot(THREAD, row.uid, snapshot_of(row.head, row.head_digest)))
    return scribe


def read_for_the_newest(lines: int) -> int:
    """Bytes; the newest snapshot is older than the newest landmarks."""
    disk = PowerLossDisk()
    long_log("/agents", lines, disk)
    disk.bytes_read.clear()
    found = drive(FileStorage("/agents", port=InPlace("/agents"), disk=disk).restore(THREAD))
    assert found is not None
    assert found.row.head == lines
    assert found.snapshot is not None
    return sum(disk.bytes_read.values())


def test_a_cold_load_of_the_newest_state_costs_the_same_however_long_the_log_is() -> None:
    assert read_for_the_newest(3240) < 1.5 * read_for_the_newest(1240)


def everything(storage: FileStorage) -> dict[str, object]:
    head = 1500
    return {
        "entries": drive(storage.entries(THREAD)),
        "some": drive(storage.entries(THREAD, after=700, limit=20)),
        "headers": drive(storage.headers(THREAD, at=300, limit=500)),
        "keyed": [drive(storage.keyed(THREAD, f"key {number}")) for number in (0, 9, 900, 1494, 1)],
        "under": drive(storage.under(THREAD, "key 1")),
        "marks": drive(storage.checkpoints(THREAD, CheckpointQuery(limit=1000))),
        "old": drive(storage.restore(THREAD, at=400)),
        "new": drive(storage.restore(THREAD, after=head - 3)),
        "seams": drive(storage.seams(THREAD)),
        "sizes": drive(storage.sizes(THREAD)),
        "derived": drive(storage.derived(THREAD)),
    }


def test_every_question_is_answered_from_the_end_of_the_index_as_from_all_of_it(tmp_path: Path) -> None:
    long_log(tmp_path / "a", 1500)
    index = tmp_path / "a" / "threads" / THREAD.digest() / "index.jsonl"
    assert index.read_bytes().count(b'{"landmark":') > 2
    whole = everything(opened(tmp_path / "a"))
    for name, answer in whole.items():  # each is the first question that a process asks
        if name != "sizes":
            assert everything(opened(tmp_path / "a"))[name] == answer
    for question in (
        lambda each: drive(each.keyed(THREAD, "key 9")),
        lambda each: drive(each.entries(THREAD, after=3, limit=1)),
        lambda each: drive(each.restore(THREAD)),
    ):
        fresh = opened(tmp_path / "a")
        question(fresh)
        assert everything(fresh)["entries"] == whole["entries"]


def test_a_landmark_of_a_damaged_index_leads_back_to_the_log(tmp_path: Path) -> None:
    long_log(tmp_path / "a", 1500)
    index = tmp_path / "a" / "threads" / THREAD.digest() / "index.jsonl"
    good = index.read_bytes()
    truth = everything(opened(tmp_path / "a"))["entries"]
    for at in (
        500,
        len(good) // 3,
        good.index(b'{"landmark":') + 40,
        good.rindex(b'{"landmark":') + 40,
        len(good) - 90,
    ):
        index.write_bytes(good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :])
        storage = opened(tmp_path / "a")
        assert drive(storage.restore(THREAD)) is not None
        assert drive(storage.entries(THREAD)) == truth
        index.write_bytes(good)


def test_writing_goes_on_behind_a_landmark(tmp_path: Path) -> None:
    scribe = long_log(tmp_path / "a", 1200)
    for _ in range(3):
        scribe = Scribe(opened(tmp_path / "a"), scribe.clock)
        for _ in range(120):
            drive(scribe.append(THREAD, STATE))
    (tmp_path / "a" / "threads" / THREAD.digest() / "index.jsonl").unlink()
    assert [entry.version for entry in drive(opened(tmp_path / "a").entries(THREAD))] == list(range(1, 1561))


def test_the_memory_of_a_process_is_bounded(tmp_path: Path) -> None:
    scribe = Scribe(opened(tmp_path / "a"), ManualClock())
    for number in range(60):
        for _ in range(5):
            drive(scribe.append(key_of(number), *[STATE] * 200))
    storage = opened(tmp_path / "a")
    tracemalloc.start()
    for _ in range(2):
        for number in range(60):
            assert len(drive(storage.headers(key_of(number), limit=1000))) == 1000
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 40_000_000  # 60,000 entries take three times that


def test_blobs_of_a_thread_that_cannot_be_read_are_not_swept(tmp_path: Path) -> None:
    scribe = Scribe(opened(tmp_path / "a"), ManualClock())
    blob = blob_of("large")
    drive(scribe.append(THREAD, blobs=(blob,)))
    (tmp_path / "a" / "threads" / THREAD.digest() / "log.jsonl").unlink()
    assert drive(opened(tmp_path / "a").sweep_blobs(1 << 60)) == 0
    assert list(drive(scribe.storage.blobs(THREAD, [blob.digest]))) == [blob.digest]
