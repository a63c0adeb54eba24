"""Channels that changed, that did not, and that are gone; forks and their parents."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from itertools import pairwise

from perdure.testing.langgraph.bench import Bench
from perdure.testing.langgraph.examining import group
from perdure.testing.langgraph.making import at, chain, id_of, parent_of, put, values_at


async def unchanged_channels_are_read_by_their_version(bench: Bench) -> None:
    async with bench.saver() as saver:
        first = await put(saver, at(bench.thread()), {"a": ["a1"], "b": ["b1"]}, {"a": 1, "b": 1})
        second = await put(saver, first, {"a": ["a2"], "b": ["b1"]}, {"a": 2, "b": 1}, changed={"a": 2})
        third = await put(saver, second, {"a": ["a2"], "b": ["b1"]}, {"a": 2, "b": 1}, changed={})
        found = [await values_at(saver, each) for each in (first, second, third)]
    assert found == [{"a": ["a1"], "b": ["b1"]}, {"a": ["a2"], "b": ["b1"]}, {"a": ["a2"], "b": ["b1"]}], f"{found}"


async def unchanged_channels_need_not_be_handed_over(bench: Bench) -> None:
    """Only what is in `new_versions` changed: the rest is the value at its (channel, version)."""
    async with bench.saver() as saver:
        first = await put(saver, at(bench.thread()), {"a": "a1", "b": "b1"}, {"a": 1, "b": 1})
        second = await put(saver, first, {"b": "b2"}, {"a": 1, "b": 2}, changed={"b": 2})
        found = await values_at(saver, second)
    assert found == {"a": "a1", "b": "b2"}, f"{found}"


async def a_vanished_channel_does_not_come_back(bench: Bench) -> None:
    """A channel emptied by its own update has a new version and no value."""
    async with bench.saver() as saver:
        first = await put(saver, at(bench.thread()), {"a": 1, "once": "x"}, {"a": 1, "once": 1})
        second = await put(saver, first, {"a": 1}, {"a": 1, "once": 2}, changed={"once": 2})
        third = await put(saver, second, {"a": 2}, {"a": 2, "once": 2}, changed={"a": 2})
        found = [await values_at(saver, each) for each in (first, second, third)]
    assert found == [{"a": 1, "once": "x"}, {"a": 1}, {"a": 2}], f"{found}"


async def a_dropped_channel_does_not_come_back(bench: Bench) -> None:
    async with bench.saver() as saver:
        first = await put(saver, at(bench.thread()), {"a": 1, "b": 1})
        second = await put(saver, first, {"a": 2}, {"a": 2}, changed={"a": 2})
        third = await put(saver, second, {"a": 2, "b": 5}, {"a": 2, "b": 3}, changed={"b": 3})
        found = [await values_at(saver, each) for each in (first, second, third)]
    assert found == [{"a": 1, "b": 1}, {"a": 2}, {"a": 2, "b": 5}], f"{found}"


async def a_value_of_none_is_a_value(bench: Bench) -> None:
    async with bench.saver() as saver:
        found = await values_at(saver, await put(saver, at(bench.thread()), {"a": None, "b": [None]}))
    assert found == {"a": None, "b": [None]}, f"{found}"


async def a_value_changed_in_place_later_is_kept_as_it_was_put(bench: Bench) -> None:
    async with bench.saver() as saver:
        growing = ["one"]
        first = await put(saver, at(bench.thread()), {"log": growing}, {"log": 1})
        growing.append("two")
        second = await put(saver, first, {"log": growing}, {"log": 2})
        growing[0] = "changed"
        found = [await values_at(saver, each) for each in (first, second)]
    assert found == [{"log": ["one"]}, {"log": ["one", "two"]}], f"{found}"


async def what_was_read_may_be_changed_in_place(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"log": [{"x": 1}]})
        (await values_at(saver, saved))["log"][0]["x"] = 2
        found = await values_at(saver, saved)
    assert found == {"log": [{"x": 1}]}, f"{found}"


async def forks_have_their_own_values(bench: Bench) -> None:
    """Both forks of one parent count their versions from it: what the saver counts has to keep them apart."""
    async with bench.saver() as saver:
        next_version = saver.saver.get_next_version
        one = next_version(None, None)
        root = await put(saver, at(bench.thread()), {"a": "root"}, {"a": one})
        left = await put(saver, root, {"a": "left"}, {"a": next_version(one, None)}, step=1)
        right = await put(saver, root, {"a": "right"}, {"a": next_version(one, None)}, step=1)
        found = [(await values_at(saver, each))["a"] for each in (root, left, right)]
    assert found == ["root", "left", "right"], f"{found}"


async def versions_only_grow(bench: Bench) -> None:
    async with bench.saver() as saver:
        versions = [saver.saver.get_next_version(None, None)]
        for _ in range(30):
            versions.append(saver.saver.get_next_version(versions[-1], None))
    assert all(one < two for one, two in pairwise(versions)), f"{versions}"


async def the_parent_of_a_fork_is_the_one_named(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        saved = await chain(saver, thread, {"a": 1}, {"a": 2}, {"a": 3})
        fork = await put(saver, saved[0], {"a": 9}, {"a": 9}, source="fork")
        parents = [parent_of(await saver.get(each)) for each in (*saved, fork)]
        latest = await saver.get(at(thread))
    assert parents == [None, id_of(saved[0]), id_of(saved[1]), id_of(saved[0])], f"{parents}"
    assert id_of(latest.config) == id_of(fork), "the fork is the newest and not the latest"


async def the_other_branch_stays_readable_after_a_fork(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await chain(saver, bench.thread(), {"a": 1}, {"a": 2}, {"a": 3})
        fork = await put(saver, saved[0], {"a": 9}, {"a": 9}, source="fork")
        further = await put(saver, saved[2], {"a": 4}, {"a": 4}, step=3)
        found = [(await values_at(saver, each))["a"] for each in (*saved, fork, further)]
    assert found == [1, 2, 3, 9, 4], f"{found}"


async def a_put_again_is_the_same_checkpoint(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        (saved,) = await chain(saver, thread, {"a": 1})
        before = await saver.get(saved)
        await saver.put(at(thread), before.checkpoint, before.metadata, before.checkpoint["channel_versions"])
        assert await saver.list(at(thread)) == [before], "another checkpoint, or a changed one"


async def a_deleted_thread_begins_anew(bench: Bench) -> None:
    """With versions that it had before: nothing of what they were comes back."""
    async with bench.saver() as saver:
        thread = bench.thread()
        saved = await chain(saver, thread, {"a": ["old"], "b": ["old"]}, {"a": ["older"]})
        await saver.put_writes(saved[0], [("a", "old")], "task", "~p")
        await saver.delete(thread)
        (anew,) = await chain(saver, thread, {"a": ["new"]})
        found = await saver.get(anew)
    assert found.checkpoint["channel_values"] == {"a": ["new"]}, f"{found.checkpoint['channel_values']}"
    assert (found.pending_writes, found.parent_config) == ([], None), f"{found.pending_writes}"


CHECKS = (
    *group(
        "channels", unchanged_channels_are_read_by_their_version, unchanged_channels_need_not_be_handed_over,
        a_vanished_channel_does_not_come_back, a_dropped_channel_does_not_come_back, a_value_of_none_is_a_value,
        a_value_changed_in_place_later_is_kept_as_it_was_put, what_was_read_may_be_changed_in_place, versions_only_grow,
        a_deleted_thread_begins_anew,
    ),
    *group(
        "forks", the_parent_of_a_fork_is_the_one_named, forks_have_their_own_values,
        the_other_branch_stays_readable_after_a_fork, a_put_again_is_the_same_checkpoint,
    ),
)  # fmt: skip
