"""Addresses, closing, and the synchronous face."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
import threading
import weakref
from pathlib import Path

import pytest

from perdure import Perdure
from perdure import sync as perdure_sync
from perdure.core.errors import (
    InvalidIdError,
    InvalidInputError,
    InvalidUrlError,
    NotAStorageError,
    SchemaOutdatedError,
    StorageClosedError,
    StorageUnavailableError,
    SuspendedError,
)
from perdure.storage.drive import drive


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("sqlit:///x.db", "did you mean 'sqlite'"),
        ("x.db", "unknown scheme"),
        ("sqlite://x.db", "three slashes"),
        ("sqlite:///:memory:", "memory://"),
        ("sqlite:///x.db?synchronos=FULL", "did you mean 'synchronous'"),
        ("sqlite:///x.db?synchronous=OFF", "none of FULL, NORMAL, EXTRA"),
        ("sqlite:///x.db?busy_timeout=soon", "number of seconds"),
        ("sqlite:///x.db?a", "name=value"),
        ("memory://x", "takes no path"),
        ("file:", "no folder"),
        (7, "not a str"),
    ],
)
def test_a_bad_address_is_refused_with_a_hint(url: str, says: str) -> None:
    with pytest.raises(InvalidUrlError, match=says):
        Perdure.open(url)


def test_unknown_options_and_bad_names_are_refused() -> None:
    with pytest.raises(TypeError):
        Perdure.open("memory://", retry=3)  # type: ignore[call-arg]
    with pytest.raises(InvalidInputError):
        Perdure.open("memory://", migrate="never")  # type: ignore[arg-type]
    with pytest.raises(InvalidIdError):
        Perdure.open("memory://", namespace="a\0b")
    with pytest.raises(InvalidIdError):
        Perdure.open("memory://").thread("")


def test_relative_and_absolute_addresses_name_the_right_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for url in ("sqlite:///a.db", f"sqlite:///{tmp_path}/b%20c.db", "file:./d", f"file://{tmp_path}/e"):
        with perdure_sync.Perdure.open(url) as store:
            store.thread("t").save({"n": 1})
    assert {path.name for path in tmp_path.iterdir()} >= {"a.db", "b c.db", "d", "e"}


def test_a_slash_too_many_in_an_address_names_the_same_file(tmp_path: Path) -> None:
    for slashes in ("//", "///"):  # what "sqlite:////" and an absolute path add up to
        with perdure_sync.Perdure.open(f"sqlite:///{slashes}{str(tmp_path / 'a.db').lstrip('/')}") as store:
            store.thread("t").append("items", slashes)
    with perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/a.db") as store:
        assert store.thread("t").load() == {"items": ["//", "///"]}


def test_a_missing_folder_and_a_foreign_file_are_named(tmp_path: Path) -> None:
    with (
        pytest.raises(StorageUnavailableError, match="no folder"),
        perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/no/x.db"),
    ):
        pass
    (tmp_path / "x.db").write_text("this is a text file, not a database, and long enough to be sure of that" * 20)
    with pytest.raises(NotAStorageError), perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/x.db"):
        pass
    assert (tmp_path / "x.db").read_text().startswith("this is a text file")


def test_migrate_check_makes_nothing(tmp_path: Path) -> None:
    with pytest.raises(SchemaOutdatedError), perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/x.db", migrate="check"):
        pass
    assert not (tmp_path / "x.db").exists()


def test_a_closed_store_says_so_and_closes_twice(tmp_path: Path) -> None:
    store = perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/x.db")
    thread = store.thread("t")
    thread.save({"n": 1})
    store.close()
    store.close()
    with pytest.raises(StorageClosedError):
        thread.load()


async def test_a_store_nobody_closed_is_closed_with_its_last_reference(tmp_path: Path) -> None:
    gc.collect()  # what others left in this process
    before = set(threading.enumerate())
    store = Perdure.open(f"sqlite:///{tmp_path}/x.db")
    await store.thread("t").save({"n": 1})
    assert [each.name for each in set(threading.enumerate()) - before if each.name.startswith("perdure")]
    del store
    gc.collect()
    assert not [each for each in set(threading.enumerate()) - before if each.name.startswith("perdure")]


def test_threads_share_a_synchronous_store(tmp_path: Path) -> None:
    with perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
        work = [threading.Thread(target=lambda n=n: store.thread("t").append("messages", n)) for n in range(16)]
        for each in work:
            each.start()
        for each in work:
            each.join()
        assert sorted(store.thread("t").load()["messages"]) == list(range(16))


def test_the_synchronous_face_has_every_method_of_the_asynchronous_one() -> None:
    from perdure.app.store import Perdure as AsyncStore
    from perdure.app.thread import Thread as AsyncThread

    def public(cls: type) -> set[str]:
        return {name for name in dir(cls) if not name.startswith("_")} - {"open_as"}

    assert public(perdure_sync.Perdure) == public(AsyncStore)
    assert public(perdure_sync.Thread) == public(AsyncThread)


def test_a_synchronous_call_that_would_wait_names_the_place() -> None:
    import asyncio

    async def waits() -> None:
        await asyncio.sleep(0)

    with pytest.raises(SuspendedError, match="waits"):
        drive(waits())


def test_namespaces_are_apart(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/x.db"
    with perdure_sync.Perdure.open(url, namespace="a") as a, perdure_sync.Perdure.open(url, namespace="b") as b:
        a.thread("t").save({"n": 1})
        assert b.thread("t").load(default=None) is None


def test_a_password_is_never_shown() -> None:
    for url in ("postgresql://me:secret@host:port/db", "mysql:me:secret@host/db", "redis://me:secret@host/0"):
        with pytest.raises(InvalidUrlError) as caught:
            Perdure.open(url)
        assert "secret" not in str(caught.value)


def test_the_place_is_fixed_when_the_store_is_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with perdure_sync.Perdure.open("sqlite:///a.db") as store:
        monkeypatch.chdir(tmp_path / "elsewhere")
        store.thread("t").save({"n": 1})
    assert (tmp_path / "a.db").exists()


@pytest.mark.parametrize("mode", ["sync", "async"])
def test_a_database_file_that_was_removed_takes_no_more_writes(tmp_path: Path, mode: str) -> None:
    async def asynchronous() -> None:
        async with Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
            await store.thread("t").append("n", 1)
            (tmp_path / "x.db").unlink()
            for _ in range(2):
                with pytest.raises(StorageUnavailableError):
                    await store.thread("t").append("n", 2)

    def synchronous() -> None:
        with perdure_sync.Perdure.open(f"sqlite:///{tmp_path}/x.db") as store:
            store.thread("t").append("n", 1)
            (tmp_path / "x.db").unlink()
            for _ in range(2):
                with pytest.raises(StorageUnavailableError):
                    store.thread("t").append("n", 2)

    asyncio.run(asynchronous()) if mode == "async" else synchronous()
    assert not (tmp_path / "x.db").exists()


def test_two_event_loops_share_a_store(tmp_path: Path) -> None:
    store = Perdure.open(f"sqlite:///{tmp_path}/x.db")
    failures: list[BaseException] = []

    async def work(number: int) -> None:
        for n in range(60):
            await asyncio.wait_for(store.thread(f"t{number}", user="u").append("x", n), 30)

    def run(number: int) -> None:
        try:
            asyncio.run(work(number))
        except BaseException as exc:
            failures.append(exc)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    for number in range(3):
        assert asyncio.run(store.thread(f"t{number}", user="u").load()) == {"x": list(range(60))}
    asyncio.run(store.close())


def test_a_store_goes_on_after_an_event_loop_ended_with_writes_pending(tmp_path: Path) -> None:
    store = Perdure.open(f"sqlite:///{tmp_path}/x.db")
    thread = store.thread("t", user="u")

    async def main(pause: float) -> None:
        await asyncio.wait_for(thread.append("x", 0), 20)
        tasks = [asyncio.create_task(thread.append("x", n)) for n in range(20)]
        await asyncio.sleep(pause)
        del tasks

    for turn in range(25):
        asyncio.run(main(0.0003 * turn))
    asyncio.run(store.close())


def test_a_forgotten_store_that_writes_in_the_background_is_closed_and_loses_nothing(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/a.db"
    store = perdure_sync.Perdure.open(url, durability="background")
    for n in range(20):
        store.thread("t").append("messages", n)
    parts = weakref.ref(store._store._parts)
    del store
    gc.collect()
    assert parts() is None
    with perdure_sync.Perdure.open(url) as again:
        assert again.thread("t").load() == {"messages": list(range(20))}


def test_options_that_would_do_nothing_are_refused_with_the_way_out() -> None:
    for options, says in (
        ({"schema": "agent"}, "postgresql://"),
        ({"cache_ttl": 3}, "give hot="),
        ({"max_pending": 3}, "background"),
        ({"durability": "none"}, "background"),
        ({"user_id_type": "uuid"}, "bigint"),
        ({"pool_max": -1}, "postgresql://"),
    ):
        with pytest.raises(InvalidInputError, match=says):
            Perdure.open("memory://", **options)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="did you mean 'pool_max'"):
        Perdure.open("postgresql://localhost/x", pool_mx=3)  # type: ignore[call-arg]


async def test_the_other_kind_of_with_says_which_import_to_use() -> None:
    with pytest.raises(InvalidInputError, match=r"from perdure\.sync import Perdure"), Perdure.open("memory://"):
        pass
    with pytest.raises(InvalidInputError, match="from perdure import Perdure"):
        async with perdure_sync.Perdure.open("memory://"):  # type: ignore[attr-defined]
            pass


def test_the_package_can_be_run_as_a_module() -> None:
    done = subprocess.run([sys.executable, "-m", "perdure", "version"], capture_output=True, text=True, check=True)
    assert done.stdout.strip()
