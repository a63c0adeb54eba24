"""Going back and forth: rewinds with a preview, redo, refs past them, tags, marks, and who did what and when."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.app.store import parts_of
from perdure.core.errors import InvalidInputError, NotFoundError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.testing.clock import START, ManualClock
from tests.checkpoints.places import PLACES, Awaited, opened

KEY = ThreadKey("", "", "t")
HOUR = timedelta(hours=1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[f"{place} {mode}" for place in ("memory", "file", "sqlite") for mode in ("sync", "async")])
async def store(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> AsyncIterator[Any]:
    place, mode = request.param.split()
    async with opened(PLACES[place](tmp_path), mode, clock=clock) as store:
        yield store


def _inner(store: Any) -> Perdure:
    return vars(store)["_inner"]._store if isinstance(store, Awaited) else store


def _book() -> None:
    raise ValueError("no table is free")


async def ran(store: Any, *tools: str) -> None:
    """A run of the thread that calls tools; `book` fails."""
    work = {"book": _book}
    if isinstance(store, Awaited):
        with _inner_sync(store).thread("t").run() as run:
            for name in tools:
                with suppress(ValueError):
                    run.tool(name, work.get(name, lambda: None))
    else:
        async with store.thread("t").run() as run:
            for name in tools:
                with suppress(ValueError):
                    await run.tool(name, work.get(name, lambda: None))


def _inner_sync(store: Awaited) -> Any:
    return vars(store)["_inner"]


async def three(store: Any) -> tuple[Any, list[Any]]:
    """A thread with three points, n = 1, 2, 3."""
    thread = store.thread("t")
    return thread, [await thread.save({"n": n}, note=f"n{n}") for n in (1, 2, 3)]


def versions(points: list[Any]) -> list[int]:
    return [point.version for point in points]


# ── rewind and redo (B5) ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["append", "update"])
async def test_after_a_rewind_to_before_there_was_a_state_a_thread_is_written_as_new(store: Any, how: str) -> None:
    thread = store.thread("t")
    await thread.add_messages([{"role": "user", "content": "hi"}])
    await thread.save({"n": 1})
    await thread.rewind("@1")
    assert await store.thread("t").load() is None
    if how == "append":
        await thread.append("a.b", 1)
    else:
        await thread.update(set={"x": 2}, append={"a.b": [1]})
    made = {"a": {"b": [1]}} if how == "append" else {"x": 2, "a": {"b": [1]}}
    parts_of(_inner(store)).engine.forget(KEY)
    assert (await store.thread("t").load(), await store.thread("t").load("@2")) == (made, {"n": 1})


async def test_a_preview_names_what_is_left_and_the_tools_that_ran(store: Any) -> None:
    """B5: side effects are named before anything happens."""
    thread, points = await three(store)
    await ran(store, "send_mail", "book", "send_mail")
    preview = await thread.rewind(points[0], dry_run=True)
    assert preview.effects == ["send_mail", "book", "send_mail"]
    tools = {"tool.started": 3, "tool.finished": 2, "tool.failed": 1}
    assert preview.kinds == {"state.saved": 2, "run.started": 1, "run.finished": 1, **tools}
    assert (preview.to, preview.version, preview.entries, preview.checkpoint) == (1, 11, 10, None)
    assert preview.checkpoints == [points[2].id, points[1].id]
    assert str(preview).endswith("; not undone: send_mail (2 ×), book")
    assert await thread.load() == {"n": 3}
    assert (await thread.info()).version == 11


async def test_a_preview_does_not_count_what_an_earlier_rewind_left(store: Any) -> None:
    thread, points = await three(store)
    await ran(store, "send_mail")
    await thread.rewind(points[1])
    preview = await thread.rewind(points[0], dry_run=True)
    assert (preview.effects, preview.kinds) == ([], {"state.saved": 1, "thread.rewound": 1})


async def test_a_rewind_goes_back_and_erases_nothing(store: Any) -> None:
    """B5."""
    thread, points = await three(store)
    done = await thread.rewind(points[0], note="a wrong turn")
    assert await thread.load() == {"n": 1}
    assert await thread.load(points[2]) == {"n": 3}
    assert [entry.kind.value for entry in await thread.entries()] == ["state.saved"] * 3 + ["thread.rewound"]
    newest = (await thread.history())[0]
    assert (newest.id, newest.kind, newest.note, newest.metadata) == (
        done.checkpoint, "rewind", "a wrong turn", {"to": 1},
    )  # fmt: skip
    assert newest.parent_checkpoint_id == points[0].id


async def test_history_follows_the_lineage_and_tells_everything_when_asked(store: Any) -> None:
    thread, points = await three(store)
    await thread.rewind(points[0])
    await thread.save({"n": 5})
    assert versions(await thread.history()) == [5, 4, 1]
    assert versions(await thread.history(everything=True)) == [5, 4, 3, 2, 1]
    assert versions(await thread.history(limit=2)) == [5, 4]
    page = await thread.history(limit=1, before=(await thread.history(limit=2))[-1])
    assert versions(page) == [1]


async def test_redo_takes_a_rewind_back_and_redo_again_takes_that_back(store: Any) -> None:
    thread, points = await three(store)
    await thread.rewind(points[0])
    assert (await thread.redo()).to == 3
    assert (await thread.load(), versions(await thread.history())) == ({"n": 3}, [5, 3, 2, 1])
    await thread.redo()
    assert (await thread.load(), versions(await thread.history())) == ({"n": 1}, [6, 4, 1])
    await thread.redo()
    assert await thread.load() == {"n": 3}


async def test_redo_needs_a_rewind_as_the_newest_change(store: Any) -> None:
    thread, points = await three(store)
    with pytest.raises(NotFoundError):
        await thread.redo()
    await thread.rewind(points[0])
    await thread.append("said", "something")
    with pytest.raises(NotFoundError):
        await thread.redo()
    assert await thread.load() == {"n": 1, "said": ["something"]}


async def test_a_rewind_of_a_handle_that_missed_a_change_is_refused(store: Any) -> None:
    thread, points = await three(store)
    other = store.thread("t")
    await other.load()
    await other.save({"n": 4})
    with pytest.raises(VersionConflictError):
        await thread.rewind(points[0])
    assert await store.thread("t").load() == {"n": 4}


async def test_a_rewind_by_key_is_made_once(store: Any) -> None:
    thread, points = await three(store)
    first = await thread.rewind(points[0], key="oops")
    again = await thread.rewind(points[0], key="oops")
    assert again.checkpoint == first.checkpoint
    assert (await thread.info()).version == 4


async def test_messages_are_those_of_the_lineage(store: Any) -> None:
    thread = store.thread("t")
    point = await thread.save({"messages": ["hello"]})
    await thread.append("messages", "a mistake")
    await thread.rewind(point)
    await thread.append("messages", "better")
    assert await thread.messages() == ["hello", "better"]
    assert await thread.messages(limit=1) == ["better"]


async def test_a_save_after_a_point_leaves_what_came_since(store: Any) -> None:
    thread, points = await three(store)
    made = await thread.save({"n": "other"}, after=points[0])
    assert made.parent_checkpoint_id == points[0].id
    assert versions(await thread.history()) == [4, 1]
    assert await thread.load() == {"n": "other"}
    assert (await thread.save({"n": "more"})).parent_checkpoint_id == made.id
    await thread.rewind("@3")
    assert await thread.load() == {"n": 3}


async def test_a_fork_of_what_was_left_goes_its_own_way(store: Any) -> None:
    """B4, B5."""
    thread, points = await three(store)
    await thread.rewind(points[0])
    branch = await thread.fork(points[2], to="branch")
    here = await thread.fork(to="here")
    await branch.save({"n": "branch"})
    assert (await branch.load(), await here.load(), await thread.load()) == ({"n": "branch"}, {"n": 1}, {"n": 1})
    assert versions(await branch.history()) == [4, 3, 2, 1]
    assert versions(await here.history()) == [4, 1]


# ── refs (B7) ─────────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_refs_count_along_the_lineage(store: Any) -> None:
    """B7: `@-1`, `@-2` lead past what was rewound; a version means itself."""
    thread, points = await three(store)
    await thread.rewind(points[0])
    await thread.save({"n": 5})
    assert [(await thread.load(ref))["n"] for ref in ("@-1", "@-2", "@-3", "@3")] == [5, 1, 1, 3]
    with pytest.raises(NotFoundError):
        await thread.load("@-4")


async def test_refs_by_time_lead_past_what_was_rewound(store: Any, clock: ManualClock) -> None:
    """B7."""
    thread = store.thread("t")
    for n in (1, 2, 3):
        await thread.save({"n": n})
        clock.advance(HOUR)
    assert (await thread.load("@2h"))["n"] == 2
    await thread.rewind("@1")
    assert (await thread.load("@2h"))["n"] == 1
    clock.advance(HOUR)
    await thread.redo()
    assert (await thread.load("@3h"))["n"] == 2


async def test_before_error_looks_along_the_lineage(store: Any) -> None:
    """B7."""
    thread = store.thread("t")
    good = await thread.save({"n": 1})
    await thread.save({"n": 2}, status="error")
    assert (await thread.load("@before-error"))["n"] == 1
    await thread.rewind(good)
    with pytest.raises(NotFoundError):
        await thread.load("@before-error")
    await thread.save({"n": 4})
    await ran(store, "book")
    await thread.save({"n": 5})
    assert (await thread.load("@before-error"))["n"] == 4


async def test_refs_skip_what_was_pruned(store: Any, clock: ManualClock) -> None:
    """B7, B9."""
    thread = store.thread("t")
    for n in range(6):
        await thread.save({"n": n, "text": "x" * 500})
        clock.advance(HOUR)
    await thread.tag("@2", "good")
    await thread.prune(1)
    assert [(await thread.load(ref))["n"] for ref in ("@-1", "@-2", "@tag:good", "@2h")] == [5, 1, 1, 1]
    with pytest.raises(NotFoundError, match="changed 2 times"):
        await thread.load("@-3")
    with pytest.raises(NotFoundError, match="pruned; next to it are @2 and @6"):
        await thread.load("@4")
    with pytest.raises(NotFoundError, match="pruned"):
        await thread.rewind("@4")
    with pytest.raises(NotFoundError, match="pruned"):
        await thread.fork("@4", to="branch")
    assert await thread.load("@4", None) is None


# ── points: marks, tags, clearing ─────────────────────────────────────────────────────────────────────────────────────


async def test_a_checkpoint_can_be_made_of_a_version_that_is_there(store: Any) -> None:
    """S0.36: a name and a note why."""
    thread = store.thread("t")
    for n in (1, 2, 3):
        await thread.update(set={"n": n})
    newest = await thread.checkpoint(note="before lunch", metadata={"a": 1})
    older = await thread.checkpoint("@1", kind="recovery", status="ok")
    assert (newest.version, newest.note, newest.metadata, newest.kind) == (3, "before lunch", {"a": 1}, "manual")
    assert (older.version, older.kind, older.status) == (1, "recovery", "ok")
    assert (await thread.load(newest), await thread.load(older)) == ({"n": 3}, {"n": 1})
    assert [point.id for point in await thread.history()] == [older.id, newest.id]
    assert newest.id.startswith("chk_")
    assert await thread.load() == {"n": 3}


async def test_a_mark_by_key_is_made_once_and_nothing_cannot_be_marked(store: Any) -> None:
    thread = store.thread("t")
    with pytest.raises(NotFoundError):
        await thread.checkpoint()
    await thread.update(set={"n": 1})
    assert (await thread.checkpoint(key="k")).id == (await thread.checkpoint(key="k")).id
    for ref in ("@7", "chk_unknown"):
        with pytest.raises(NotFoundError):
            await thread.checkpoint(ref)
    assert len(await thread.history()) == 1


async def test_tags_name_points_until_they_are_taken_away(store: Any) -> None:
    """S0.36."""
    thread, points = await three(store)
    assert await thread.tag(points[0], "good") == 1
    assert await thread.tag("@-1", "best") == 3
    assert await thread.tagged() == {"good": 1, "best": 3}
    await thread.tag(points[1], "good")
    assert await thread.load("@tag:good") == {"n": 2}
    await thread.untag("good")
    assert await thread.tagged() == {"best": 3}
    for name in ("good", "never"):
        with pytest.raises(NotFoundError):
            await thread.untag(name)
        with pytest.raises(NotFoundError):
            await thread.load(f"@tag:{name}")


async def test_a_fork_has_the_tags_of_its_past(store: Any) -> None:
    thread, points = await three(store)
    await thread.tag(points[0], "good")
    branch = await thread.fork(to="branch")
    await thread.untag("good")
    assert (await branch.tagged(), await thread.tagged()) == ({"good": 1}, {})


async def test_only_points_that_are_there_can_be_cleared(store: Any) -> None:
    thread, points = await three(store)
    await thread.clear(points[0])
    await thread.clear(f"@{points[1].id}")
    with pytest.raises(NotFoundError):
        await thread.clear("chk_unknown")
    assert versions(await thread.history()) == [3, 2, 1]  # retention decides


# ── the view of everything (S0.5, S3.36) ──────────────────────────────────────────────────────────────────────────────


async def test_the_timeline_tells_who_did_what_when_and_why(store: Any, clock: ManualClock) -> None:
    """S0.5, S3.36."""
    thread = store.thread("t", actor="planner", task="task-7")
    first = await thread.save({"n": 1}, kind="routine", status="ok", note="begin")
    clock.advance(HOUR)
    await store.thread("t", actor="a person").update(set={"n": 2})
    await store.thread("t").append("messages", "hi")
    items = await thread.timeline()
    assert [(item.version, item.kind, item.actor) for item in items] == [
        (1, "state.saved", "planner"),
        (2, "state.updated", "a person"),
        (3, "state.updated", None),
    ]
    begun = items[0]
    assert (begun.checkpoint, begun.checkpoint_kind, begun.status, begun.note) == (first.id, "routine", "ok", "begin")
    assert [item.at for item in items] == [START, START + HOUR, START + HOUR]
    assert all(item.bytes > 0 and not item.pruned and not item.left for item in items)
    assert "planner" in str(begun)
    assert "'begin'" in str(begun)


async def test_who_and_for_which_task_stand_on_every_point(store: Any) -> None:
    """S3.36."""
    thread = store.thread("t", actor="planner", task="task-7")
    traces = {"actor": "planner", "task_id": "task-7"}
    saved = await thread.save({"n": 1}, metadata={"a": 1})
    assert saved.metadata == {**traces, "a": 1}
    assert (await thread.checkpoint()).metadata == traces
    await thread.rewind(saved)
    assert (await thread.history())[0].metadata == {**traces, "to": 1}
    branch = await thread.fork(to="branch")
    assert (await branch.save({"n": 2})).metadata == traces
    assert [point.id for point in await thread.history(metadata={"task_id": "task-7", "a": 1})] == [saved.id]
    assert (await store.thread("t").checkpoint()).metadata == {}


async def test_the_timeline_shows_rewinds_and_what_they_left(store: Any) -> None:
    """S0.5."""
    thread, points = await three(store)
    await thread.rewind(points[0])
    await thread.tag("@1", "good")
    items = await thread.timeline()
    assert [(item.version, item.left, item.rewound_to) for item in items] == [
        (1, False, None), (2, True, None), (3, True, None), (4, False, 1), (5, False, None),
    ]  # fmt: skip
    assert str(items[1]).startswith("~@2")
    assert "to @1" in str(items[3])
    assert [item.version for item in await thread.timeline(after=2, limit=2)] == [3, 4]
    for bad in ({"after": -1}, {"after": "1"}, {"limit": -1}):
        with pytest.raises(InvalidInputError):
            await thread.timeline(**bad)


async def test_the_timeline_outlives_a_prune(store: Any) -> None:
    """S0.5, B9: who did what and when stays, the payloads go."""
    thread = store.thread("t", actor="planner")
    for n in range(5):
        await thread.save({"n": n, "text": "x" * 500}, note=f"n{n}")
    before = await thread.timeline()
    await thread.prune(1)
    *items, told = await thread.timeline()
    assert [(item.version, item.kind, item.at, item.actor) for item in items] == [
        (item.version, item.kind, item.at, item.actor) for item in before
    ]
    assert [(item.pruned, item.bytes == 0, item.checkpoint is None) for item in items[:4]] == [(True, True, True)] * 4
    assert (items[4].checkpoint, told.kind, told.actor) == (before[4].checkpoint, "range.pruned", "planner")
