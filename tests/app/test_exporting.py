"""Export and import: a thread as one file (promise B21, its first half)."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

import perdure
from perdure.app import exporting
from perdure.app.copying import Copied, Outcome, copy_threads
from perdure.app.exporting import export_thread
from perdure.app.importing import import_file
from perdure.core.errors import (
    AmbiguousThreadError,
    BlobDamagedError,
    EntryDamagedError,
    ExportDamagedError,
    InvalidIdError,
    InvalidInputError,
    NotFoundError,
    SchemaTooNewError,
    StorageFullError,
    StorageUnavailableError,
)
from perdure.core.identity import FROM_FILE, ThreadKey
from perdure.core.threads import ThreadRow
from perdure.storage.contract import Storage
from perdure.storage.drive import drive
from perdure.storage.file.disk import RealFile
from perdure.storage.memory import MemoryStorage
from perdure.sync import Perdure
from perdure.testing.contract.transfer import everything
from tests.app.backups import believe, storage_of
from tests.contract.backends import BACKENDS

TICKET = ThreadKey("", "alice", "ticket")
FAMILY = [TICKET, *(ThreadKey("", "alice", name) for name in ("what-if", "early", "later"))]
KINDS = ("memory", "file", "sqlite", "postgres", "mysql")


@pytest.fixture
def store() -> Iterator[Perdure]:
    """A thread with large values and enough turns for a snapshot, and forks of it and of a fork."""
    with Perdure.open("memory://") as store:
        thread = store.thread("ticket", user="alice", agent="bot", name="Ticket", tags=["x"])
        for turn in range(40):
            thread.append("messages", {"turn": turn, "text": "word " * 200}, checkpoint=turn % 7 == 0, key=f"k{turn}")
        thread.update(set={"report": "x" * 100_000}, checkpoint=True)
        fork = thread.fork("@20", to="what-if")
        fork.update(set={"city": "Rome"}, checkpoint=True)
        fork.fork("@10", to="early").update(set={"city": "Oslo"})
        fork.fork(to="later")
        store.thread("ticket", user="bob").save({"of": "bob"})
        yield store


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ticket.perdure"


def ticket(store: Perdure) -> perdure.sync.Thread:
    return store.thread("ticket", user="alice")


def outcomes(done: list[Copied]) -> dict[str, str]:
    return {each.key.id: each.outcome.value for each in done}


def all_of(storage: Storage, keys: list[ThreadKey]) -> list[object]:
    """Everything but uids: who goes elsewhere gets one of its own."""
    found = [drive(everything(storage, key)) for key in keys]
    return [(nameless(row), *rest) for row, *rest in found]


def nameless(row: ThreadRow | None) -> ThreadRow | None:
    parent = None if row is None or row.parent_uid is None else "a parent"
    return row and msgspec.structs.replace(row, uid="", parent_uid=parent)


@pytest.mark.parametrize("target", KINDS)
@pytest.mark.parametrize("source", KINDS)
def test_every_backend_imports_what_every_other_exports(
    source: str, target: str, store: Perdure, tmp_path: Path, path: Path
) -> None:
    """B21: versions, times, keys, checkpoints, digests and states are the same, on any pair of backends."""
    (tmp_path / "one").mkdir()
    (tmp_path / "other").mkdir()
    backends = [BACKENDS[source]("sync", tmp_path / "one"), BACKENDS[target]("sync", tmp_path / "other")]
    one, other = (backend.open() for backend in backends)
    drive(one.setup())
    drive(other.setup())
    drive(copy_threads(storage_of(store), one))
    drive(export_thread(one, TICKET, path, forks=True))
    believe(other, one)
    assert set(outcomes(drive(import_file(other, path, user=FROM_FILE, trust=True))).values()) == {"copied"}
    assert all_of(other, FAMILY) == all_of(one, FAMILY) == all_of(storage_of(store), FAMILY)
    assert drive(other.sizes()).entries == 41 + 1 + 1
    assert set(outcomes(drive(import_file(other, path, user="alice", trust=True))).values()) == {"same"}
    for storage, backend in zip((one, other), backends, strict=True):
        drive(storage.close())
        backend.clear()


async def test_asynchronous_callers_have_the_same(tmp_path: Path, path: Path) -> None:
    async with perdure.Perdure.open(f"sqlite:///{tmp_path}/a.db") as one, perdure.Perdure.open("memory://") as other:
        await one.thread("t", user="alice").save({"n": 1})
        done = await one.export(one.thread("t", user="alice"), path)
        assert (done.path, done.entries, done.bytes) == (str(path), 1, path.stat().st_size)
        assert [(each.key.id, each.outcome) for each in await other.import_(path, user=FROM_FILE)] == [
            ("t", Outcome.COPIED)
        ]
        assert await other.thread("t", user="alice").load() == {"n": 1}


async def test_the_event_loop_goes_on_while_a_file_is_written(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with perdure.Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        await store.thread("t").save({"n": 1})
        write = RealFile.write

        def slow(self: RealFile, offset: int, data: bytes) -> None:
            time.sleep(0.05)
            write(self, offset, data)

        monkeypatch.setattr(RealFile, "write", slow)
        export, beats = asyncio.create_task(store.export("t", path)), 0
        while not export.done():
            await asyncio.sleep(0.005)
            beats += 1
        assert (beats > 5, export.result().entries) == (True, 1)


async def test_an_export_that_is_cancelled_leaves_nothing(
    tmp_path: Path, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with perdure.Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        await store.thread("t").save({"n": 1})
        monkeypatch.setattr(RealFile, "sync", lambda self: time.sleep(0.1))
        export = asyncio.create_task(store.export("t", path))
        await asyncio.sleep(0.05)
        export.cancel()
        with pytest.raises(asyncio.CancelledError):
            await export
    assert [name for name in os.listdir(tmp_path) if name.startswith(".perdure")] == []


def test_the_first_line_tells_what_is_inside(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path, forks=True)
    line = path.read_bytes().split(b"\n")[0].decode()
    assert line.startswith(f'perdure-export 1 {{"release":"{perdure.__version__}","created":"20')
    assert (
        '{"id":"ticket","user":"alice","namespace":"","version":41,"forked_from":null,"counts":{"entries":41,' in line
    )
    assert (
        '{"id":"early","user":"alice","namespace":"","version":11,"forked_from":"what-if","counts":{"entries":1}}'
        in line
    )


def test_a_thread_alone_or_with_what_descends_from_it(store: Perdure, path: Path) -> None:
    for thread, forks, expected in [
        (ticket(store), False, ["ticket"]),
        (ticket(store), True, ["ticket", "what-if", "early", "later"]),
        (store.thread("what-if", user="alice"), True, ["what-if", "early", "later"]),
        (store.thread("later", user="alice"), True, ["later"]),
    ]:
        assert [each.id for each in store.export(thread, path, forks=forks).threads] == expected
        with Perdure.open("memory://") as other:
            other.import_(path, user="alice")
            for name in expected:
                assert other.thread(name, user="alice").load() == store.thread(name, user="alice").load()


def test_forks_share_their_past_in_the_file_and_afterwards(store: Perdure, path: Path) -> None:
    alone = store.export(ticket(store), path).bytes
    assert store.export(ticket(store), path, forks=True).bytes < alone + 4000
    with Perdure.open("memory://") as other:
        other.import_(path, user="alice")
        assert other.sizes().entries == 43
        assert other.thread("what-if", user="alice").info().forked_from == 20


def test_a_fork_of_a_deleted_fork_is_a_descendant_too(store: Perdure, path: Path) -> None:
    store.thread("what-if", user="alice").delete()
    assert [each.id for each in store.export(ticket(store), path, forks=True).threads][1:] == ["early", "later"]
    with Perdure.open("memory://") as other:
        other.import_(path, user="alice")
        assert other.thread("later", user="alice").load()["city"] == "Rome"


def test_nobody_elses_threads_come_along(store: Perdure, path: Path) -> None:
    done = store.export(store.thread("ticket", user="bob"), path, forks=True)
    assert [(each.id, each.user) for each in done.threads] == [("ticket", "bob")]
    with pytest.raises(AmbiguousThreadError):
        store.export(store.thread("ticket", user=perdure.ANY_USER), path)
    for nobodys in ("ticket", "what-if", "nothing"):
        with pytest.raises(NotFoundError):
            store.export(nobodys, path)


def test_what_was_rewound_and_pruned_comes_along(store: Perdure, path: Path) -> None:
    thread = ticket(store)
    thread.rewind("@30")
    thread.append("messages", "after", checkpoint=True)
    thread.prune(keep=2)
    assert {"records", "rewinds"} <= set(store.export(thread, path, forks=True).threads[0].counts)
    with Perdure.open("memory://") as other:
        believe(storage_of(other), storage_of(store))
        assert set(outcomes(other.import_(path, user="alice", trust=True)).values()) == {"copied"}
        assert all_of(storage_of(other), FAMILY) == all_of(storage_of(store), FAMILY)
        for point in thread.history():
            assert ticket(other).load(f"@{point.id}") == thread.load(f"@{point.id}")
        assert ticket(other).messages() == thread.messages()


def test_an_imported_fork_of_pruned_threads_can_be_exported_again(store: Perdure, tmp_path: Path) -> None:
    """Where its parents are not, its past is cut at keys that were used twice, in the middle of pruned ranges."""
    ticket(store).prune(1)
    fork = store.thread("what-if", user="alice")
    for turn in range(6):
        fork.save({"turn": turn, "text": "word " * 500}, key="k3" if turn == 2 else None)
    fork.prune(1)
    fork.fork(to="last").save({"of": "the last"})
    store.export(store.thread("last", user="alice"), tmp_path / "0.perdure")
    last = ThreadKey("", "alice", "last")
    for number in range(3):
        with Perdure.open(f"file://{tmp_path}/{number}") as other:
            other.import_(tmp_path / f"{number}.perdure", user="alice")
            assert other.verify(restore=True).damaged == []
            assert drive(storage_of(other).seams(last)) == drive(storage_of(store).seams(last))
            other.export(other.thread("last", user="alice"), tmp_path / f"{number + 1}.perdure")


def test_a_grown_export_brings_the_thread_up_to_it(store: Perdure, path: Path) -> None:
    with Perdure.open("memory://") as other:
        store.export(ticket(store), path)
        believe(storage_of(other), storage_of(store))
        other.import_(path, user="alice", trust=True)
        ticket(store).append("messages", "more", checkpoint=True)
        store.export(ticket(store), path)
        (done,) = other.import_(path, user="alice")
        assert (done.outcome, done.entries) == (Outcome.GREW, 1)
        assert ticket(other).load() == ticket(store).load()


def test_an_older_export_changes_nothing(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path)
    ticket(store).append("messages", "more")
    before = all_of(storage_of(store), FAMILY)
    assert [each.outcome for each in store.import_(path, user="alice")] == [Outcome.SAME]
    assert all_of(storage_of(store), FAMILY) == before


def test_another_history_is_refused_unless_overwriting_is_asked_for(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path)
    with Perdure.open("memory://") as other:
        handle = other.thread("ticket", user="alice")
        handle.save({"mine": True})
        (done,) = other.import_(path, user="alice")
        assert (done.outcome, "another history" in done.reason) == (Outcome.REFUSED, True)
        assert handle.load() == {"mine": True}
        assert outcomes(other.import_(path, user="alice", overwrite=True)) == {"ticket": "copied"}
        assert handle.load() == ticket(store).load()


def test_it_can_be_imported_under_another_name_and_for_another_user(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path, forks=True)
    for user in ("alice", "carol"):
        done = store.import_(path, to="trial", user=user)
        assert outcomes(done) == dict.fromkeys(("trial", "trial/what-if", "trial/early", "trial/later"), "copied")
        for name in ("what-if", "early", "later"):
            copied, original = store.thread(f"trial/{name}", user=user), store.thread(name, user="alice")
            assert copied.load() == original.load()
            assert [point.version for point in copied.history()] == [point.version for point in original.history()]
        assert set(outcomes(store.import_(path, to="trial", user=user)).values()) == {"same"}
    assert store.sizes().entries == 3 * 43 + 1
    store.thread("trial", user="carol").append("messages", "hers")
    assert ticket(store).info().version == 41


def test_a_name_that_would_be_too_long_is_told(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path, forks=True)
    with Perdure.open("memory://") as other:
        with pytest.raises(InvalidIdError):
            other.import_(path, user="alice", to="x" * 510)
        assert other.sizes().threads == 0


def test_it_is_imported_into_the_namespace_of_the_store(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path)
    with Perdure.open("memory://", namespace="staging") as other:
        assert [each.key for each in other.import_(path, user="alice")] == [ThreadKey("staging", "alice", "ticket")]
        assert ticket(other).load() == ticket(store).load()


def test_a_key_that_was_used_is_known_after_an_import(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path)
    with Perdure.open("memory://") as other:
        other.import_(path, user="alice")
        assert ticket(other).append("messages", {"turn": 1, "text": "word " * 200}, key="k1") == 2


def test_a_long_thread_is_imported_with_a_whole_state_beside_its_log(store: Perdure, path: Path) -> None:
    store.export(ticket(store), path)
    with Perdure.open("memory://") as other:
        other.import_(path, user="alice")
        assert ticket(other).info().sizes.snapshots == 1


def test_a_lease_stays_behind(store: Perdure, path: Path) -> None:
    drive(storage_of(store).claim(TICKET, "host-of-alice", until=1 << 60, now=0))
    store.export(ticket(store), path)
    target = MemoryStorage()
    drive(import_file(target, path, user="alice"))
    row = drive(target.thread(TICKET))
    assert row is not None
    assert (row.lease_owner, row.lease_until) == (None, 0)


def test_damage_anywhere_is_refused_and_nothing_is_imported(store: Perdure, path: Path) -> None:
    """B21: a flipped bit, a cut and an addition at any place are told, with the file and the place."""
    store.export(ticket(store), path, forks=True)
    data, lots = path.read_bytes(), random.Random(3)
    places = [0, 16, 17, 40, len(data) - 1, *(lots.randrange(len(data)) for _ in range(150))]
    target = MemoryStorage()
    for at in places:
        flipped = data[:at] + bytes([data[at] ^ (1 << lots.randrange(8))]) + data[at + 1 :]
        for damaged in (flipped, data[:at], data[:at] + b"\0" + data[at:]):
            path.write_bytes(damaged)
            with pytest.raises((ExportDamagedError, SchemaTooNewError), match=str(path)):
                drive(import_file(target, path, user="alice"))
    assert drive(target.sizes()).threads == 0


def test_a_file_that_is_no_export_is_refused(tmp_path: Path) -> None:
    with Perdure.open("memory://") as store:
        for name, content in {
            "empty": b"",
            "database": b"SQLite format 3\0" * 99,
            "newer": b"perdure-export 9 {}\n",
        }.items():
            (tmp_path / name).write_bytes(content)
            with pytest.raises(SchemaTooNewError if name == "newer" else ExportDamagedError, match=name):
                store.import_(tmp_path / name, user="")
        with pytest.raises(NotFoundError, match="absent"):
            store.import_(tmp_path / "absent", user="")
        with pytest.raises(InvalidIdError):
            store.import_(tmp_path / "empty", user="", to="")


def test_a_thread_whose_log_was_forged_is_refused(store: Perdure, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The digests of the file are right, those of the log are not."""
    import msgspec

    records_of = exporting.records_of

    def forged(copy: exporting.ThreadCopy) -> Iterator[bytes]:
        entries = [msgspec.structs.replace(entry, actor="mallory") for entry in copy.entries]
        return records_of(msgspec.structs.replace(copy, entries=entries))

    monkeypatch.setattr(exporting, "records_of", forged)
    store.export(ticket(store), path, forks=True)
    with Perdure.open("memory://") as other:
        with pytest.raises(ExportDamagedError, match="thread 'ticket' is not as it was written"):
            other.import_(path, user="alice")
        assert other.sizes().threads == 0


def test_a_fork_of_another_past_is_refused(store: Perdure, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import msgspec

    records_of = exporting.records_of
    monkeypatch.setattr(
        exporting,
        "records_of",
        lambda copy: records_of(msgspec.structs.replace(copy, chain=bytes(32)) if not copy.entries else copy),
    )
    store.export(ticket(store), path, forks=True)
    with Perdure.open("memory://") as other:
        with pytest.raises(ExportDamagedError, match="thread 'later'"):
            other.import_(path, user="alice")
        assert other.sizes().threads == 0


def test_a_damaged_thread_is_not_exported(store: Perdure, path: Path) -> None:
    storage = storage_of(store).inner  # behind the limits of decoding
    assert isinstance(storage, MemoryStorage)
    storage._blobs.clear()
    with pytest.raises(BlobDamagedError):
        store.export(ticket(store), path)
    log = next(log for log in storage._logs.values() if log.row.key == TICKET)
    del log.entries[7]
    with pytest.raises(EntryDamagedError):
        store.export(ticket(store), path)
    assert list(path.parent.iterdir()) == []


def test_only_an_export_is_replaced(store: Perdure, tmp_path: Path, path: Path) -> None:
    path.write_text("precious")
    with pytest.raises(InvalidInputError, match="is no export"):
        store.export(ticket(store), path)
    assert path.read_text() == "precious"
    path.unlink()
    store.export(ticket(store), path)
    ticket(store).append("messages", "more")
    assert store.export(ticket(store), path).entries == 42
    with pytest.raises(InvalidInputError, match="is no file"):
        store.export(ticket(store), tmp_path)
    with pytest.raises(StorageUnavailableError, match="no such folder"):
        store.export(ticket(store), tmp_path / "nowhere" / "x")


def test_a_full_disk_leaves_what_was_there(store: Perdure, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store.export(ticket(store), path)
    before = path.read_bytes()

    def full(self: RealFile) -> None:
        raise StorageFullError("the disk", "no space left")

    monkeypatch.setattr(RealFile, "sync", full)
    with pytest.raises(StorageFullError):
        store.export(ticket(store), path)
    assert (list(path.parent.iterdir()), path.read_bytes()) == ([path], before)


CHILD = """
import sys
from perdure.sync import Perdure
with Perdure.open("sqlite:///" + sys.argv[1]) as store:
    print("ready", flush=True)
    while True:
        store.export("big", sys.argv[2])
"""


def test_a_kill_leaves_no_half_file_under_the_final_name(tmp_path: Path, path: Path) -> None:
    """B21: there is no file, or a whole one."""
    lots = random.Random(5)
    with Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        for _ in range(30):
            store.thread("big").append("messages", lots.randbytes(60_000))
    for _ in range(5):
        command = [sys.executable, "-c", CHILD, str(tmp_path / "a.db"), str(path)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE)
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(lots.random() * 0.2)
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        if path.exists():
            assert [each.outcome for each in drive(import_file(MemoryStorage(), path, user=""))] == [Outcome.COPIED]
            path.unlink()


def test_a_long_thread_does_not_need_several_times_its_size(path: Path) -> None:
    lots, size = random.Random(5), 0
    with Perdure.open("memory://", cache_bytes=0) as store, Perdure.open("memory://", cache_bytes=0) as other:
        thread = store.thread("big")
        for _ in range(300):
            thread.append("messages", lots.randbytes(30_000))
            thread.update(delete=["messages"])
        size = thread.info().sizes.entry_bytes
        assert peak(lambda: store.export(thread, path)) < 1.5 * size  # what memory:// has is taken without a copy
        assert peak(lambda: other.import_(path, user="")) < 2.5 * size


def peak(work: object) -> int:
    tracemalloc.start()
    try:
        work()  # type: ignore[operator]
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
