"""The history of delta channels: the nearest value stored and all writes since, along the branch asked for."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from perdure.testing.langgraph.bench import Bench, Face
from perdure.testing.langgraph.examining import group
from perdure.testing.langgraph.making import at, put


async def _step(saver: Face, parent: dict[str, Any], step: int, *writes: Any, seed: Any = None) -> Any:
    """A checkpoint whose delta channels are empty unless there is a seed, with writes that lead to its child."""
    values, version = dict(seed or {}), _version(saver, step)
    versions = {"log": version, "other": version}
    saved = await put(saver, parent, values, versions, changed=dict.fromkeys(values, version), step=step)
    for channel, value, task, path in writes:
        await saver.put_writes(saved, [(channel, value)], task, path)
    return saved


def _version(saver: Face, step: int) -> Any:
    """As the saver counts: two forks that got as far have different ones."""
    version: Any = None
    for _ in range(step):
        version = saver.saver.get_next_version(version, None)
    return version


def _said(entry: Any) -> list[Any]:
    return [value for _, _, value in entry["writes"]]


async def a_chain_without_a_seed(bench: Bench) -> None:
    async with bench.saver() as saver:
        one = await _step(saver, at(bench.thread()), 1, ("log", "a", "t1", "~p"))
        two = await _step(saver, one, 2, ("log", "b", "t2", "~p"))
        three = await _step(saver, two, 3, ("log", "pending", "t3", "~p"))
        found = await saver.history(three, ["log"])
    assert found == {"log": {"writes": [("t1", "log", "a"), ("t2", "log", "b")]}}, f"{found}"


async def a_chain_from_its_nearest_seed(bench: Bench) -> None:
    async with bench.saver() as saver:
        one = await _step(saver, at(bench.thread()), 1, ("log", "before", "t1", "~p"), seed={"log": ["old"]})
        two = await _step(saver, one, 2, ("log", "a", "t2", "~p"), seed={"log": ["seed"]})
        three = await _step(saver, two, 3, ("log", "b", "t3", "~p"))
        found = await saver.history(await _step(saver, three, 4), ["log"])
    assert found == {"log": {"seed": ["seed"], "writes": [("t2", "log", "a"), ("t3", "log", "b")]}}, f"{found}"


async def each_channel_from_its_own_seed(bench: Bench) -> None:
    async with bench.saver() as saver:
        one = await _step(
            saver, at(bench.thread()), 1, ("log", "a", "t", "~p"), ("other", "x", "u", "~p"), seed={"other": 0}
        )
        two = await _step(saver, one, 2, ("log", "b", "t", "~p"), ("other", "y", "u", "~p"), seed={"log": ["seed"]})
        found = await saver.history(await _step(saver, two, 3), ["log", "other", "absent"])
    assert found == {
        "log": {"seed": ["seed"], "writes": [("t", "log", "b")]},
        "other": {"seed": 0, "writes": [("u", "other", "x"), ("u", "other", "y")]},
        "absent": {"writes": []},
    }, f"{found}"


async def parallel_tasks_in_the_order_of_their_paths(bench: Bench) -> None:
    async with bench.saver() as saver:
        one = await _step(
            saver, at(bench.thread()), 1, ("log", "c", "t1", "~3"), ("log", "a", "t3", "~1"), ("log", "b", "t2", "~2")
        )
        two = await _step(saver, one, 2, ("log", "e", "t1", "~9"), ("log", "d", "t9", "~1"))
        found = await saver.history(await _step(saver, two, 3), ["log"])
    assert _said(found["log"]) == ["a", "b", "c", "d", "e"], f"{_said(found['log'])}"


async def forks_see_their_own_branch(bench: Bench) -> None:
    async with bench.saver() as saver:
        root = await _step(saver, at(bench.thread()), 1, ("log", "input", "t0", ""), seed={"log": []})
        left = await _step(saver, root, 2, ("log", "left", "t1", "~p"))
        right = await _step(saver, root, 2, ("log", "right", "t2", "~p"))
        left, right = await _step(saver, left, 3), await _step(saver, right, 3)
        found = [_said((await saver.history(each, ["log"]))["log"]) for each in (left, right)]
    assert found == [["input", "left"], ["input", "right"]], f"{found}"


async def a_fork_with_a_seed_of_its_own(bench: Bench) -> None:
    async with bench.saver() as saver:
        root = await _step(saver, at(bench.thread()), 1, ("log", "a", "t", "~p"), seed={"log": ["root"]})
        left = await _step(saver, root, 2, ("log", "b", "t", "~p"))
        right = await _step(saver, root, 2, ("log", "c", "t", "~p"), seed={"log": ["right"]})
        ends = [await _step(saver, each, 3) for each in (left, right)]
        found = [(await saver.history(each, ["log"]))["log"] for each in ends]
    assert [each.get("seed") for each in found] == [["root"], ["right"]], f"{found}"
    assert [_said(each) for each in found] == [["a", "b"], ["c"]], f"{found}"


async def the_latest_when_no_checkpoint_is_named(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        one = await _step(saver, at(thread), 1, ("log", "a", "t", "~p"))
        await _step(saver, one, 2, ("log", "pending", "t", "~p"))
        found = await saver.history(at(thread), ["log"])
    assert found == {"log": {"writes": [("t", "log", "a")]}}, f"{found}"


async def nothing_of_a_thread_that_is_not_there(bench: Bench) -> None:
    async with bench.saver() as saver:
        assert await saver.history(at(bench.thread()), ["log"]) == {"log": {"writes": []}}
        assert await saver.history(at(bench.thread()), []) == {}


async def more_ancestors_than_one_page(bench: Bench) -> None:
    async with bench.saver() as saver:
        config = await _step(saver, at(bench.thread()), 1, ("log", 1, "t", "~p"))
        for n in range(2, 121):
            config = await _step(saver, config, n, ("log", n, "t", "~p"))
        found = _said((await saver.history(config, ["log"]))["log"])
    assert found == list(range(1, 120)), f"{len(found)} writes"


CHECKS = group(
    "delta history", a_chain_without_a_seed, a_chain_from_its_nearest_seed, each_channel_from_its_own_seed,
    parallel_tasks_in_the_order_of_their_paths, forks_see_their_own_branch, a_fork_with_a_seed_of_its_own,
    the_latest_when_no_checkpoint_is_named, nothing_of_a_thread_that_is_not_there, more_ancestors_than_one_page,
)  # fmt: skip
