"""Files of a store are for their owner alone from the moment they are made, or as `file_mode` says."""

from __future__ import annotations

import asyncio
import logging
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from perdure import CheckpointManager, FileCheckpointStorage, SQLiteCheckpointStorage, StandardAgent
from perdure import Perdure as AsyncPerdure
from perdure.core.errors import DamagedError, InvalidConfigError, InvalidInputError, StorageError
from perdure.core.retention_policy import Retention
from perdure.storage.file.disk import RealDisk
from perdure.storage.permissions import (
    check_file_mode,
    folder_mode,
    make_database,
    make_file,
    make_folder,
    parse_file_mode,
    temporary_name,
)
from perdure.sync import Perdure

UMASKS = (0o000, 0o022, 0o077)
SECRET = b"what the victim had written\n"
_LARGE = "x" * 200_000


@pytest.fixture(params=UMASKS, ids=lambda mask: f"umask_{mask:03o}")
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder that everybody may use, as /tmp is."""
    place = tmp_path / "shared"
    place.mkdir()
    place.chmod(0o777)
    return place


def modes(folder: Path) -> dict[str, str]:
    """Every file and folder below, with its mode."""
    return {str(path.relative_to(folder)): f"{_mode(path):03o}" for path in sorted(folder.rglob("*"))}


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def assert_modes(folder: Path, file_mode: int) -> None:
    found = modes(folder)
    assert found
    wanted = {True: f"{folder_mode(file_mode):03o}", False: f"{file_mode:03o}"}
    assert found == {name: wanted[(folder / name).is_dir()] for name in found}


def fill(store: Perdure) -> None:
    """Use everything that writes a file of its own: large values, whole states, forks, runs, retention, deletion."""
    thread = store.thread("c", user="alice")
    for number in range(60):
        thread.append("messages", f"{number}: " + "what was said, " * 40)
    thread.update(set={"picture": _LARGE}, checkpoint=True)
    thread.fork("@1", to="what-if").append("messages", "otherwise")
    store.handler("work")(lambda run: run.step("look", lambda: 1))
    store.start("work", thread="r", user="alice")
    store.recover()
    store.thread("gone").append("messages", "soon")
    store.thread("gone").delete()
    store.prune(Retention(last=1))
    store.compact()
    assert store.verify().ok


URLS = {"sqlite": "sqlite:///{}/agents.db", "file": "file://{}/agents"}


@pytest.fixture(params=URLS)
def url(request: pytest.FixtureRequest, folder: Path) -> str:
    return URLS[request.param].format(folder)


# ── stores ────────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_all_files_of_a_store_are_for_their_owner_alone(url: str, folder: Path, umask: int) -> None:
    with Perdure.open(url) as store:
        fill(store)
        assert_modes(folder, 0o600)  # with the -wal and the -shm beside the database
        assert url.startswith("file") or {"agents.db-wal", "agents.db-shm"} < set(modes(folder))
    assert_modes(folder, 0o600)


@pytest.mark.parametrize("file_mode", [0o660, 0o640, 0o664])
def test_file_mode_is_that_of_all_files(url: str, folder: Path, umask: int, file_mode: int) -> None:
    with Perdure.open(url, file_mode=file_mode) as store:
        fill(store)
        assert_modes(folder, file_mode)
    assert_modes(folder, file_mode)


async def test_so_are_those_of_an_asynchronous_store(url: str, folder: Path, umask: int) -> None:
    async with AsyncPerdure.open(url) as store:
        await asyncio.gather(*(store.thread(f"t{n}").append("messages", _LARGE) for n in range(4)))
        assert_modes(folder, 0o600)


async def test_so_are_those_of_a_store_with_a_queue(url: str, folder: Path, umask: int) -> None:
    async with AsyncPerdure.open(url, durability="background", file_mode=0o660) as store:
        await store.thread("t").append("messages", "hi")
        await store.flush()
        assert_modes(folder, 0o660)


def test_folders_on_the_way_are_for_their_owner_alone_too(folder: Path, umask: int) -> None:
    with Perdure.open(f"file://{folder}/a/b/agents") as store:
        store.thread("t").append("messages", "hi")
    assert_modes(folder, 0o600)


def test_a_folder_hands_its_group_on(folder: Path) -> None:
    folder.chmod(0o2770)
    with Perdure.open(f"file://{folder}/agents", file_mode=0o660) as store:
        store.thread("t").append("messages", "hi")
    assert _mode(folder / "agents" / "threads") == 0o2770


_EVERY_OPEN = """
import os, stat, sys
from perdure.sync import Perdure

os.umask(0)
seen = set()

def look(event, args):
    # Each file is looked at as soon as anybody does anything else with the system: one that was made wider for a
    # moment would be seen here.
    if event.startswith(("os.", "open", "sqlite3.")) and not looking:
        looking.append(1)
        for folder, names, files in os.walk(sys.argv[2]):
            for name in names + files:
                mode = stat.S_IMODE(os.lstat(os.path.join(folder, name)).st_mode)
                seen.add(mode & 0o077)
        looking.clear()

looking = []
sys.addaudithook(look)
with Perdure.open(sys.argv[1]) as store:
    thread = store.thread("t")
    for number in range(3):
        thread.append("messages", "x" * 5000)
    thread.fork("@1", to="f")
    store.export("t", sys.argv[2] + "/t.perdure")
looking.append(1)
print(sorted(seen))
"""


def test_no_file_is_wider_even_for_a_moment(url: str, folder: Path) -> None:
    done = subprocess.run([sys.executable, "-c", _EVERY_OPEN, url, str(folder)], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == ("[0]\n", 0), done.stderr


# ── files that are there ──────────────────────────────────────────────────────────────────────────────────────────────


def _loosened(url: str, folder: Path) -> Path:
    """A store that was made readable for everybody, or copied by somebody with a usual umask."""
    with Perdure.open(url) as store:
        store.thread("t").append("messages", "hi")
    path = folder / "agents.db" if url.startswith("sqlite") else folder / "agents" / "threads"
    path.chmod(0o644 if path.is_file() else 0o755)
    return path


def test_a_file_that_is_there_keeps_its_mode_and_a_warning_tells(
    url: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = _loosened(url, folder)
    before = _mode(path)
    with caplog.at_level(logging.WARNING, "perdure"), Perdure.open(url) as store:
        store.thread("t").append("messages", "there")
    assert _mode(path) == before
    (line,) = [record.getMessage() for record in caplog.records if record.name == "perdure"]
    assert str(path) in line
    assert f"{before:04o}" in line


def test_nothing_is_warned_of_where_others_may_read_nothing(
    url: str, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "perdure"), Perdure.open(url) as store:
            store.thread("t").append("messages", "hi")
    assert caplog.records == []


def test_a_mode_that_was_asked_for_is_not_warned_of(url: str, folder: Path, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        with caplog.at_level(logging.WARNING, "perdure"), Perdure.open(url, file_mode=0o660) as store:
            store.thread("t").append("messages", "hi")
    assert caplog.records == []
    with caplog.at_level(logging.WARNING, "perdure"), Perdure.open(url) as store:
        store.thread("t").append("messages", "hi")
    assert caplog.records != []


def test_an_empty_file_of_the_caller_becomes_the_database_and_keeps_its_mode(folder: Path) -> None:
    path = folder / "agents.db"
    path.touch()
    path.chmod(0o640)
    with Perdure.open(f"sqlite:///{path}") as store:
        store.thread("t").append("messages", "hi")
        assert set(modes(folder).values()) == {"640"}


# ── links that somebody planted ───────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def victim(tmp_path: Path) -> Path:
    """A file elsewhere that somebody wants to be overwritten."""
    path = tmp_path / "victim"
    path.write_bytes(SECRET)
    return path


@pytest.fixture
def absent(tmp_path: Path) -> Path:
    """A name elsewhere under which somebody wants a file to be made."""
    return tmp_path / "absent"


def test_links_with_the_names_of_temporary_files_are_not_followed(folder: Path, victim: Path) -> None:
    """Those of the releases before, whose names everybody knew."""
    place = folder / "agents"
    with Perdure.open(f"file://{place}") as store:
        fill(store)
    for each in [path for path in place.rglob("*") if path.is_file()]:
        each.with_name(each.name + ".tmp").symlink_to(victim)
    with Perdure.open(f"file://{place}") as store:
        thread = store.thread("c", user="alice")
        thread.update(set={"picture": _LARGE + "y"}, checkpoint=True)
        thread.fork("@-1", to="another")
        store.prune(Retention(last=1))
        store.compact()
    assert victim.read_bytes() == SECRET


@pytest.mark.parametrize("name", ["perdure.json.tmp", ".gitignore.tmp"])
def test_nor_are_they_where_a_store_is_made(folder: Path, victim: Path, name: str) -> None:
    (folder / "agents").mkdir()
    (folder / "agents" / name).symlink_to(victim)
    # A folder with something else in it is not a store: that is an answer too.
    with suppress(StorageError), Perdure.open(f"file://{folder}/agents") as store:
        store.thread("t").append("messages", "hi")
    assert victim.read_bytes() == SECRET


def test_links_in_the_place_of_files_are_not_followed(folder: Path, victim: Path, absent: Path) -> None:
    """Nothing that a link leads to is read, written or made."""
    place = folder / "agents"
    with Perdure.open(f"file://{place}") as store:
        fill(store)
    for path in [path for path in place.rglob("*") if path.is_file()]:
        for target in (victim, absent):
            content = path.read_bytes()
            path.unlink()
            path.symlink_to(target)
            # A thread that lost a file may say that it is damaged.
            with suppress(StorageError, DamagedError), Perdure.open(f"file://{place}") as store:
                store.thread("c", user="alice").update(set={"n": 1}, checkpoint=True)
                store.thread("c", user="alice").update(set={"picture": _LARGE}, checkpoint=True)
            assert victim.read_bytes() == SECRET, path
            assert not absent.exists(), path
            path.unlink()
            path.write_bytes(content)


def test_a_link_at_the_place_of_a_new_database_makes_nothing_elsewhere(folder: Path, absent: Path) -> None:
    (folder / "agents.db").symlink_to(absent)
    with pytest.raises(StorageError), Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        store.thread("t").append("messages", "hi")
    assert not absent.exists()


@pytest.mark.parametrize("content", [b"", SECRET])
def test_a_link_to_a_file_that_is_no_database_leaves_it_alone(folder: Path, victim: Path, content: bytes) -> None:
    victim.write_bytes(content)
    (folder / "agents.db").symlink_to(victim)
    with pytest.raises(StorageError), Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        store.thread("t").append("messages", "hi")
    assert victim.read_bytes() == content


@pytest.mark.parametrize("name", ["agents.db-wal", "agents.db-shm", "agents.db-journal"])
def test_links_beside_a_database_are_not_followed(folder: Path, victim: Path, absent: Path, name: str) -> None:
    for target in (victim, absent):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(target)
        with suppress(StorageError), Perdure.open(f"sqlite:///{folder}/agents.db") as store:
            store.thread("t").append("messages", "hi")
        assert victim.read_bytes() == SECRET
        assert not absent.exists()


def test_a_link_to_a_database_leads_to_it(folder: Path) -> None:
    with Perdure.open(f"sqlite:///{folder}/real.db") as store:
        store.thread("t").append("messages", "hi")
    (folder / "agents.db").symlink_to(folder / "real.db")
    with Perdure.open(f"sqlite:///{folder}/agents.db") as store:
        assert len(store.thread("t").load()["messages"]) == 1


def test_temporary_names_cannot_be_foreseen() -> None:
    made = {temporary_name("/a/b.json") for _ in range(1000)}
    assert len(made) == 1000
    assert all(name.startswith("/a/b.json.") and name.endswith(".tmp") and len(name) == 30 for name in made)


# ── exports ───────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file_mode", [None, 0o640])
def test_an_export_is_made_as_the_files_of_its_store(folder: Path, tmp_path: Path, umask: int, file_mode: int | None):
    options = {} if file_mode is None else {"file_mode": file_mode}
    with Perdure.open(f"sqlite:///{tmp_path}/agents.db", **options) as store:
        store.thread("t").append("messages", "hi")
        store.export("t", folder / "t.perdure")
        assert_modes(folder, file_mode or 0o600)


@pytest.mark.parametrize("there", [b"", SECRET, None])
def test_an_export_does_not_follow_a_link(folder: Path, tmp_path: Path, there: bytes | None) -> None:
    target = tmp_path / "target"
    if there is not None:
        target.write_bytes(there)
    (folder / "t.perdure").symlink_to(target)
    with Perdure.open("memory://") as store:
        store.thread("t").append("messages", "hi")
        with pytest.raises(InvalidInputError, match="symbolic link"):
            store.export("t", folder / "t.perdure")
    assert (target.read_bytes() if target.exists() else None) == there


# ── other faces ───────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("file_mode", [0o600, 0o660])
@pytest.mark.parametrize("cls", [SQLiteCheckpointStorage, FileCheckpointStorage])
async def test_the_files_of_agents(cls: Callable[..., object], folder: Path, umask: int, file_mode: int) -> None:
    options = {} if file_mode == 0o600 else {"file_mode": file_mode}
    async with cls(folder / "points", **options) as storage:  # type: ignore[attr-defined]
        manager = CheckpointManager(storage)
        await manager.save(StandardAgent("a", "alice"))
        (point,) = await manager.list_by_user("alice")
        assert point.collected_fields == {}  # read by a second handle
        assert_modes(folder, file_mode)


@pytest.mark.parametrize("file_mode", [None, "0o660", "'0660'", "0660", "660"])
def test_a_file_of_settings_says_the_mode(folder: Path, tmp_path: Path, umask: int, file_mode: str | None) -> None:
    config = tmp_path / "config.yaml"
    line = "" if file_mode is None else f"    file_mode: {file_mode}\n"
    config.write_text(f"storage:\n  sessions:\n    backend: file\n    path: {folder}/agents\n{line}")
    with Perdure.from_config(config) as store:
        store.thread("t").append("messages", "hi")
    assert_modes(folder, 0o600 if file_mode is None else 0o660)


@pytest.mark.parametrize("wrong", ["rw-rw----", "0o770", "066", "1.5", "true", "888", "[6, 6, 0]", "0o1660"])
def test_a_mode_that_is_none_is_pointed_at(tmp_path: Path, wrong: str) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(f"storage:\n  sessions:\n    backend: sqlite\n    path: a.db\n    file_mode: {wrong}\n")
    with pytest.raises(InvalidConfigError) as caught:
        Perdure.from_config(config)
    assert "config.yaml:5:16: " in str(caught.value)


@pytest.mark.parametrize("wrong", [0o770, 0o060, 0o1660, 660, -1, True, 6.0, "0o660", [6]])
def test_a_mode_that_files_cannot_have_is_refused(wrong: object) -> None:
    with pytest.raises(InvalidInputError, match="file_mode must be"):
        Perdure.open("sqlite:///never.db", file_mode=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("url", ["memory://", "postgresql://host/db", "mysql://host/db"])
def test_a_mode_where_there_are_no_files_is_refused(url: str) -> None:
    with pytest.raises(InvalidInputError, match="file_mode is for file:// and sqlite://"):
        Perdure.open(url, file_mode=0o660)


# ── the rules ─────────────────────────────────────────────────────────────────────────────────────────────────────────


def test_who_may_read_files_may_enter_their_folders() -> None:
    assert [oct(folder_mode(mode)) for mode in (0o600, 0o640, 0o660, 0o664)] == ["0o700", "0o750", "0o770", "0o775"]


def test_modes_are_typed_in_octal_digits() -> None:
    assert [parse_file_mode(each) for each in (660, "660", "0660", "0o660")] == [0o660] * 4
    assert check_file_mode(0o600) == 0o600


def test_what_is_there_is_never_taken_for_new(folder: Path, absent: Path) -> None:
    (folder / "a").touch()
    (folder / "link").symlink_to(absent)
    for name in ("a", "link"):
        with pytest.raises(FileExistsError):
            make_file(str(folder / name), 0o600)
    with pytest.raises(StorageError, match="symbolic link"):
        RealDisk().open(str(folder / "link"), write=True, create=True)
    with pytest.raises(OSError, match="symbolic link"):
        make_database(str(folder / "link"), 0o600)
    with pytest.raises(FileExistsError):
        make_folder(str(folder / "link"))
    assert not absent.exists()


def test_many_that_make_a_file_at_once_have_the_same(folder: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    path = str(folder / "log")
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(lambda _: RealDisk().open(path, write=True, create=True), range(64)))
    assert len({file.stat().inode for file in files if file}) == 1
    for file in files:
        assert file
        file.close()


def test_sqlite_gives_the_files_beside_a_database_its_mode(folder: Path, umask: int) -> None:
    """What is relied on, said by SQLite itself."""
    make_database(str(folder / "a.db"), 0o660)
    db = sqlite3.connect(folder / "a.db")
    db.execute("PRAGMA journal_mode = WAL")
    db.execute("CREATE TABLE t (a)")
    assert modes(folder) == {"a.db": "660", "a.db-shm": "660", "a.db-wal": "660"}
    db.close()
