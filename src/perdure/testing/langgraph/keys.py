"""Names that are hard to keep: any text is a thread, a namespace, a key of metadata, a key to filter by."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import uuid
from collections.abc import Callable
from typing import Any

from perdure.testing.langgraph.bench import Bench
from perdure.testing.langgraph.examining import each_of, group
from perdure.testing.langgraph.making import at, id_of, ids, put

HOSTILE = {
    "spaces": " two  words ",
    "quotes": 'it\'s "quoted" `here`',
    "dots": "a.b..c.",
    "percents": "100% %s %(x)s {x}",
    "non-ASCII": "größe 漢字 🙂 عربي",
    "injection": "x'); DROP TABLE checkpoints; --",
    "a JSON path": "$.a[0] || ['b']",
    "slashes": "../a\\b/c?d#e",
    "separators": "a:b|c;d,e=f\n\tg",
    "digits": "42",
}


async def thread_ids(bench: Bench, name: str) -> None:
    async with bench.saver() as saver:
        thread = f"{bench.thread()}{name}"
        saved = await put(saver, at(thread), {"a": 1})
        await saver.put_writes(saved, [("a", 2)], "task")
    async with bench.saver() as saver:
        found = await saver.get(at(thread))
        assert found is not None, "not found by its name"
        assert found.config["configurable"]["thread_id"] == thread, "found under another name"
        assert found.pending_writes == [("task", "a", 2)], "its writes are gone"
        assert ids(await saver.list(at(thread))) == [id_of(saved)], "not listed by its name"
        await saver.delete(thread)
        assert await saver.get(at(thread)) is None, "not deleted by its name"


async def namespaces(bench: Bench, name: str) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        outer, inner = await put(saver, at(thread), {"a": 1}), await put(saver, at(thread, ns=name), {"a": 2})
    async with bench.saver() as saver:
        found = await saver.get(at(thread, ns=name))
        assert found is not None, "not found by its name"
        assert found.config["configurable"]["checkpoint_ns"] == name, "found under another name"
        assert [ids(await saver.list(at(thread, ns=ns))) for ns in ("", name)] == [[id_of(outer)], [id_of(inner)]]


async def channels(bench: Bench, name: str) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {name: 1})
        await saver.put_writes(saved, [(name, 2)], f"task {name}", f"~{name}")
        found = await saver.get(saved)
        assert found.checkpoint["channel_values"] == {name: 1}, f"{found.checkpoint['channel_values']}"
        assert found.pending_writes == [(f"task {name}", name, 2)], f"{found.pending_writes}"


async def metadata_keys(bench: Bench, name: str) -> None:
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1}, more={name: "x"})
        found = (await saver.get(saved)).metadata
        assert found.get(name) == "x", f"{found}"


async def filter_keys(bench: Bench, name: str) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        one = await put(saver, at(thread), {"a": 1}, more={name: "x"})
        await put(saver, one, {"a": 2}, {"a": 2}, more={name: "y"})
        found = ids(await saver.list(at(thread), filter={name: "x"}))
        assert found == [id_of(one)], f"{len(found)} found instead of 1"


async def filter_values(bench: Bench, value: str) -> None:
    async with bench.saver() as saver:
        thread = bench.thread()
        one = await put(saver, at(thread), {"a": 1}, key=value)
        await put(saver, one, {"a": 2}, {"a": 2}, key="y")
        found = ids(await saver.list(at(thread), filter={"key": value}))
        assert found == [id_of(one)], f"{len(found)} found instead of 1"


async def neighbours(bench: Bench, names: tuple[str, str]) -> None:
    """Names that a database may take for one, by its collation, its padding or its patterns."""
    async with bench.saver() as saver:
        mark = bench.thread()
        one, two = (f"{name}{mark}{name}" for name in names)
        mine, other = await put(saver, at(one), {"a": "mine"}), await put(saver, at(two), {"a": "other"})
        assert ids(await saver.list(at(one))) == [id_of(mine)], f"{one!r} lists {two!r} too"
        await saver.delete(two)
        assert ids(await saver.list(at(one))) == [id_of(mine)], f"deleting {two!r} deleted {one!r}"
        assert await saver.get(other) is None


async def other_than_text(bench: Bench, kind: Callable[[str], Any]) -> None:
    """Numbers and UUIDs are used as they are in many an example."""
    async with bench.saver() as saver:
        thread: Any = kind(bench.thread().rpartition("-")[2].rjust(32, "1"))
        saved = await put(saver, at(thread), {"a": 1})
        await saver.put_writes(saved, [("a", 2)], "task")
    async with bench.saver() as saver:
        found = await saver.get(at(thread))
        assert found is not None, "not found by its name"
        assert found.pending_writes == [("task", "a", 2)], "its writes are gone"
        assert ids(await saver.list(at(thread))) == [id_of(saved)], "not listed by its name"
        await saver.delete(thread)
        assert await saver.get(at(thread)) is None, "not deleted by its name"


NEIGHBOURS = {
    "case": ("Ada", "ada"),
    "a space at the end": ("ada", "ada "),
    "accents": ("resume", "résumé"),
    "composed and decomposed": ("\u00e9", "e\u0301"),
    "a pattern of any": ("xyz", "x%"),
    "a pattern of one": ("xyz", "x_z"),
    "full width": ("a", "\uff41"),
    "a nought in front": ("7", "07"),
}


async def nothing_was_executed(bench: Bench) -> None:
    """After all of it, the saver still keeps and finds."""
    async with bench.saver() as saver:
        saved = await put(saver, at(bench.thread()), {"a": 1})
        assert (await saver.get(saved)).checkpoint["channel_values"] == {"a": 1}


CHECKS = (
    *each_of("hostile thread ids", thread_ids, HOSTILE),
    *each_of("hostile thread ids", other_than_text, {"an int": lambda text: int(text[-6:]), "a UUID": uuid.UUID}),
    *each_of("hostile thread ids", neighbours, {f"neighbours: {name}": pair for name, pair in NEIGHBOURS.items()}),
    *each_of("hostile namespaces", namespaces, HOSTILE),
    *each_of("hostile channels", channels, HOSTILE),
    *each_of("hostile metadata keys", metadata_keys, HOSTILE),
    *each_of("hostile filter keys", filter_keys, HOSTILE),
    *each_of("hostile filter values", filter_values, HOSTILE),
    *group("hostile thread ids", nothing_was_executed),
)
