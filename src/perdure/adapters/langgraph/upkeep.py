"""Deleting, copying and pruning threads of LangGraph, those of their subgraphs included."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.adapters.langgraph import writes
from perdure.adapters.langgraph.keeper import Keeper
from perdure.adapters.langgraph.listing import PLAIN, Line, Wanted, lines, threads
from perdure.adapters.langgraph.places import KIND, Place, checkpoint_id
from perdure.checkpoints.requests import Request
from perdure.core.calls import told
from perdure.core.checkpoint import MAX_LIMIT, CheckpointQuery
from perdure.core.codec import encode
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, ThreadExistsError
from perdure.core.identity import ThreadKey
from perdure.core.pruning import Pruning
from perdure.core.retention_policy import Retention
from perdure.core.threads import ThreadRow

KEEP_LATEST, DELETE = "keep_latest", "delete"


async def delete_thread(keeper: Keeper, thread: str) -> None:
    """Delete a thread with everything of its subgraphs."""
    for key, _ in reversed(await threads(keeper, thread)):
        keeper.forget(key)
        await keeper.parts.storage.delete(key)


async def prune(keeper: Keeper, names: Sequence[str], strategy: str) -> None:
    """Keep only the newest checkpoint of each graph and subgraph, or nothing."""
    if strategy not in (KEEP_LATEST, DELETE):
        raise InvalidInputError(f"strategy must be {KEEP_LATEST!r} or {DELETE!r}, not {strategy!r}")
    for name in names:
        if strategy == DELETE:
            await delete_thread(keeper, name)
            continue
        for key, thread in await threads(keeper, name):
            found = await lines(keeper, Wanted(thread=thread, ns=_ns(keeper, key)))
            needed = await _needed(keeper, key, thread)
            await _drop(keeper, key, [line for line in found if line.place.checkpoint not in needed])


async def _needed(keeper: Keeper, key: ThreadKey, thread: str) -> set[str]:
    """The newest checkpoint, and those before it that its channels are rebuilt from."""
    found = await keeper.get(Place(thread, _ns(keeper, key)), PLAIN)
    kept: set[str] = set()
    unseeded = set(found.metadata.get("counters_since_delta_snapshot", ())) if found else set()
    while found is not None:
        kept.add(found.checkpoint["id"])
        unseeded -= set(found.checkpoint["channel_values"])
        if not unseeded or found.parent is None:
            break
        found = await keeper.get(Place(thread, _ns(keeper, key), found.parent), PLAIN)
    return kept


async def delete_for_runs(keeper: Keeper, runs: Sequence[str]) -> None:
    """Delete the checkpoints that these runs made, with what was written for them."""
    for run in runs:
        doomed: dict[ThreadKey, list[Line]] = {}
        for line in await lines(keeper, Wanted(filter={"run_id": run})):
            doomed.setdefault(line.key, []).append(line)
        for key, each in doomed.items():
            await _drop(keeper, key, each)


async def _drop(keeper: Keeper, key: ThreadKey, doomed: list[Line]) -> None:
    """Drop checkpoints. Where the newest goes too, the thread goes back to the newest that stays."""
    parts = keeper.parts
    row = await parts.storage.thread(key)
    if row is None or not doomed:
        return
    keeper.forget(key)
    gone = {line.row.mark.id for line in doomed}
    rows = await parts.storage.checkpoints(key, CheckpointQuery(kind=KIND, limit=MAX_LIMIT))
    left = [each for each in rows if each.mark.id not in gone]
    if not left:
        await parts.storage.delete(key)
        return
    if left[0].version < row.state_version:
        await parts.engine.rewind(row, left[0].version, row.state_version, Request())
    points = {each.mark.id: each.version for each in rows if each.mark.id in gone}
    await parts.pruner.drop(row, points, Retention(last=1, per="thread", messages="drop"))
    await _drop_writes(keeper, key, {checkpoint_id(each) for each in gone})


async def _drop_writes(keeper: Keeper, key: ThreadKey, gone: set[str]) -> None:
    parts = keeper.parts
    row = await parts.storage.thread(key)
    entries = await parts.storage.entries(key, kinds=[EntryKind.TASK_WRITTEN])
    own = [entry for entry in entries if entry.payload and row is not None and entry.version > row.parent_version]
    blank = tuple(entry.version for entry in own if told(key.id, entry, writes.decode_written).checkpoint in gone)
    if row is not None and blank:
        body = encode({"policy": KEEP_LATEST, "dropped": [], "records": []})
        await parts.engine.prune(row, body, Pruning(seen=row.head, records=(), blank=blank), (), Request())


async def copy_thread(keeper: Keeper, source: str, target: str) -> None:
    """Make `target` a thread with the whole past of `source`. Nothing of the graph's own thread is copied."""
    parts = keeper.parts
    for key, _ in await threads(keeper, target):  # of its subgraphs too: one that is met later leaves half a copy
        if await parts.storage.thread(key) is not None:
            raise ThreadExistsError(target)
    for key, _ in await threads(keeper, source):
        row = await parts.storage.thread(key)
        if row is None:
            continue
        to = keeper.key(Place(target, _ns(keeper, key)))
        line = ThreadRow(key=to, uid=parts.engine.ids.sortable(), agent=row.agent, created=parts.clock.now())
        if key.namespace == to.namespace:
            await parts.storage.fork(key, row.head, line)
        else:
            await _copy(keeper, row, to)
        keeper.forget(to)


async def _copy(keeper: Keeper, row: ThreadRow, to: ThreadKey) -> None:
    """A subgraph's thread belongs to its graph's: it goes there whole."""
    from perdure.storage.transfer import take

    storage = keeper.parts.storage
    taken = await take(storage, row.key, spare_uid=keeper.parts.engine.ids.sortable())
    await storage.put_thread(taken.under(to))


def _ns(keeper: Keeper, key: ThreadKey) -> str:
    return "" if key.namespace == keeper.namespace else key.id
