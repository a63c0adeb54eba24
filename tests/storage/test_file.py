"""The folder that people can read: its lines, its torn ends, its damage, its neighbours."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from random import Random

import msgspec
import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.codec import encode
from perdure.core.digest import GENESIS, body_of, snapshot_digest, verify_links
from perdure.core.entries import NewEntry
from perdure.core.envelope import seal, seal_packed
from perdure.core.errors import (
    DamagedError,
    EntryDamagedError,
    NotAStorageError,
    StorageError,
    StorageFullError,
    StorageIOError,
    StorageReadOnlyError,
)
from perdure.core.identity import ThreadKey
from perdure.core.ports import Silence
from perdure.core.threads import ThreadPatch, ThreadQuery
from perdure.core.writes import Write
from perdure.storage.contract import SCHEMA
from perdure.storage.drive import drive
from perdure.storage.file.disk import File, RealDisk, RealFile
from perdure.storage.file.store import FileStorage
from perdure.storage.ports import InPlace
from perdure.testing.clock import ManualClock
from perdure.testing.powerloss import PowerLossDisk
from perdure.testing.scribe import MESSAGE, OTHER, STATE, THREAD, Scribe, blob_of, snapshot_of

FLIPS = int(os.environ.get("PERDURE_BIT_FLIPS", "300"))


class Ear(Silence):
    """Hears what is reported."""

    def __init__(self) -> None:
        self.messages: list[str] = []

    def log(self, level: str, message: str, **fields: object) -> None:
        self.messages.append(message)


def opened(path: Path | str, **parts: object) -> FileStorage:
    storage = FileStorage(str(path), port=InPlace(str(path)), **parts)  # type: ignore[arg-type]
    drive(storage.setup())
    return storage


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "agents"


@pytest.fixture
def storage(place: Path) -> FileStorage:
    return opened(place)


@pytest.fixture
def scribe(storage: FileStorage) -> Scribe:
    return Scribe(storage, ManualClock())


def folder_of(place: Path, key: ThreadKey = THREAD) -> Path:
    return place / "threads" / key.digest()


def lines_of(place: Path, key: ThreadKey = THREAD) -> list[dict[str, object]]:
    text = (folder_of(place, key) / "log.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def saying(scribe: Scribe, text: str) -> NewEntry:
    return scribe.entry(MESSAGE, body=encode({"role": "user", "content": text}))


# ── readable ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_the_text_of_a_message_can_be_read_in_the_log(place: Path, scribe: Scribe) -> None:
    drive(scribe.append(THREAD, entries=(saying(scribe, "Grüße aus Köln"),)))
    (line,) = lines_of(place)
    assert line["payload"] == [{"role": "user", "content": "Grüße aus Köln"}]
    assert "Grüße aus Köln" in (folder_of(place) / "log.jsonl").read_text()


def test_one_write_is_one_line(place: Path, scribe: Scribe) -> None:
    drive(scribe.append(THREAD, STATE, MESSAGE))
    drive(scribe.append(THREAD, STATE))
    assert [len(line["payload"]) for line in lines_of(place)] == [2, 1]  # type: ignore[arg-type]


def test_a_snapshot_can_be_read_and_comes_back_as_the_same_state(
    storage: FileStorage, place: Path, scribe: Scribe
) -> None:
    made = drive(scribe.append())
    body = encode({"messages": ["hello"] * 300})
    digest = snapshot_digest(bytes(32), seal_packed(body))
    kept = msgspec.structs.replace(snapshot_of(1), payload=seal_packed(body), digest=digest)
    assert drive(storage.put_snapshot(THREAD, made.row.uid, kept))
    (file,) = (folder_of(place) / "snapshots").iterdir()
    assert json.loads(file.read_text())["payload"] == {"messages": ["hello"] * 300}
    found = drive(storage.restore(THREAD))
    assert found is not None
    assert found.snapshot is not None
    assert (found.snapshot.payload, found.snapshot.digest) == (seal(body), snapshot_digest(bytes(32), seal(body)))


def test_the_folder_keeps_itself_out_of_git(storage: FileStorage, place: Path) -> None:
    assert (place / ".gitignore").read_text() == "*\n"
    assert json.loads((place / "perdure.json").read_text())["schema"] == SCHEMA


def test_a_folder_of_somebody_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "holiday.jpg").write_bytes(b"jpg")
    with pytest.raises(NotAStorageError):
        opened(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["holiday.jpg"]


class Overtaken(RealDisk):
    """Another opener makes the storage between our look for its marker and our listing of the folder."""

    def __init__(self, place: Path) -> None:
        self._place = str(place)

    def names(self, folder: str) -> list[str]:
        if folder == self._place:
            opened(folder)
        return super().names(folder)


def test_two_may_make_a_folder_at_the_same_moment(place: Path) -> None:
    slower = opened(place, disk=Overtaken(place))
    drive(Scribe(slower, ManualClock()).append())
    assert [entry.version for entry in drive(opened(place).entries(THREAD))] == [1]


def test_a_file_is_not_a_folder(tmp_path: Path) -> None:
    (tmp_path / "x").write_text("x")
    with pytest.raises(StorageError):
        opened(tmp_path / "x")


# ── torn ends ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_last_line_torn_at_any_byte_is_cut_and_reported(place: Path, scribe: Scribe) -> None:
    for _ in range(2):
        drive(scribe.append())
    log, index = folder_of(place) / "log.jsonl", folder_of(place) / "index.jsonl"
    whole = log.read_bytes()
    start = whole.index(b"\n") + 1
    first_index_line = index.read_bytes().split(b"\n")[0] + b"\n"
    for size in range(start, len(whole)):
        log.write_bytes(whole[:size])
        index.write_bytes(first_index_line)
        ear = Ear()
        found = drive(opened(place, telemetry=ear).entries(THREAD))
        assert [entry.version for entry in found] == [1]
        assert log.read_bytes() == whole[:start]
        assert len(ear.messages) == (size > start)


def test_a_last_line_with_lost_sectors_is_cut(place: Path, scribe: Scribe) -> None:
    for _ in range(2):
        drive(scribe.append())
    log, index = folder_of(place) / "log.jsonl", folder_of(place) / "index.jsonl"
    whole = log.read_bytes()
    start = whole.index(b"\n") + 1
    index.write_bytes(index.read_bytes().split(b"\n")[0] + b"\n")
    log.write_bytes(whole[: start + 20] + bytes(100) + whole[start + 120 :])
    assert len(drive(opened(place).entries(THREAD))) == 1
    assert log.read_bytes() == whole[:start]


def test_a_committed_last_line_is_never_cut(place: Path, scribe: Scribe) -> None:
    for _ in range(2):
        drive(scribe.append())
    log = folder_of(place) / "log.jsonl"
    whole = log.read_bytes()
    for size in (len(whole) - 1, len(whole) - 100, whole.index(b"\n") + 1, 5, 0):
        log.write_bytes(whole[:size])
        with pytest.raises(EntryDamagedError) as caught:
            drive(opened(place).entries(THREAD))
        assert caught.value.thread_id == THREAD.id
        assert caught.value.version == (2 if size > 300 else 1)
        assert log.read_bytes() == whole[:size]


def test_a_bad_line_in_the_middle_is_damage_also_without_an_index(place: Path, scribe: Scribe) -> None:
    for _ in range(3):
        drive(scribe.append())
    log = folder_of(place) / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(lines[0] + lines[1][:-40] + lines[2])
    (folder_of(place) / "index.jsonl").unlink()
    with pytest.raises(EntryDamagedError) as caught:
        drive(opened(place).thread(THREAD))
    assert (caught.value.version, caught.value.intact) == (2, 1)


def test_a_whole_line_that_was_not_acknowledged_is_made_durable_and_found_by_a_retry(
    place: Path, scribe: Scribe
) -> None:
    drive(scribe.append())
    write = scribe.write(THREAD, expected=1)
    drive(scribe.storage.append(write))
    index = folder_of(place) / "index.jsonl"
    index.write_bytes(index.read_bytes().split(b"\n")[0] + b"\n")  # as if killed between the log and the index
    again = drive(opened(place).append(msgspec.structs.replace(write, since=1)))
    assert (again.again, again.version) == (True, 2)
    assert len(lines_of(place)) == 2


@pytest.mark.parametrize("harm", ["missing", "short", "bad", "holes", "foreign"])
def test_the_index_is_made_again_from_the_log(storage: FileStorage, place: Path, scribe: Scribe, harm: str) -> None:
    drive(scribe.grow(THREAD, 5))
    index = folder_of(place) / "index.jsonl"
    good = index.read_bytes()
    harmed = {
        "short": good[:700],
        "bad": good[:900] + b"X" + good[901:],
        "holes": bytes(len(good)),
        "foreign": b"hi\n" * 9,
    }
    index.unlink() if harm == "missing" else index.write_bytes(harmed[harm])
    before = drive(storage.entries(THREAD))
    assert drive(opened(place).entries(THREAD)) == before
    assert index.read_bytes() == good


# ── failing disks ─────────────────────────────────────────────────────────────────────────────────────────────────────


class BadFile(RealFile):
    """A file whose next operations of one kind fail."""

    disk: BadDisk

    def sync(self) -> None:
        self.disk.may_fail("sync")
        super().sync()

    def write(self, offset: int, data: bytes) -> None:
        if self.disk.failing.get("write", 0) and data:
            super().write(offset, data[: len(data) // 2])
        self.disk.may_fail("write")
        super().write(offset, data)

    def truncate(self, size: int) -> None:
        self.disk.may_fail("truncate")
        super().truncate(size)


class BadDisk(RealDisk):
    """A disk with operations that fail so many times."""

    def __init__(self) -> None:
        self.failing: dict[str, int] = {}
        self.error: StorageError = StorageIOError("disk", "input/output error")

    def may_fail(self, what: str) -> None:
        if self.failing.get(what, 0):
            self.failing[what] -= 1
            raise self.error

    def open(self, path: str, *, write: bool = False, create: bool = False) -> File | None:
        file = super().open(path, write=write, create=create)
        if isinstance(file, RealFile):
            file.__class__ = BadFile
            file.disk = self  # type: ignore[attr-defined]
        return file


@pytest.mark.parametrize(
    "failing", [{"sync": 1}, {"sync": 9}, {"write": 1}, {"write": 1, "truncate": 9}, {"sync": 1, "truncate": 1}]
)
@pytest.mark.parametrize("made", [0, 2])
def test_a_failed_write_or_sync_is_never_acknowledged_and_a_retry_stands_once(
    place: Path, failing: dict[str, int], made: int
) -> None:
    disk = BadDisk()
    scribe = Scribe(opened(place, disk=disk), ManualClock())
    for _ in range(made):
        drive(scribe.append())
    write = scribe.write(THREAD)
    disk.failing = dict(failing)
    with pytest.raises(StorageIOError):
        drive(scribe.storage.append(write))
    disk.failing = {}
    drive(scribe.storage.append(msgspec.structs.replace(write, since=made)))
    drive(scribe.append())
    found = drive(scribe.storage.entries(THREAD))
    assert [entry.write_id for entry in found].count(write.write_id) == 1
    assert len(found) == len(lines_of(place)) == made + 2
    assert drive(opened(place).entries(THREAD)) == found


def test_a_full_disk_says_so_and_leaves_the_log_as_it_was(place: Path) -> None:
    disk = BadDisk()
    scribe = Scribe(opened(place, disk=disk), ManualClock())
    drive(scribe.append())
    before = (folder_of(place) / "log.jsonl").read_bytes()
    disk.failing, disk.error = {"write": 1}, StorageFullError("disk", "no space left on device")
    with pytest.raises(StorageFullError):
        drive(scribe.append())
    assert (folder_of(place) / "log.jsonl").read_bytes() == before


def test_a_folder_that_can_only_be_read_is_read(place: Path, scribe: Scribe) -> None:
    class Sealed(RealDisk):
        def open(self, path: str, *, write: bool = False, create: bool = False) -> File | None:
            if write:
                raise StorageReadOnlyError(path, "read-only file system")
            return super().open(path)

    before = [drive(scribe.append()) for _ in range(3)][-1]
    log = folder_of(place) / "log.jsonl"
    log.write_bytes(log.read_bytes() + b'{"entries":[')
    (folder_of(place) / "index.jsonl").unlink()
    storage = FileStorage(str(place), port=InPlace(str(place)), disk=Sealed())
    assert drive(storage.thread(THREAD)) == before.row
    assert len(drive(storage.entries(THREAD))) == 3
    with pytest.raises(StorageReadOnlyError):
        drive(storage.append(scribe.write()))


# ── neighbours ────────────────────────────────────────────────────────────────────────────────────────────────────────

_WRITER = """
import sys
from perdure.storage.drive import drive
from perdure.storage.file.store import FileStorage
from perdure.storage.ports import InPlace
from perdure.testing.clock import ManualClock
from perdure.testing.scribe import MESSAGE, STATE, THREAD, Scribe

storage = FileStorage(sys.argv[1], port=InPlace(sys.argv[1]))
drive(storage.setup())
scribe = Scribe(storage, ManualClock(), seed=int(sys.argv[2]))
for _ in range(20):
    drive(scribe.append(THREAD))
    drive(scribe.append(THREAD, STATE, MESSAGE))
"""


def test_two_processes_take_turns(place: Path) -> None:
    command = [sys.executable, "-c", _WRITER, str(place)]
    writers = [subprocess.Popen([*command, str(seed)]) for seed in (1, 2)]
    assert [writer.wait(timeout=120) for writer in writers] == [0, 0]
    storage = opened(place)
    entries = drive(storage.entries(THREAD))
    row = drive(storage.thread(THREAD))
    assert row is not None
    assert [entry.version for entry in entries] == list(range(1, 121))
    assert verify_links(THREAD.id, 0, GENESIS, entries) == row.head_digest
    assert len(lines_of(place)) == 80


def test_what_another_process_wrote_is_seen(storage: FileStorage, place: Path, scribe: Scribe) -> None:
    drive(scribe.append())
    other = opened(place)
    neighbour = Scribe(other, scribe.clock, seed=9)
    made = drive(neighbour.append())
    assert drive(storage.thread(THREAD)) == made.row
    drive(other.delete(THREAD))
    assert drive(storage.thread(THREAD)) is None
    again = drive(neighbour.append())
    assert drive(storage.thread(THREAD)) == again.row
    assert len(drive(storage.entries(THREAD))) == 1


# ── listings ──────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_listings_and_look_ups_in_a_fresh_process_read_no_payload() -> None:
    disk = PowerLossDisk()
    storage = opened("/agents", disk=disk)
    scribe = Scribe(storage, ManualClock())
    entry = saying(scribe, "x" * 10_000)
    written: list[Write] = []
    for number in range(50):
        written.append(scribe.write(THREAD, entries=(entry,), idem_key=f"k{number}", checkpoint=scribe.mark()))
        drive(storage.append(written[-1]))
    disk.bytes_read.clear()
    fresh = FileStorage("/agents", port=InPlace("/agents"), disk=disk)
    row = drive(fresh.thread(THREAD))
    assert row is not None
    assert row.head == 50
    assert len(drive(fresh.checkpoints(THREAD, CheckpointQuery()))) == 50
    assert len(drive(fresh.user_checkpoints("", "alice", CheckpointQuery()))) == 50
    assert drive(fresh.threads(ThreadQuery())) == drive(fresh.find("", THREAD.id)) == [row]
    assert len(drive(fresh.headers(THREAD, limit=50))) == 50
    assert drive(fresh.append(written[7])).again
    assert drive(fresh.append(msgspec.structs.replace(written[9], idem_key=None, since=5))).again
    assert drive(fresh.due("", scribe.clock.now())) == []
    assert sum(size for path, size in disk.bytes_read.items() if path.endswith("log.jsonl")) < 1000
    assert sum(disk.bytes_read.values()) < 100_000


def test_due_looks_only_at_threads_that_are_due() -> None:
    disk = PowerLossDisk()
    storage = opened("/agents", disk=disk)
    scribe = Scribe(storage, ManualClock())
    for name in "abc":
        drive(scribe.append(ThreadKey("", "", name)))
    drive(scribe.append(ThreadKey("", "", "a"), patch=ThreadPatch(wake_at=scribe.clock.now())))
    drive(storage.claim(ThreadKey("", "", "b"), "me", until=scribe.clock.now() + 10**9, now=0))
    disk.bytes_read.clear()
    fresh = FileStorage("/agents", port=InPlace("/agents"), disk=disk)
    assert [row.key.id for row in drive(fresh.due("", scribe.clock.now()))] == ["a"]
    assert set(disk.bytes_read) == {"/agents/directory.jsonl"}


# ── hostile ids ───────────────────────────────────────────────────────────────────────────────────────────────────────

_NFC = unicodedata.normalize("NFC", "é")
HOSTILE = [
    "../../x", "/etc/passwd", "..", ".", "con", "a/b\\c", "*", "~", "%00", "\n", "\r\n", "'; drop", "log.jsonl",
    "x" * 512, "\U0001f600" * 512, _NFC, unicodedata.normalize("NFD", _NFC), "Case", "case", "\u202e", " ", "-rf",
]  # fmt: skip


def test_hostile_ids_never_leave_the_folder_and_never_meet(storage: FileStorage, place: Path, scribe: Scribe) -> None:
    keys = [ThreadKey("", user, name) for name in HOSTILE for user in ("", "../u")]
    made = {key: drive(scribe.append(key, blobs=(blob_of(key.id),))).row for key in keys}
    for key in keys:
        assert drive(storage.thread(key)) == made[key]
        assert len(drive(storage.entries(key))) == 1
    assert {path.name for path in place.parent.iterdir()} == {place.name}
    assert {path.name for path in (place / "threads").iterdir()} == {key.digest() for key in keys}
    assert all(path.resolve().is_relative_to(place.resolve()) for path in place.rglob("*"))
    assert all(drive(storage.delete(key)) for key in keys)
    assert list((place / "threads").iterdir()) == []


# ── damage ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def everything(path: Path) -> Iterator[object]:
    """Whatever can be read of the test's threads, each by a process that knows nothing yet."""
    for key in (THREAD, OTHER):
        yield drive(opened(path).entries(key))
        yield rebuilt(path, key)
        yield drive(opened(path).checkpoints(key, CheckpointQuery()))
        yield drive(opened(path).blobs(key, [blob_of("large").digest]))
    yield drive(opened(path).threads(ThreadQuery()))
    yield [row.key for row in drive(opened(path).due("", 10**18))]


def rebuilt(path: Path, key: ThreadKey) -> object:
    """What folding has in the end: a damaged snapshot may be left out, then the entries it stood for come instead."""
    found = drive(opened(path).restore(key))
    if found is None:
        return None
    if found.snapshot is not None:
        assert found.snapshot.payload == seal(encode({"version": found.snapshot.version}))
    start = found.snapshot.version if found.snapshot else 0
    assert verify_links(key.id, start, found.snapshot.chain if found.snapshot else GENESIS, found.entries)
    assert [entry.version for entry in found.entries] == list(range(start + 1, found.row.head + 1))
    assert all(body_of(key.id, entry) for entry in found.entries if entry.payload is not None)
    return found.row


def populated(path: Path) -> None:
    scribe = Scribe(opened(path), ManualClock())
    for number in range(4):
        made = drive(scribe.append(THREAD, STATE, MESSAGE, blobs=(blob_of("large"),), checkpoint=scribe.mark()))
        if number % 2:
            drive(scribe.snapshot(made, base=number == 1))
    drive(scribe.fork(THREAD, 5, OTHER))
    drive(scribe.append(OTHER))
    drive(scribe.storage.claim(OTHER, "me", until=5, now=0))


def test_a_flipped_bit_changes_nothing_or_is_a_typed_error(place: Path) -> None:
    populated(place)
    files = {path: path.read_bytes() for path in sorted(place.rglob("*")) if path.is_file()}
    before = list(everything(place))
    random, total, errors = Random(7), FLIPS, 0
    targets = [path for path, data in files.items() if data]
    for _ in range(total):
        path = random.choice(targets)
        data = bytearray(files[path])
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
        path.write_bytes(data)
        try:
            assert list(everything(place)) == before
        except (DamagedError, StorageError):
            errors += 1
        for each, whole in files.items():
            if not each.exists() or each.read_bytes() != whole:
                each.write_bytes(whole)
    assert errors > total // 10


def test_a_damaged_snapshot_is_dropped_and_an_earlier_one_used(
    storage: FileStorage, place: Path, scribe: Scribe
) -> None:
    first = drive(scribe.snapshot(drive(scribe.append())))
    drive(scribe.snapshot(drive(scribe.append())))
    newest = folder_of(place) / "snapshots" / "0000000000000002.json"
    newest.write_bytes(newest.read_bytes().replace(b'"version":2', b'"version":3'))
    found = drive(storage.restore(THREAD))
    assert found is not None
    assert (found.snapshot, [entry.version for entry in found.entries]) == (first, [2])
    assert not newest.exists()


def test_a_damaged_base_is_an_error(storage: FileStorage, place: Path, scribe: Scribe) -> None:
    drive(scribe.snapshot(drive(scribe.append()), base=True))
    log = folder_of(place) / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b'"payload":[{"version":1}]', b'"payload":[{"version":2}]'))
    for _ in range(2):
        with pytest.raises(EntryDamagedError):
            drive(storage.restore(THREAD))


def test_a_damaged_mark_of_a_fork_keeps_its_parent(storage: FileStorage, place: Path, scribe: Scribe) -> None:
    drive(scribe.grow(THREAD, 2))
    drive(scribe.fork(THREAD, 2, OTHER))
    before = drive(storage.entries(OTHER))
    (mark,) = (folder_of(place) / "forks").iterdir()
    mark.write_bytes(mark.read_bytes().replace(b'"uid"', b'"uie"'))
    assert drive(storage.delete(THREAD))
    assert drive(opened(place).entries(OTHER)) == before


def test_a_damaged_thread_can_still_be_deleted(storage: FileStorage, place: Path, scribe: Scribe) -> None:
    drive(scribe.grow(THREAD, 2))
    log = folder_of(place) / "log.jsonl"
    log.write_bytes(log.read_bytes()[:-30])
    assert drive(opened(place).delete(THREAD))
    assert drive(storage.thread(THREAD)) is None
