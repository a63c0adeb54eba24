"""The power goes at a random moment of a random workload; what was acknowledged is there, whole, once.

`PERDURE_POWER_LOSSES` says how many times (100 unless told otherwise).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Coroutine
from contextlib import suppress
from random import Random
from typing import Any

import msgspec
import pytest

from perdure.core.digest import GENESIS, body_of, verify_links
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import ConflictError, NotFoundError, PerdureError, PlanOutdatedError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import BLANK, content_of, is_blank, standing_for
from perdure.core.threads import ThreadPatch, ThreadQuery, ThreadRow
from perdure.core.writes import Appended, Write
from perdure.storage.drive import drive
from perdure.storage.file.store import FileStorage
from perdure.storage.ports import InPlace
from perdure.storage.transfer import take
from perdure.testing.clock import ManualClock
from perdure.testing.powerloss import PowerLossDisk, PowerLost
from perdure.testing.scribe import MESSAGE, STATE, Scribe, blob_of, snapshot_of
from tests.storage.pruned import planned

LOSSES = int(os.environ.get("PERDURE_POWER_LOSSES", "100"))
KEYS = [ThreadKey("", "alice", name) for name in ("a", "b", "c")]
ROOT = "/srv/agents"
STEPS = 60


class Play:
    """A workload, and what it was told."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.clock = ManualClock()
        self.disk = PowerLossDisk()
        self.logs: dict[ThreadKey, list[Entry]] = {}  # acknowledged, whole history of each living thread
        self.rows: dict[ThreadKey, ThreadRow] = {}
        self.blobs: dict[bytes, bytes] = {}
        self.pending: Write | None = None  # asked for when the power went
        self.doubt: ThreadKey | None = None  # a thread whose last request was not answered
        self.copied: list[Entry] | None = None  # what that request would have made of it, if it put a copy there
        self.boot()

    def boot(self) -> None:
        """Start a process on the disk as it is."""
        self.storage = FileStorage(ROOT, port=InPlace(ROOT), disk=self.disk)
        self.scribe = Scribe(self.storage, self.clock, seed=self.random.randrange(1 << 30))

    def run(self, steps: int) -> None:
        """Do so many random things, or until the power goes."""
        drive(self.storage.setup())
        choices: list[Callable[[ThreadKey], None]] = [
            *[self.save] * 6, self.snapshot, self.claim, self.release, self.fork, self.delete, self.look,
            self.copy, self.prune,
        ]  # fmt: skip
        for _ in range(steps):
            self.random.choice(choices)(self.random.choice(KEYS))

    def save(self, key: ThreadKey) -> None:
        kinds = self.random.choice([(STATE,), (STATE, MESSAGE), (MESSAGE,)])
        large = (blob_of("x" * self.random.randrange(3000)),) if self.random.random() < 0.2 else ()
        mark = self.scribe.mark(note="n" * self.random.randrange(2000))  # from one sector to five
        write = self.scribe.write(key, *kinds, blobs=large, checkpoint=mark)
        row = self.rows.get(key)
        if row is not None and row.lease_owner is not None:
            write = Write(**{**_fields(write), "epoch": row.epoch, "renew_until": self.clock.now() + 10})
        if self.random.random() < 0.1:
            write = Write(**{**_fields(write), "patch": ThreadPatch(wake_at=self.clock.now() + 5)})
        self.doubt, self.pending = key, write
        self.told(key, drive(self.storage.append(write)))

    def prune(self, key: ThreadKey) -> None:
        """Prune a range, or everything up to a base, of what is the thread's own."""
        row, gone = self.rows.get(key), drive(self.storage.seams(key))
        there = [at for at in range(row.parent_version, row.head + 1) if not gone.is_gone(at)] if row else []
        if len(there) >= 2:
            low, high = sorted(self.random.sample(there, 2))
            whole = self.random.random() < 0.4
            ranges, base = ([], high) if whole else ([(low, high)], None)
            plan = drive(planned(self.storage, key, *ranges, base=base, unmarked=(high - 1,)))
            self.doubt, self.pending = key, self.scribe.write(key, EntryKind.RANGE_PRUNED, pruning=plan)
            with suppress(PlanOutdatedError):  # a fork needs something of it
                self.told(key, drive(self.storage.append(self.pending)))
            self.doubt = self.pending = None

    def told(self, key: ThreadKey, made: Appended) -> None:
        self.rows[key] = made.row
        assert self.pending is not None
        self.blobs |= {blob.digest: blob.payload for blob in self.pending.blobs}
        known = self.logs.get(key, [])
        self.logs[key] = known + drive(self.storage.entries(key, after=len(known)))
        if self.pending.pruning is not None:  # of the forks' past too
            for each in self.logs:
                found = drive(self.storage.entries(each))
                assert fits(found, self.logs[each], self.pending)
                self.logs[each] = found
        self.doubt = self.pending = None

    def snapshot(self, key: ThreadKey) -> None:
        if key in self.rows:
            row = self.rows[key]
            assert drive(self.storage.put_snapshot(key, row.uid, snapshot_of(row.head, row.head_digest)))

    def claim(self, key: ThreadKey) -> None:
        self.lease(key, lambda: self.storage.claim(key, "me", until=self.clock.now() + 9, now=self.clock.now()))

    def release(self, key: ThreadKey) -> None:
        epoch = self.rows[key].epoch if key in self.rows else 0
        self.lease(key, lambda: self.storage.release(key, epoch, wake_at=self.clock.now()))

    def lease(self, key: ThreadKey, change: Callable[[], Coroutine[Any, Any, object]]) -> None:
        self.doubt = key
        if key in self.rows:
            with suppress(PerdureError):  # held or lost: nothing changed
                drive(change())
            self.rows[key] = _there(drive(self.storage.thread(key)))
        self.doubt = None

    def fork(self, key: ThreadKey) -> None:
        target = self.random.choice(KEYS)
        if key in self.rows and target not in self.rows:
            self.doubt = target
            at = self.random.randrange(self.rows[key].head + 1)
            with suppress(NotFoundError):  # it was pruned
                self.rows[target] = drive(self.scribe.fork(key, at, target))
                self.logs[target] = self.logs[key][:at]
            self.doubt = None

    def copy(self, key: ThreadKey) -> None:
        """Put a copy where nothing is, or bring one up that is the beginning of it."""
        target = self.random.choice(KEYS)
        if key in self.rows and target != key:
            copy = drive(take(self.storage, key, spare_uid=self.scribe.uid())).under(target)
            known = self.logs.get(target, [])  # what stands there stays as it is, also where the other was pruned since
            self.doubt, self.copied = target, known + self.logs[key][len(known) :]
            with suppress(ConflictError):  # another thread is there, or somebody runs it: nothing changed
                self.rows[target] = drive(self.storage.put_thread(copy))
                self.logs[target] = self.copied
            self.doubt = self.copied = None

    def delete(self, key: ThreadKey) -> None:
        if key in self.rows and self.random.random() < 0.5:
            self.doubt = key
            drive(self.storage.delete(key))
            del self.rows[key], self.logs[key]
            self.doubt = None

    def look(self, key: ThreadKey) -> None:
        assert drive(self.storage.entries(key)) == self.logs.get(key, [])


def _fields(write: Write) -> dict[str, Any]:
    return {name: getattr(write, name) for name in write.__struct_fields__}


def _there(row: ThreadRow | None) -> ThreadRow:
    assert row is not None
    return row


def fits(found: list[Entry], known: list[Entry], pending: Write | None) -> bool:
    """Whether these are the entries that are known, or what a prune may have made of them."""
    if pending is None or pending.pruning is None or len(found) != len(known):
        return found == known
    blanked = [msgspec.structs.replace(each, payload=BLANK) for each in known]
    return all(now in (each, blank) for now, each, blank in zip(found, known, blanked, strict=True))


def check(play: Play) -> None:
    """Everything acknowledged is there, and everything there is whole."""
    drive(play.storage.setup())
    for key in KEYS:
        entries = drive(play.storage.entries(key))
        row = drive(play.storage.thread(key))
        assert verify_links(key.id, 0, GENESIS, entries) == (row.head_digest if row else GENESIS)
        records = drive(play.storage.records(key))
        assert all(body_of(key.id, entry) for entry in entries if not is_blank(entry))
        assert all(standing_for(records, entry.version) for entry in entries if is_blank(entry))
        assert all(content_of(key.id, record) for record in records if not record.whole)
        if key != play.doubt:
            assert fits(entries, play.logs.get(key, []), play.pending)
            assert row == play.rows.get(key)
    check_the_thread_in_doubt(play)
    listed = {row.key: row for row in drive(play.storage.threads(ThreadQuery()))}
    assert listed == {key: row for key in KEYS if (row := drive(play.storage.thread(key)))}
    assert drive(play.storage.blobs(KEYS[0], list(play.blobs))) == play.blobs


def check_the_thread_in_doubt(play: Play) -> None:
    """The one request without an answer happened wholly, or not at all."""
    key = play.doubt
    if key is None:
        return
    known, found = play.logs.get(key, []), drive(play.storage.entries(key))
    if play.pending is not None:
        pruned = play.pending if len(found) > len(known) else None
        assert fits(found[: len(known)], known, pruned)
        assert len(found) in (len(known), len(known) + len(play.pending.entries))
        assert all(entry.write_id == play.pending.write_id for entry in found[len(known) :])
    elif play.copied is not None:
        assert found in (known, play.copied)
    elif found:
        assert known == [] or found == known  # deleted or not, forked or not, claimed or not


def retry(play: Play) -> None:
    """The same write again stands once."""
    if play.pending is None or play.doubt is None:
        return
    known = play.logs.get(play.doubt, [])
    again = Write(**{**_fields(play.pending), "since": len(known)})
    key, play.pending = play.doubt, again
    play.told(key, drive(play.storage.append(again)))
    found = drive(play.storage.entries(key))
    assert [entry.write_id for entry in found].count(again.write_id) == len(again.entries)
    assert len(found) == len(known) + len(again.entries)


def adopt(play: Play) -> None:
    """Take what is there after a request that was not answered as the truth from now on."""
    for key in KEYS:
        row = drive(play.storage.thread(key))
        if row is None:
            play.rows.pop(key, None)
            play.logs.pop(key, None)
        else:
            play.rows[key], play.logs[key] = row, drive(play.storage.entries(key))
    play.doubt = play.pending = play.copied = None


@pytest.mark.parametrize("seed", range(LOSSES))
def test_a_power_loss_loses_nothing_that_was_acknowledged(seed: int) -> None:
    play = Play(seed)
    for _ in range(4):
        stop(play)
        if play.random.random() < 0.5:
            read_after_a_kill(play)
        play.disk = play.disk.after_power_loss(play.random.randrange(1 << 30))
        play.boot()
        check(play)
        retry(play)
        adopt(play)
        check(play)


def stop(play: Play) -> None:
    """Work until the machine stops."""
    play.disk.fails_after = play.disk.operations + play.random.randrange(6 * STEPS)
    play.disk.fails_late = play.random.random() < 0.5
    with suppress(PowerLost):
        play.run(STEPS)
    play.disk.fails_after = None


def read_after_a_kill(play: Play) -> None:
    """Only the process died at first: what the next one has seen of a log is the truth from then on."""
    play.boot()
    check(play)
    if play.pending is not None:
        adopt(play)


def test_the_disk_forgets_what_was_not_synced() -> None:
    found: set[bytes | None] = set()
    for seed in range(60):
        disk = PowerLossDisk()
        file = disk.open("/log", create=True)
        assert file is not None
        file.write(0, b"a" * 600)
        file.sync()
        disk.sync_folder("/")
        file.write(600, b"b" * 600)
        found.add(disk.after_power_loss(seed).files().get("/log"))
    assert all(data is not None and data[:600] == b"a" * 600 for data in found)
    assert {b"a" * 600, b"a" * 600 + b"b" * 600} < found
    assert any(data and b"\0" in data for data in found)


def test_the_disk_loses_names_that_were_not_synced_and_keeps_the_others() -> None:
    found: set[tuple[str, ...]] = set()
    for seed in range(30):
        disk = PowerLossDisk()
        for path in ("/kept", "/new"):
            file = disk.open(path, create=True)
            assert file is not None
            file.write(0, b"x")
            file.sync()
            if path == "/kept":
                disk.sync_folder("/")
        disk.replace("/kept", "/moved")
        found.add(tuple(disk.after_power_loss(seed).files()))
    assert found == {("/kept",), ("/kept", "/new"), ("/moved",), ("/moved", "/new")}
