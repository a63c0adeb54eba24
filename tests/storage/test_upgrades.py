"""Upgrades of a layout by made-up steps: whole or not at all, by one of many, beside releases that it admits."""

from __future__ import annotations

import itertools
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from perdure.core.errors import NotAStorageError, SchemaOutdatedError, SchemaTooNewError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.messages import MessageQuery
from perdure.core.threads import ThreadQuery
from perdure.storage.contract import SCHEMA, Storage
from perdure.storage.drive import drive
from perdure.storage.file import layout as folder
from perdure.storage.sql import schema as tables
from perdure.testing.clock import ManualClock
from perdure.testing.contract.messages import said
from perdure.testing.powerloss import PowerLossDisk, PowerLost
from perdure.testing.scribe import OTHER, SECOND, THREAD, Scribe
from perdure.testing.servers import require, shared_mariadb
from tests.contract.backends import postgres_url
from tests.crash.waiting_child import Child, together
from tests.storage.made_up import ADMITS, FOLDERS, LATER, NEXT, NOTES, NOW, PLACES, Folder, Place, whole

ROOT = Path(__file__).parents[2]
_NUMBERS = itertools.count()
MIGRATE: Any = ("auto", "check")


class Places:
    """Fresh places of one backend."""

    def __init__(self, backend: str, folder: Path) -> None:
        self.backend = backend
        self._folder = folder
        self._clear: list[Callable[[], object]] = []

    def make(self) -> str:
        """A new one, as the command line of a child names it."""
        name = f"upgrade_{os.getpid()}_{next(_NUMBERS)}"
        if self.backend == "postgres":
            url = require(postgres_url)
            self._clear.append(lambda: _drop_schema(url, name))
            return f"{url} {name}"
        if self.backend == "mysql":
            server = require(shared_mariadb)
            self._clear.append(lambda: server.drop(name))
            return server.database(name)
        return str(self._folder / name)

    def place(self, at: str) -> Place:
        return PLACES[self.backend](at)

    def clear(self) -> None:
        for clear in self._clear:
            clear()


def _drop_schema(url: str, name: str) -> None:
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(f"DROP SCHEMA IF EXISTS {name} CASCADE".encode())


@pytest.fixture(params=PLACES)
def places(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Places]:
    places = Places(request.param, tmp_path)
    yield places
    places.clear()


@pytest.fixture
def at(places: Places) -> str:
    """A place that this release made and wrote to."""
    return used(places)


@pytest.fixture
def place(places: Places, at: str) -> Place:
    return places.place(at)


def used(places: Places) -> str:
    at = places.make()
    storage = places.place(at).open(NOW)
    assert drive(storage.setup()) == ADMITS[NOW]
    scribe = Scribe(storage, ManualClock())
    drive(scribe.grow(THREAD, 3))
    drive(scribe.save(OTHER))
    drive(storage.close())
    return at


def opened(place: Place, release: int) -> Any:
    """The storage of a release that is set up, as a context that closes it."""
    storage = place.open(release)
    drive(storage.setup())
    return closing(_Closing(storage))


class _Closing:
    def __init__(self, storage: Storage) -> None:
        self.storage = storage
        self.scribe = Scribe(storage, ManualClock(), seed=next(_NUMBERS) + 2)

    def close(self) -> None:
        drive(self.storage.close())


def head(storage: Storage, key: ThreadKey = THREAD) -> int:
    row = drive(storage.thread(key))
    assert row is not None
    entries = drive(storage.entries(key))
    assert [entry.version for entry in entries] == list(range(1, row.head + 1))
    assert entries[-1].chain == row.head_digest
    return row.head


def test_this_release_writes_the_schema_of_its_last_step() -> None:
    assert tables.STEPS[-1].schema == folder.STEPS[-1].schema == ADMITS[NOW]
    assert tables.STEPS[-1].number == SCHEMA == 1


def test_a_storage_is_upgraded_when_it_is_opened_and_keeps_what_it_has(place: Place) -> None:
    with opened(place, NEXT) as upgraded:
        assert place.pieces() == whole(place)
        assert (head(upgraded.storage), head(upgraded.storage, OTHER)) == (3, 1)
        assert drive(upgraded.storage.setup("check")) == ADMITS[NEXT]
        drive(upgraded.scribe.append())
    with opened(place, LATER) as later:
        assert drive(later.storage.setup("check")) == ADMITS[LATER]
        assert head(later.storage) == 4


def test_a_new_storage_gets_all_steps_at_once(places: Places) -> None:
    place = places.place(places.make())
    with opened(place, LATER) as made:
        assert drive(made.storage.setup("check")) == ADMITS[LATER]
        assert place.pieces() == whole(place)
        drive(made.scribe.append())
        assert head(made.storage) == 1


def test_a_check_names_both_schemas_and_changes_nothing(place: Place) -> None:
    before, storage = place.told(), place.open(NEXT)
    with pytest.raises(SchemaOutdatedError, match="schema 1, this release writes 2"):
        drive(storage.setup("check"))
    drive(storage.close())
    assert place.told() == before


def test_the_printed_statements_of_the_missing_steps_upgrade_a_storage(places: Places, place: Place) -> None:
    if places.backend == "file":
        pytest.skip("a folder is not upgraded by hand")
    old, new = list(place.open(NOW).migration()), list(place.open(NEXT).migration())
    assert new[: len(old)] == old
    session = old[:1] if places.backend == "mysql" else []
    place.migrate([*session, *new[len(old) :]])
    storage = place.open(NEXT)
    assert drive(storage.setup("check")) == ADMITS[NEXT]
    drive(storage.close())
    assert place.pieces() == whole(place)


# ── a rolling deploy ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_a_release_goes_on_beside_the_next_one_that_only_added(place: Place) -> None:
    with opened(place, NOW) as old, opened(place, NOW) as idle:
        spoken = drive(said(old.scribe, "before", key=OTHER))[0].payload
        lease = drive(old.storage.claim(THREAD, "me", until=SECOND, now=0))
        with opened(place, NEXT) as new:
            made = drive(old.scribe.append())
            drive(new.scribe.append(uid=made.row.uid, expected=made.version))
            with pytest.raises(VersionConflictError):
                drive(old.scribe.append(uid=made.row.uid, expected=made.version))
            drive(old.scribe.append(uid=made.row.uid, expected=made.version + 1))
            for each in (old.storage, idle.storage, new.storage):
                assert (head(each), head(each, OTHER)) == (6, 2)
                assert [row.key for row in drive(each.due("", SECOND))] == [THREAD]
                assert {row.key for row in drive(each.threads(ThreadQuery()))} == {THREAD, OTHER}
            assert [line.payload for line in drive(old.storage.messages(OTHER, MessageQuery()))] == [spoken]
            drive(old.storage.release(THREAD, lease.epoch))
            fork, third = ThreadKey("", "alice", "fork"), ThreadKey("", "alice", "third")
            drive(old.scribe.fork(THREAD, 2, fork))
            drive(old.scribe.append(third))
            drive(idle.scribe.append(fork))
            assert drive(new.storage.delete(third))
            assert drive(old.storage.thread(third)) is None
            assert head(new.storage, fork) == 3
        with closing(_Closing(place.open(NOW))) as again:
            for migrate in MIGRATE:
                assert drive(again.storage.setup(migrate)) == ADMITS[NEXT]
            drive(again.scribe.append())
            assert head(again.storage) == 7


@pytest.mark.parametrize("release", [NOW, NEXT])
@pytest.mark.parametrize("migrate", MIGRATE)
def test_a_release_that_would_misread_what_came_later_is_refused(place: Place, release: int, migrate: Any) -> None:
    with opened(place, release) as running:
        opened(place, LATER).thing.close()
        before = place.told()
        fresh = place.open(release)
        for storage in (fresh, running.storage):
            with pytest.raises(SchemaTooNewError, match=f"schema 3, this one knows {release}"):
                drive(storage.setup(migrate))
        drive(fresh.close())
        assert place.told() == before


@pytest.mark.parametrize("migrate", MIGRATE)
def test_a_release_that_no_longer_knows_the_first_steps_refuses_what_lacks_them(place: Place, migrate: Any) -> None:
    before, storage = place.told(), place.open(LATER, first=NEXT)
    with pytest.raises(SchemaOutdatedError, match="schema 1, this release reads 2 and newer"):
        drive(storage.setup(migrate))
    drive(storage.close())
    assert place.told() == before
    opened(place, NEXT).thing.close()
    storage = place.open(LATER, first=NEXT)
    assert drive(storage.setup()) == ADMITS[LATER]
    drive(storage.close())


# ── killed, and many at once ─────────────────────────────────────────────────────────────────────────────────────────


def test_four_processes_may_upgrade_at_once(places: Places, at: str) -> None:
    children = [Child("upgrade", places.backend, at) for _ in range(4)]
    assert together(children) == [[NEXT, 3]] * 4
    assert places.place(at).pieces() == whole(places.place(at))


def test_an_upgrade_that_was_killed_anywhere_is_finished_by_the_next_start(places: Places) -> None:
    count = int(upgrade_kills(places, "never", used(places)))
    assert count > 6
    ats = [used(places) for _ in range(count)]
    assert upgrade_kills(places, "kill", *ats).split() == [str(-signal.SIGKILL)] * count
    left = [looked_at(places, each) for each in ats]
    assert NOW in left
    assert left == sorted(left)
    for each in ats:
        place = places.place(each)
        with opened(place, NEXT) as finished:
            assert drive(finished.storage.setup("check")) == ADMITS[NEXT]
            assert (head(finished.storage), head(finished.storage, OTHER)) == (4, 1)
        assert place.pieces() == whole(place)


def looked_at(places: Places, at: str) -> int:
    """The schema that a killed upgrade left. Until it is the new one, the old release sees nothing of it."""
    place = places.place(at)
    pieces = place.pieces()
    with closing(_Closing(place.open(NOW))) as old:
        schema = drive(old.storage.setup("check"))
        assert schema in (ADMITS[NOW], ADMITS[NEXT])
        assert (head(old.storage), head(old.storage, OTHER)) == (3, 1)
        drive(old.scribe.append())
        assert head(old.storage) == 4
    if places.backend in ("sqlite", "postgres"):  # one transaction
        assert pieces == (set() if schema == ADMITS[NOW] else whole(place))
    assert schema == ADMITS[NOW] or pieces == whole(place)
    return schema.schema


def upgrade_kills(places: Places, *words: str) -> str:
    command = [sys.executable, "-m", "tests.crash.upgrade_kills", places.backend, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("late", [False, True])
def test_a_folder_whose_upgrade_lost_its_power_has_all_of_it_or_nothing(late: bool) -> None:
    place, operation, died = Folder("/store"), 0, True
    while died:
        disk = PowerLossDisk()
        drive(place.open(NOW, disk=disk).setup())
        disk.fails_after, disk.fails_late, died = disk.operations + operation, late, False
        try:
            drive(place.open(NEXT, disk=disk).setup())
        except PowerLost:
            died = True
        disk.fails_after = None
        for seed in range(5):
            after = disk.after_power_loss(seed)
            schema = drive(place.open(NOW, disk=after).setup("check"))
            assert schema in (ADMITS[NOW], ADMITS[NEXT])
            assert schema == ADMITS[NOW] or set(NOTES) <= set(after.names("/store/notes"))
            assert drive(place.open(NEXT, disk=after).setup()) == ADMITS[NEXT]
            assert set(NOTES) <= set(after.names("/store/notes"))
        operation += 1
    assert operation > 12


def test_a_marker_that_fails_its_checksum_is_refused(tmp_path: Path) -> None:
    place = Folder(str(tmp_path / "store"))
    opened(place, NOW).thing.close()
    marker = tmp_path / "store" / folder.MARKER
    numbers = {name: value for name, value in json.loads(marker.read_bytes()).items() if name != "crc"}
    for text in (json.dumps(numbers), marker.read_text().replace('"schema":1', '"schema":0')):
        marker.write_text(text)
        with pytest.raises(NotAStorageError, match="checksum"):
            drive(place.open(NOW).setup())
    assert len(FOLDERS) == LATER
