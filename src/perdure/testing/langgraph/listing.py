"""Lists: over all threads, filtered, cut off, all of it together; and what metadata is made of."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from typing import Any

from perdure.testing.langgraph.bench import Bench, Face
from perdure.testing.langgraph.examining import group
from perdure.testing.langgraph.making import at, chain, id_of, ids, put


async def all_threads(bench: Bench) -> None:
    async with bench.saver(bench.empty()) as saver:
        saved = [(await chain(saver, thread, {"a": 1}))[0] for thread in ("one", "two", "three")]
        saved.append((await chain(saver, "one", {"a": 2}, ns="child"))[0])
        found = await saver.list(None)
    assert sorted(ids(found)) == sorted(id_of(each) for each in saved), f"{ids(found)}"


async def all_threads_with_filter_before_and_limit(bench: Bench) -> None:
    async with bench.saver(bench.empty()) as saver:
        saved = [
            await put(saver, at(f"t{n % 3}"), {"a": n}, step=n, kind="even" if n % 2 == 0 else "odd") for n in range(12)
        ]
        found = ids(await saver.list(None, filter={"kind": "even"}, before=saved[9], limit=3))
        expected = [id_of(saved[n]) for n in (8, 6, 4)]
    assert sorted(found) == sorted(expected), f"{len(found)} found, {len(set(found) & set(expected))} of the 3 expected"


async def newest_first(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        saved = [id_of(each) for each in await chain(saver, thread, *({"a": n} for n in range(12)))]
        found = ids(await saver.list(at(thread)))
    assert found == saved[::-1], f"{found}"


async def _ten(saver: Face, thread: str) -> list[Any]:
    config, saved = at(thread), []
    for n in range(10):
        config = await put(
            saver, config, {"a": n}, {"a": n + 1}, step=n, kind="even" if n % 2 == 0 else "odd", who="me"
        )
        saved.append(config)
    return saved


async def filter_before_and_limit_together(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        saved = await _ten(saver, thread)
        found = ids(await saver.list(at(thread), filter={"kind": "even", "who": "me"}, before=saved[7], limit=2))
        none = await saver.list(at(thread), filter={"kind": "even", "who": "you"}, before=saved[7], limit=2)
    assert (found, none) == ([id_of(saved[6]), id_of(saved[4])], []), f"{found}, {len(none)} of nobody"


async def filters_by_number_text_truth_and_none(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        one = await put(saver, at(thread), {"a": 1}, n=1, text="x", yes=True, part=0.5, none=None)
        await put(saver, one, {"a": 2}, {"a": 2}, n=2, text="y", yes=False, part=1.5, none=1)
        for given in ({"n": 1}, {"text": "x"}, {"yes": True}, {"part": 0.5}, {"none": None}):
            found = ids(await saver.list(at(thread), filter=given))
            assert found == [id_of(one)], f"{given} found {len(found)}"


async def filters_by_a_nested_value(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        one = await put(saver, at(thread), {"a": 1}, tags={"team": "red"}, order=["x", "y"])
        await put(saver, one, {"a": 2}, {"a": 2}, tags={"team": "blue"}, order=["y", "x"])
        for given in ({"tags": {"team": "red"}}, {"order": ["x", "y"]}):
            found = ids(await saver.list(at(thread), filter=given))
            assert found == [id_of(one)], f"{given} found {len(found)}"


async def a_filter_by_an_absent_key_finds_nothing(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        await put(saver, at(thread), {"a": 1})
        assert await saver.list(at(thread), filter={"absent": "x"}) == []


async def a_limit_of_nought_finds_nothing(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        await chain(saver, thread, {"a": 1}, {"a": 2})
        assert await saver.list(at(thread), limit=0) == []


async def a_checkpoint_named_is_listed_alone(bench: Bench) -> None:
    async with bench.saver() as saver:
        saved = await chain(saver, bench.thread(), {"a": 1}, {"a": 2}, {"a": 3})
        assert ids(await saver.list(saved[1])) == [id_of(saved[1])]


async def a_namespace_is_listed_alone_and_a_thread_with_all_of_them(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        (outer,), (inner,) = await chain(saver, thread, {"a": 1}), await chain(saver, thread, {"a": 2}, ns="child:1|x")
        whole = {"configurable": {"thread_id": thread}}
        found = [ids(await saver.list(each)) for each in (at(thread), at(thread, ns="child:1|x"), whole)]
    assert found[:2] == [[id_of(outer)], [id_of(inner)]], f"{found}"
    assert sorted(found[2]) == sorted((id_of(outer), id_of(inner))), f"{found}"


async def listed_is_what_is_got(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        saved = await chain(saver, thread, {"a": [1]}, {"a": [1, 2], "b": "x"}, {"a": [1, 2, 3]})
        await saver.put_writes(saved[1], [("a", 3)], "task", "~p")
        listed = await saver.list(at(thread))
        got = [await saver.get(each) for each in reversed(saved)]
    assert [each[1:] for each in listed] == [each[1:] for each in got], "list and get_tuple differ"


async def scalars_of_the_config_are_in_the_metadata(bench: Bench) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        config = at(thread, user="ada", level=3, __private="x", many=[1]) | {"metadata": {"team": "red", "share": 0.5}}
        saved = await put(saver, config, {"a": 1}, step=4)
        found = (await saver.get(saved)).metadata
        listed = ids(await saver.list(at(thread), filter={"user": "ada", "team": "red"}))
    expected = {"user": "ada", "level": 3, "team": "red", "share": 0.5, "source": "loop", "step": 4, "parents": {}}
    assert (found, listed) == (expected, [id_of(saved)]), f"{found}"


async def metadata_comes_back_as_it_was(bench: Bench) -> None:
    given = {"deep": {"list": [1, 2.5, None, True, "größe 🙂"], "empty": {}}, "parents": {"": "x"}}
    async with bench.saver() as saver:
        found = (await saver.get(await put(saver, at(bench.thread()), {"a": 1}, **given))).metadata
    assert {name: found.get(name, "missing") for name in given} == given, f"{found}"


async def metadata_with_a_nul_or_a_lone_surrogate_is_taken(bench: Bench) -> None:
    """A NUL may be left out, as LangGraph does; a failure would end the run of whoever pasted it."""
    async with bench.saver() as saver:
        config = at(bench.thread()) | {"metadata": {"nul": "a\x00b", "half": "a\ud800b"}}
        found = (await saver.get(await put(saver, config, {"a": 1}))).metadata
    assert found["nul"] in ("ab", "a\x00b"), f"{found}"


CHECKS = group(
    "lists", all_threads, all_threads_with_filter_before_and_limit, newest_first, filter_before_and_limit_together,
    filters_by_number_text_truth_and_none, filters_by_a_nested_value, a_filter_by_an_absent_key_finds_nothing,
    a_limit_of_nought_finds_nothing, a_checkpoint_named_is_listed_alone,
    a_namespace_is_listed_alone_and_a_thread_with_all_of_them, listed_is_what_is_got,
    scalars_of_the_config_are_in_the_metadata, metadata_comes_back_as_it_was,
    metadata_with_a_nul_or_a_lone_surrogate_is_taken,
)  # fmt: skip
