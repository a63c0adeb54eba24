"""The synchronous methods give what the asynchronous ones give, on one saver object."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from perdure.testing.langgraph.bench import Bench, Face
from perdure.testing.langgraph.examining import group
from perdure.testing.langgraph.making import at, chain, id_of, ids, put, values_at

STATES = ({"a": 1}, {"a": 2, "b": ["x"]}, {"a": 3, "b": ["x", "y"]})


def plain(found: Any) -> Any:
    """A tuple without the names of its thread and its checkpoints."""
    inside = {name: given for name, given in found.checkpoint.items() if name not in ("id", "ts")}
    return inside, found.metadata, found.parent_config is not None, found.pending_writes


async def put_and_get(bench: Bench) -> None:
    async with bench.both_faces() as faces:
        for writer, reader in (faces, faces[::-1]):
            saved = await put(writer, at(bench.thread()), {"a": 1, "b": ("x", 2)}, step=7)
            here, there = await writer.get(saved), await reader.get(saved)
            assert here is not None, f"{writer.name} wrote and did not find it"
            assert here == there, f"{writer.name} wrote, {reader.name} read {there}"


async def get_of_the_latest(bench: Bench) -> None:
    async with bench.both_faces() as (sync, later):
        thread = bench.thread()
        saved = await chain(later, thread, *STATES)
        found = await sync.get(at(thread))
        assert id_of(found.config) == id_of(saved[-1]), "the synchronous get_tuple found another latest"
        assert await sync.call("get", at(thread)) == found.checkpoint, "get is not get_tuple's checkpoint"


async def lists(bench: Bench) -> None:
    async with bench.both_faces() as (sync, later):
        thread = bench.thread()
        saved = await chain(sync, thread, *STATES)
        for given in ({}, {"limit": 2}, {"filter": {"step": 1}}, {"before": saved[2]}):
            assert await sync.list(at(thread), **given) == await later.list(at(thread), **given), f"with {given}"


async def pending_writes(bench: Bench) -> None:
    async with bench.both_faces() as faces:
        for writer, reader in (faces, faces[::-1]):
            saved = await put(writer, at(bench.thread()), {"a": 1})
            await writer.put_writes(saved, [("a", 2), ("b", {"x": 1})], "task", "~path")
            found = (await reader.get(saved)).pending_writes
            assert found == [("task", "a", 2), ("task", "b", {"x": 1})], f"{reader.name} read {found}"


async def a_thread_is_deleted(bench: Bench) -> None:
    async with bench.both_faces() as faces:
        for deleter, reader in (faces, faces[::-1]):
            thread = bench.thread()
            saved = await put(deleter, at(thread), {"a": 1})
            await deleter.put_writes(saved, [("a", 2)], "task")
            await deleter.delete(thread)
            assert await reader.get(saved) is None, f"{deleter.name} deleted, {reader.name} still reads it"
            assert await reader.list(at(thread)) == [], f"{deleter.name} deleted, {reader.name} still lists it"


async def delta_history(bench: Bench) -> None:
    async with bench.both_faces() as (sync, later):
        thread = bench.thread()
        saved = await chain(sync, thread, {"log": ["seed"]}, {}, {})
        await sync.put_writes(saved[1], [("log", "one")], "task")
        here, there = await sync.history(saved[2], ["log"]), await later.history(saved[2], ["log"])
        assert here == there == {"log": {"seed": ["seed"], "writes": [("task", "log", "one")]}}, f"{here} and {there}"


async def a_thread_is_copied(bench: Bench) -> None:
    async with bench.both_faces() as faces:
        for one in faces:
            source, target = bench.thread(), bench.thread()
            saved = await chain(one, source, *STATES)
            await one.put_writes(saved[-1], [("a", 9)], "task")
            await one.call("copy_thread", source, target)
            await _same_threads(one, source, target)


async def _same_threads(saver: Face, source: str, target: str) -> None:
    here, there = await saver.list(at(source)), await saver.list(at(target))
    assert [plain(each) for each in here] == [plain(each) for each in there], f"the {saver.name} copy differs"


async def a_thread_is_pruned(bench: Bench) -> None:
    async with bench.both_faces() as faces:
        for one in faces:
            thread = bench.thread()
            saved = await chain(one, thread, *STATES)
            await one.call("prune", [thread], strategy="keep_latest")
            assert ids(await one.list(at(thread))) == [id_of(saved[-1])], f"the {one.name} prune left another"
            assert await values_at(one, at(thread)) == STATES[-1], f"the {one.name} prune changed the latest"


async def runs_are_deleted(bench: Bench) -> None:
    async with bench.both_faces() as faces:
        for one in faces:
            thread = bench.thread()
            kept = await put(one, at(thread), {"a": 1}, run_id=f"{thread}-kept")
            await put(one, kept, {"a": 2}, {"a": 2}, run_id=f"{thread}-gone")
            await one.call("delete_for_runs", [f"{thread}-gone"])
            assert ids(await one.list(at(thread))) == [id_of(kept)], f"the {one.name} delete_for_runs left another"


CHECKS = group(
    "sync methods", put_and_get, get_of_the_latest, lists, pending_writes, a_thread_is_deleted, delta_history,
    a_thread_is_copied, a_thread_is_pruned, runs_are_deleted,
)  # fmt: skip
