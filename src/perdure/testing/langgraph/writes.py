"""Pending writes: their order, their indices, and which of two wins."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from langgraph.checkpoint.serde.types import ERROR, INTERRUPT, RESUME, SCHEDULED

from perdure.testing.langgraph.bench import Bench, Face
from perdure.testing.langgraph.examining import each_of, group
from perdure.testing.langgraph.making import at, checkpoint, id_of, metadata, put

# In the order of their indices, from -4 to -1: they come before all regular writes of their task.
SPECIAL = (RESUME, INTERRUPT, SCHEDULED, ERROR)


async def read(saver: Face, saved: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """The pending writes by get_tuple, which are those by list."""
    by_get = (await saver.get(saved)).pending_writes
    (listed,) = await saver.list(saved)
    assert listed.pending_writes == by_get, f"list has {listed.pending_writes}, get_tuple {by_get}"
    return [tuple(each) for each in by_get]


async def ordered_by_path_then_task_then_index(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        # Written in none of the orders that could be mistaken for it: of arrival, of tasks, of paths alone.
        for task, path in (("t1", "~b"), ("t3", "~a"), ("t2", "~a"), ("t0", "~c")):
            await saver.put_writes(saved, [("z", f"{task} 0"), ("a", f"{task} 1")], task, path)
        found = [value for _, _, value in await read(saver, saved)]
    expected = [f"{task} {idx}" for task in ("t2", "t3", "t1", "t0") for idx in (0, 1)]
    assert found == expected, f"{found}"


async def more_than_ten_writes_are_ordered_by_number(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [("a", n) for n in range(25)], "task", "~p")
        found = [value for _, _, value in await read(saver, saved)]
    assert found == list(range(25)), f"{found}"


async def writes_without_a_path_come_first(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [("a", "with")], "a", "~p")
        await saver.put_writes(saved, [("a", "without")], "b")
        found = [value for _, _, value in await read(saver, saved)]
    assert found == ["without", "with"], f"{found}"


async def special_writes_come_before_regular_ones(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [("a", 0), ("b", 1)], "task", "~p")
        for channel in reversed(SPECIAL):
            await saver.put_writes(saved, [(channel, f"of {channel}")], "task", "~p")
        found = [channel for _, channel, _ in await read(saver, saved)]
    assert found == [*SPECIAL, "a", "b"], f"{found}"


async def special_is_kept_beside_regular(bench: Bench, channel: str) -> None:
    """A special write has an index of its own: it takes no place of a regular one, nor of another special one."""
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [("a", 0), ("b", 1)], "task", "~p")
        await saver.put_writes(saved, [(channel, "x")], "task", "~p")
        found = await read(saver, saved)
    assert found == [("task", channel, "x"), ("task", "a", 0), ("task", "b", 1)], f"{found}"


async def special_is_replaced(bench: Bench, channel: str) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        for value in ("first", "second"):
            await saver.put_writes(saved, [(channel, value)], "task", "~p")
        found = await read(saver, saved)
    assert found == [("task", channel, "second")], f"{found}"


async def the_first_of_regular_writes_is_kept(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [("a", "first"), ("b", "first")], "task", "~p")
        await saver.put_writes(saved, [("a", "second"), ("b", "second"), ("c", "new")], "task", "~p")
        found = await read(saver, saved)
    assert found == [("task", "a", "first"), ("task", "b", "first"), ("task", "c", "new")], f"{found}"


async def a_mixed_call_keeps_what_is_there(bench: Bench) -> None:
    """Only a call of special writes alone replaces: one with a regular write is a task repeated."""
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [(ERROR, "first")], "task", "~p")
        await saver.put_writes(saved, [(ERROR, "second"), ("a", 1)], "task", "~p")
        found = await read(saver, saved)
    assert found == [("task", ERROR, "first"), ("task", "a", 1)], f"{found}"


async def writes_of_another_task_are_not_touched(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        await saver.put_writes(saved, [(INTERRUPT, "of one")], "one", "~p")
        await saver.put_writes(saved, [(INTERRUPT, "of two")], "two", "~p")
        found = await read(saver, saved)
    assert found == [("one", INTERRUPT, "of one"), ("two", INTERRUPT, "of two")], f"{found}"


async def writes_of_another_namespace_are_not_seen(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread, made = bench.thread(), checkpoint({"a": 1})
        outer = await saver.put(at(thread), made, metadata(), {"a": 1})
        inner = await saver.put(at(thread, ns="child:1"), made, metadata(), {"a": 1})
        await saver.put_writes(inner, [("a", "inner")], "task")
        assert await read(saver, outer) == [], "the outer checkpoint has the writes of the inner one"
        assert await read(saver, inner) == [("task", "a", "inner")], "the inner checkpoint lost its writes"


async def writes_may_come_before_their_checkpoint(bench: Bench) -> None:
    """The loop saves both in the background, where the writes may be there first."""
    async with bench.saver() as saver:
        thread, made = bench.thread(), checkpoint({"a": 1})
        await saver.put_writes(at(thread, id=made["id"]), [("a", 2)], "task", "~p")
        assert await saver.get(at(thread)) is None, "writes alone made a checkpoint"
        saved = await saver.put(at(thread), made, metadata(), {"a": 1})
        assert id_of(saved) == made["id"]
        found = await read(saver, saved)
    assert found == [("task", "a", 2)], f"{found}"


async def a_checkpoint_put_again_keeps_its_writes(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread, made = bench.thread(), checkpoint({"a": 1})
        saved = await saver.put(at(thread), made, metadata(), {"a": 1})
        await saver.put_writes(saved, [("a", 2)], "task", "~p")
        await saver.put(at(thread), made, metadata(), {"a": 1})
        assert await read(saver, saved) == [("task", "a", 2)], "the writes are gone"


CHECKS = (
    *group(
        "pending writes", ordered_by_path_then_task_then_index, more_than_ten_writes_are_ordered_by_number,
        writes_without_a_path_come_first, special_writes_come_before_regular_ones, the_first_of_regular_writes_is_kept,
        a_mixed_call_keeps_what_is_there, writes_of_another_task_are_not_touched,
        writes_of_another_namespace_are_not_seen, writes_may_come_before_their_checkpoint,
        a_checkpoint_put_again_keeps_its_writes,
    ),
    *each_of("pending writes", special_is_kept_beside_regular, {f"{each} is kept beside": each for each in SPECIAL}),
    *each_of("pending writes", special_is_replaced, {f"{each} alone replaces": each for each in SPECIAL}),
)  # fmt: skip
