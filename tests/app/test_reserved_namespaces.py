"""What the library keeps for itself lies where no caller's namespace leads, whichever way one is named."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure, sync
from perdure.app.copying import Choice, copy_threads
from perdure.app.exporting import export_thread
from perdure.app.importing import import_file
from perdure.app.store import parts_of
from perdure.app.thread import Thread
from perdure.checkpointer import AgentState, BaseCheckpointer
from perdure.core.identity import MEMORY, SUBGRAPHS, ThreadKey, reserved_namespace, reserved_of
from perdure.errors import ExportDamagedError, InvalidConfigError, InvalidIdError
from perdure.flowagent.engine_storage import EngineStorage
from perdure.storage.contract import Storage
from perdure.storage.memory import MemoryStorage
from tests.checkpoints.places import PLACES, Place
from tests.cli.golden_store import call

SECRET = "swordfish"
ALICE = {"thread_id": "t", "user_id": "alice"}
KEPT = [reserved_namespace(MEMORY, "acme"), reserved_namespace(SUBGRAPHS, "acme", "t")]  # as LangGraph's adapter has it
REFUSED = ["acme\x1estore", "acme\x1ft"]  # names that once led there
EMPTY = ["perdure.results/acme", "perdure.cache/acme"]  # the same, and a caller may have them


@contextlib.asynccontextmanager
async def filled(place: Place) -> AsyncIterator[BaseCheckpointer]:
    """Alice's things of every kind, in a namespace."""
    url, options = place
    checkpointer = BaseCheckpointer(url, namespace="acme", **options)
    try:
        await checkpointer.aput_state(ALICE, AgentState(context_summary=SECRET))
        await checkpointer.aput_tool_result(ALICE, "call", SECRET)
        await checkpointer.aput_cache_value("geo", "oslo", SECRET)
        await checkpointer.aput_cache_value("geo", "oslo", SECRET, config=ALICE)
        for name in KEPT:
            for id in ("t", "child:1"):
                await Thread(parts_of(checkpointer.store), ThreadKey(name, "alice", id)).save({"secret": SECRET})
        yield checkpointer
    finally:
        await checkpointer.arelease()


def storage_of(checkpointer: BaseCheckpointer) -> Storage:
    return parts_of(checkpointer.store).storage


async def seen(store: Any, **user: str) -> Any:
    """All that somebody sees of a namespace."""
    states = [await store.thread(id, **user).load(default=None) for id in ("t", "geo", "child:1")]
    return states, await store.threads(**user), await store.search(SECRET, **user)


async def by_opening(place: Place, name: str, folder: Path) -> Any:
    async with Perdure.open(place[0], namespace=name, **place[1]) as store:
        return [await seen(store), await seen(store, user="alice")]


async def by_opening_in_place(place: Place, name: str, folder: Path) -> Any:
    with sync.Perdure.open(place[0], namespace=name, **place[1]) as store:
        return store.threads(), store.thread("t", user="alice").load(default=None)


async def by_a_scope(place: Place, name: str, folder: Path) -> Any:
    async with Perdure.open(place[0], namespace="mallory", **place[1]) as store:
        scope = store.scope(user="alice", namespace=name)
        return await seen(scope)


async def by_an_approvers_scope(place: Place, name: str, folder: Path) -> Any:
    async with Perdure.open(place[0], namespace="mallory", **place[1]) as store:
        return await store.scope(approver="alice", namespace=name).pauses()


async def by_agentflow(place: Place, name: str, folder: Path) -> Any:
    checkpointer = BaseCheckpointer(place[0], namespace=name, **place[1])
    try:
        return [
            await checkpointer.alist_threads(),
            await checkpointer.asearch({}, SECRET),
            await checkpointer.aget_tool_result(ALICE, "call"),
            await checkpointer.aget_cache_value("geo", "oslo"),
            await checkpointer.thread(ALICE).load(default=None),
        ]
    finally:
        await checkpointer.arelease()


async def by_flowagent(place: Place, name: str, folder: Path) -> Any:
    storage = EngineStorage(place[0], namespace=name, **place[1])
    try:
        return await storage.list_by_user("alice", 10, 0)
    finally:
        await storage.close()


async def by_a_config(place: Place, name: str, folder: Path) -> Any:
    file = folder / "config.yaml"
    escaped = "".join(f"\\x{ord(each):02x}" if ord(each) < 0x20 else each for each in name)
    file.write_text(f'storage:\n  sessions:\n    url: "{place[0]}"\n    namespace: "{escaped}"\n')
    async with Perdure.from_config(file, **place[1]) as store:
        return [await seen(store), await seen(store, user="alice")]


Door = Callable[[Place, str, Path], Awaitable[Any]]
DOORS: list[Door] = [
    by_opening, by_opening_in_place, by_a_scope, by_an_approvers_scope, by_agentflow, by_flowagent, by_a_config,
]  # fmt: skip


@pytest.mark.parametrize("kind", PLACES)
async def test_no_namespace_of_a_caller_leads_to_it(kind: str, tmp_path: Path) -> None:
    place = PLACES[kind](tmp_path)
    async with filled(place) as checkpointer:
        stored = [name for name in await storage_of(checkpointer).namespaces() if name != "acme"]
        assert len(stored) == 4
        assert set(KEPT) < set(stored)
        for name in (*stored, *REFUSED):
            for door in DOORS:
                with pytest.raises((InvalidIdError, InvalidConfigError), match="holds a control character"):
                    await door(place, name, tmp_path)
            with pytest.raises(InvalidIdError):
                await import_file(storage_of(checkpointer), tmp_path / "none", user="", namespace=name)
            with pytest.raises(InvalidIdError):
                checkpointer.store.scope(user="alice", namespace=name)
        for name in EMPTY:
            for door in DOORS:
                assert SECRET not in repr(await door(place, name, tmp_path)), (door, name)
            assert SECRET not in repr(await seen(checkpointer.store.scope(user="alice", namespace=name)))


async def test_it_is_in_no_list_of_its_own_namespace(tmp_path: Path) -> None:
    async with filled(PLACES["memory"](tmp_path)) as checkpointer:
        assert [each.thread_id for each in await checkpointer.alist_threads()] == ["t"]


@pytest.mark.parametrize("kind", ["sqlite", "file"])
async def test_no_command_takes_its_name(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    url, _ = place = PLACES[kind](tmp_path)
    async with filled(place) as checkpointer:
        stored = [name for name in await storage_of(checkpointer).namespaces() if name != "acme"]
    commands = [
        ["export", url, "t", "t.perdure"], ["sizes", url], ["sizes", url, "t"], ["verify", url], ["verify", url, "t"],
        ["repair", url], ["repair", url, "t"], ["copy", url, "file:./copied"], ["timeline", url, "t"],
        ["compare", url, "t", "t@1"], ["why", url, "t"], ["pauses", url], ["runs", url], ["prune", url, "--last", "1"],
    ]  # fmt: skip
    for command in commands:
        for name in stored:
            done = await asyncio.to_thread(call, *command, "--namespace", name)
            assert done.code == 5, (command, done.out, done.err)
            assert "holds a control character" in done.err, (command, done.err)
            assert SECRET not in done.out + done.err
    assert not (tmp_path / "t.perdure").exists()


@pytest.mark.parametrize("kind", PLACES)
async def test_a_file_that_claims_one_is_refused_and_changes_nothing(kind: str, tmp_path: Path) -> None:
    """A stranger made the file: nobody else can export what is there."""
    file = tmp_path / "forged.perdure"
    async with filled(PLACES[kind](tmp_path)) as checkpointer:
        storage = storage_of(checkpointer)
        for name in await storage.namespaces():
            if name == "acme":
                continue
            (row, *_) = [each for id in ("t", "geo") for each in await storage.find(name, id)]
            await export_thread(storage, row.key, file, mode="async")
            before = await Thread(parts_of(checkpointer.store), row.key).load()
            for namespace in (None, "acme", "other"):
                with pytest.raises(ExportDamagedError, match="holds a control character"):
                    await import_file(storage, file, user="", namespace=namespace, overwrite=True, mode="async")
            with pytest.raises(ExportDamagedError, match="holds a control character"):
                await checkpointer.store.import_(file, user="", overwrite=True)
            assert await Thread(parts_of(checkpointer.store), row.key).load() == before
            assert await storage.find("other", row.key.id) == []


async def names(storage: Storage) -> list[tuple[str, str]]:
    """What a storage has of each namespace: what is reserved by its kind."""
    found: list[tuple[str, str]] = []
    for namespace in await storage.namespaces():
        reserved = reserved_of(namespace)
        rows = [row for id in ("t", "geo", "child:1") for row in await storage.find(namespace, id)]
        found += [(reserved.kind if reserved else namespace, row.key.id) for row in rows]
    return found


@pytest.mark.parametrize(
    ("choice", "copied"),
    [
        (Choice(), 9),
        (Choice(namespaces=("acme",)), 8),
        (Choice(namespaces=("other",)), 1),
        (Choice(namespaces=("acme",), user=""), 1),
        (Choice(threads=("t",)), 5),
        (Choice(namespaces=("acme",), threads=("t",)), 4),
    ],
    ids=str,
)
async def test_a_copy_takes_along_what_is_kept_for_the_chosen_threads(
    choice: Choice, copied: int, tmp_path: Path
) -> None:
    async with filled(PLACES["sqlite"](tmp_path)) as checkpointer:
        await Thread(parts_of(checkpointer.store), ThreadKey("other", "bob", "t")).save({})
        target = MemoryStorage()
        done = await copy_threads(storage_of(checkpointer), target, choice)
        assert len(done) == copied, done
        everything = await names(storage_of(checkpointer))
        if choice == Choice():
            assert await names(target) == everything
        if choice.threads:
            assert ("cache", "geo") not in await names(target)
            assert {("acme", "t"), ("results", "t"), ("subgraphs", "child:1")} <= set(await names(target))
