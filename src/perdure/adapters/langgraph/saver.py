"""A checkpointer for LangGraph on any storage of Perdure: one class, synchronous and asynchronous."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import copy
from collections.abc import AsyncIterator, Collection, Iterator, Sequence
from typing import Any, Self

from perdure.core.errors import InvalidInputError
from perdure.core.extras import check_releases, missing

try:
    check_releases("perdure.adapters.langgraph", "langgraph")
    from langchain_core.runnables import RunnableConfig
    from langgraph.checkpoint.base import (
        BaseCheckpointSaver,
        ChannelVersions,
        Checkpoint,
        CheckpointMetadata,
        CheckpointTuple,
        SerializerProtocol,
        get_serializable_checkpoint_metadata,
    )
    from langgraph.checkpoint.serde.base import maybe_add_typed_methods
except ImportError as exc:
    raise missing("perdure.adapters.langgraph", "langgraph") from exc

from perdure import sync
from perdure.adapters.langgraph import graphs, listing, schemas, types, upkeep
from perdure.adapters.langgraph.graphs import Factory, Graphs, Resumable
from perdure.adapters.langgraph.keeper import Found, Keeper, Put
from perdure.adapters.langgraph.layout import Values
from perdure.adapters.langgraph.places import Place, Reads, config_of, is_run, place_of
from perdure.adapters.langgraph.sides import Closing, Sides
from perdure.adapters.langgraph.trial import Trial, TrialReport, bytes_of
from perdure.adapters.langgraph.turns import Turn, fenced
from perdure.app.parts import Parts
from perdure.app.store import Perdure


class PerdureSaver(BaseCheckpointSaver[Any], Closing):
    """Keeps the checkpoints of graphs in a store: `graph = builder.compile(checkpointer=PerdureSaver(store))`.

    `types` are classes (or whole state schemas) whose objects may stand in a state; those of a graph's own schema are
    known when it is compiled. With a `serde` of your own, values are kept as the bytes it makes. `shadow` is the saver
    that was in use so far: it is written too, what it reads is compared (`trial`), and either can be taken away again.
    """

    def __init__(
        self,
        store: Perdure | sync.Perdure | None = None,
        *,
        serde: SerializerProtocol | None = None,
        types: Sequence[Any] = (),
        user: str | None = None,
        shadow: BaseCheckpointSaver | None = None,
        url: str = "",
        **options: Any,
    ) -> None:
        super().__init__(serde=serde)
        _allow(types)
        self._sealed = serde is not None
        self._user = user or ""
        self._sides = Sides(store, url, options, self._keeper)
        self._graphs = Graphs()
        self._reads = Reads()
        self._trial = None if shadow is None else Trial(shadow)

    @classmethod
    def open(cls, url: str, *, serde: SerializerProtocol | None = None, types: Sequence[Any] = (),
             user: str | None = None, shadow: BaseCheckpointSaver | None = None, **options: Any) -> Self:  # fmt: skip
        """A saver on the store at `url`, for synchronous and asynchronous graphs; `options` are those of the store.

        Use it as a context manager, `with` or `async with`, or call `close`.
        """
        return cls(url=url, serde=serde, types=types, user=user, shadow=shadow, **options)

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """`open` under the name that LangGraph's own savers have for it."""
        return cls.open(conn_string, **options)

    def _keeper(self, parts: Parts, namespace: str) -> Keeper:
        return Keeper(parts, namespace, self._user, fenced)

    @property
    def _values(self) -> Values:
        return Values(self.serde if self._sealed else None)

    def setup(self) -> None:
        """Make or upgrade the layout of the storage; the first use does so too."""
        self._sides.run(_ready)

    async def asetup(self) -> None:
        """`setup` for asynchronous code."""
        await self._sides.arun(_ready)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Keep a checkpoint after its parent, and return its config.

        Raises `VersionConflictError` when another run put something on top of the checkpoint that this one read as the
        newest, and `UnsupportedValueError` naming the place of a value that cannot be kept.
        """
        put = _put(config, checkpoint, metadata, new_versions, self._values, self._reads)
        self._sides.run(lambda keeper: keeper.put(put))
        if trial := self._trial:
            given = (config, checkpoint, metadata, new_versions)
            trial.write("put", put.place.thread, lambda: trial.saver.put(*given))
        return config_of(put.place, checkpoint["id"])

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """`put` for asynchronous code."""
        put = _put(config, checkpoint, metadata, new_versions, self._values, self._reads)
        await self._sides.arun(lambda keeper: keeper.put(put))
        if trial := self._trial:
            given = (config, checkpoint, metadata, new_versions)
            await trial.awrite("put", put.place.thread, lambda: trial.saver.aput(*given))
        return config_of(put.place, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Keep what a task wrote for a checkpoint, before its step is over."""
        place, values = place_of(config), self._values
        self._sides.run(lambda keeper: keeper.put_writes(place, writes, task_id, task_path, values))
        if trial := self._trial:
            given = (config, writes, task_id, task_path)
            trial.write("put_writes", place.thread, lambda: trial.saver.put_writes(*given))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """`put_writes` for asynchronous code."""
        place, values = place_of(config), self._values
        await self._sides.arun(lambda keeper: keeper.put_writes(place, writes, task_id, task_path, values))
        if trial := self._trial:
            given = (config, writes, task_id, task_path)
            await trial.awrite("put_writes", place.thread, lambda: trial.saver.aput_writes(*given))

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """The checkpoint that a config names, or the newest one of its thread; None when there is none.

        Raises `QuarantinedError` when a graph is about to run on an imported thread that nobody has trusted.
        """
        place, values, runs = place_of(config), self._values, is_run(config)
        found = self._sides.run(lambda keeper: keeper.get(place, values, runs=runs))
        ours = None if found is None else self._read(found, place)
        if (trial := self._trial) is None:
            return ours
        theirs = trial.read("get_tuple", place.thread, lambda: trial.saver.get_tuple(config))
        trial.compare("get_tuple", place.thread, ours, theirs)
        return theirs if ours is None else ours  # a thread that is older than the trial

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """`get_tuple` for asynchronous code."""
        place, values, runs = place_of(config), self._values, is_run(config)
        found = await self._sides.arun(lambda keeper: keeper.get(place, values, runs=runs))
        ours = None if found is None else self._read(found, place)
        if (trial := self._trial) is None:
            return ours
        theirs = await trial.aread("get_tuple", place.thread, lambda: trial.saver.aget_tuple(config))
        trial.compare("get_tuple", place.thread, ours, theirs)
        return theirs if ours is None else ours  # a thread that is older than the trial

    def _read(self, found: Found, asked: Place) -> CheckpointTuple:
        self._reads.remember(found.checkpoint["id"], by_id=asked.checkpoint is not None)
        return _tuple(found)

    def _listed(self, found: Found, limit: int | None) -> CheckpointTuple:
        if limit is not None:  # a graph looks for the one to go on from with a limit; a whole history is only looked at
            self._reads.remember(found.checkpoint["id"], by_id=True)
        return _tuple(found)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Checkpoints of a thread, or of all threads, newest first; those that a fork left behind are among them."""
        wanted = _wanted(config, filter, before, limit, self._values)
        for found in self._sides.run(lambda keeper: listing.found(keeper, wanted)):
            yield self._listed(found, limit)

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """`list` for asynchronous code."""
        wanted = _wanted(config, filter, before, limit, self._values)
        for found in await self._sides.arun(lambda keeper: listing.found(keeper, wanted)):
            yield self._listed(found, limit)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread with everything of its subgraphs."""
        self._sides.run(lambda keeper: upkeep.delete_thread(keeper, str(thread_id)))
        if trial := self._trial:
            trial.write("delete_thread", str(thread_id), lambda: trial.saver.delete_thread(thread_id))

    async def adelete_thread(self, thread_id: str) -> None:
        """`delete_thread` for asynchronous code."""
        await self._sides.arun(lambda keeper: upkeep.delete_thread(keeper, str(thread_id)))
        if trial := self._trial:
            await trial.awrite("delete_thread", str(thread_id), lambda: trial.saver.adelete_thread(thread_id))

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints that these runs made (`run_id` in their metadata), with what was written for them."""
        self._sides.run(lambda keeper: upkeep.delete_for_runs(keeper, run_ids))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """`delete_for_runs` for asynchronous code."""
        await self._sides.arun(lambda keeper: upkeep.delete_for_runs(keeper, run_ids))

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Give another thread the whole past of this one.

        Raises `ThreadExistsError` when there is one of that id, or of its subgraphs: `delete_thread` it first.
        """
        self._sides.run(lambda keeper: upkeep.copy_thread(keeper, str(source_thread_id), str(target_thread_id)))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """`copy_thread` for asynchronous code."""
        await self._sides.arun(lambda keeper: upkeep.copy_thread(keeper, str(source_thread_id), str(target_thread_id)))

    def prune(self, thread_ids: Sequence[str], *, strategy: str = upkeep.KEEP_LATEST) -> None:
        """Keep only the newest checkpoint of each graph and subgraph of these threads, or nothing (`"delete"`)."""
        self._sides.run(lambda keeper: upkeep.prune(keeper, [str(each) for each in thread_ids], strategy))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = upkeep.KEEP_LATEST) -> None:
        """`prune` for asynchronous code."""
        await self._sides.arun(lambda keeper: upkeep.prune(keeper, [str(each) for each in thread_ids], strategy))

    def trial(self) -> TrialReport:
        """What comparing with `shadow` showed so far: reads that differ, and how large both are."""
        if self._trial is None:
            raise InvalidInputError("there is no trial: make the saver with shadow=, the one that was in use so far")
        ours = self._sides.run(_weight)
        return self._trial.report(ours, bytes_of(self._trial.saver))

    async def atrial(self) -> TrialReport:
        """`trial` for asynchronous code."""
        if self._trial is None:
            raise InvalidInputError("there is no trial: make the saver with shadow=, the one that was in use so far")
        return self._trial.report(await self._sides.arun(_weight), None)

    def turn(self, thread_id: str, *, wait: float = 30.0) -> Turn:
        """Hold a thread while a graph runs on it: `with saver.turn("42"): graph.invoke(…)`, or `async with`.

        Others that take a turn wait for it up to `wait` seconds (`LeaseHeldError` then); puts outside of a turn are
        refused meanwhile. Without turns, the second of two runs that meet is refused by `VersionConflictError`.
        """
        return Turn(self._sides, str(thread_id), wait)

    def graph(self, name: str, factory: Factory | None = None) -> Any:
        """Tell of a graph that `resume` may go on with: a function that is given the saver and compiles the graph.

        Also a decorator. A thread whose checkpoints name a `graph` in their metadata goes on with that one.
        """
        if factory is None:
            return lambda made: (self._graphs.add(name, made), made)[1]
        self._graphs.add(name, factory)
        return factory

    def resume(self, thread_id: str, *, graph: str | None = None, config: Any = None) -> Any:
        """Go on with the graph of a thread: with what was decided about its interrupts, or where it was cut off.

        Returns what the graph's `invoke` returns. Raises `NotFoundError` when no such graph was told of,
        `InvalidInputError` when there is nothing to go on with.
        """
        found = self._sides.run(lambda keeper: graphs.waiting(keeper, str(thread_id)))
        made, where = self._graphs.find(self, graph, found.metadata), _at(thread_id, config)
        return made.invoke(graphs.next_input(str(thread_id), made.get_state(where), found.answers), where)

    async def aresume(self, thread_id: str, *, graph: str | None = None, config: Any = None) -> Any:
        """`resume` for asynchronous code."""
        found = await self._sides.arun(lambda keeper: graphs.waiting(keeper, str(thread_id)))
        made, where = self._graphs.find(self, graph, found.metadata), _at(thread_id, config)
        state = await made.aget_state(where)
        return await made.ainvoke(graphs.next_input(str(thread_id), state, found.answers), where)

    def list_resumable(self, limit: int = 100) -> Sequence[Resumable]:
        """The threads whose graphs wait for an answer, or for `resume` after one; those that changed last first."""
        return self._sides.run(lambda keeper: graphs.resumable(keeper, limit))

    async def alist_resumable(self, limit: int = 100) -> Sequence[Resumable]:
        """`list_resumable` for asynchronous code."""
        return await self._sides.arun(lambda keeper: graphs.resumable(keeper, limit))

    def get_next_version(self, current: Any, channel: None) -> Any:
        """The version after this one. Threads that came from LangGraph's own savers keep their text versions."""
        if self._trial is not None:
            return self._trial.saver.get_next_version(current, channel)
        if isinstance(current, str):
            return f"{int(current.partition('.')[0]) + 1:032}"
        return 1 if current is None else current + 1

    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> Self:
        """Allow the classes of a graph's schema, as it tells them when it is compiled."""
        types.allow_named(extra_allowlist)
        if not self._sealed:
            return self
        clone = copy.copy(self)
        clone.serde = maybe_add_typed_methods(super().with_allowlist(extra_allowlist).serde)
        return clone


async def _weight(keeper: Keeper) -> int:
    await keeper.parts.ready()
    return (await keeper.parts.storage.sizes()).disk_bytes


async def _ready(keeper: Keeper) -> None:
    await keeper.parts.ready()


def _at(thread_id: str, config: Any) -> Any:
    """The newest checkpoint of a thread, with what else the graph is configured by."""
    given = dict(config or {})
    return {**given, "configurable": {**given.get("configurable", {}), "thread_id": str(thread_id)}}


def _allow(classes: Sequence[Any]) -> None:
    types.allow_known()
    schemas.hear_of_schemas()
    types.allow(classes)


def _put(config: Any, checkpoint: Any, metadata: Any, new_versions: Any, values: Values, reads: Reads) -> Put:
    place = place_of(config)
    return Put(
        place=place,
        checkpoint=checkpoint,
        metadata=get_serializable_checkpoint_metadata(config, metadata),
        new_versions=new_versions,
        branches=reads.may_branch(config, metadata.get("source")),
        values=values,
    )


def _tuple(found: Found) -> CheckpointTuple:
    parent = None if found.parent is None else config_of(found.place, found.parent)
    config: Any = config_of(found.place, found.checkpoint["id"])
    return CheckpointTuple(config, found.checkpoint, found.metadata, parent, found.writes)


def _wanted(config: Any, filter: Any, before: Any, limit: int | None, values: Values) -> listing.Wanted:
    given = (config or {}).get("configurable") or {}
    thread, ns = given.get("thread_id"), given.get("checkpoint_ns")
    return listing.Wanted(
        thread=None if thread is None else str(thread),
        ns=None if ns is None else str(ns),
        checkpoint=given.get("checkpoint_id"),
        filter=filter or {},
        before=None if before is None else ((before.get("configurable") or {}).get("checkpoint_id")),
        limit=limit,
        values=values,
    )
