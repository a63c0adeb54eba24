"""Checkpoints of LangGraph on the engine: every operation once, for synchronous and asynchronous callers."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from perdure.adapters.langgraph import interrupts, layout, writes
from perdure.adapters.langgraph.places import KIND, Place, checkpoint_id, key_of, point_id
from perdure.app.parts import Parts
from perdure.checkpoints.requests import Request
from perdure.core.calls import told
from perdure.core.checkpoint import CheckpointMark, CheckpointQuery, CheckpointRow, metadata_in
from perdure.core.codec import encode
from perdure.core.document import Document
from perdure.core.entries import EntryKind
from perdure.core.errors import NotFoundError, VersionConflictError
from perdure.core.identity import ThreadKey
from perdure.core.quarantine import check_run
from perdure.core.threads import IDLE, NO_PATCH, ThreadPatch

_TIPS = 10_000  # threads whose newest checkpoint is remembered
_OURS = ThreadPatch(agent=KIND)
_WENT_ON = ThreadPatch(agent=KIND, status=IDLE, wake_at=0)


Fenced = Callable[[ThreadKey, Request], Request]


def _unfenced(key: ThreadKey, request: Request) -> Request:
    return request


class Tip(msgspec.Struct, frozen=True):
    """The newest checkpoint of a thread as this process knows it."""

    checkpoint: str
    version: int
    empty: Mapping[str, Any] = {}  # its channels without a value, and their versions


class Put(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint to be kept."""

    place: Place  # its `checkpoint` is the parent
    checkpoint: Mapping[str, Any]
    metadata: Mapping[str, Any]
    new_versions: Mapping[str, Any]
    branches: bool  # whether what stands after the parent may be left behind
    values: layout.Values
    note: str | None = None  # what its line says about it


class Found(msgspec.Struct, frozen=True, kw_only=True):
    """A checkpoint that was read."""

    place: Place
    checkpoint: dict[str, Any]
    metadata: dict[str, Any]
    parent: str | None
    writes: list[tuple[str, str, Any]]


class Keeper:
    """Keeps the checkpoints of graphs in one open store."""

    def __init__(self, parts: Parts, namespace: str, user: str, fenced: Fenced = _unfenced) -> None:
        self.parts = parts
        self.namespace = namespace
        self.user = user
        self._fenced = fenced
        self._tips: OrderedDict[ThreadKey, Tip] = OrderedDict()
        self._asking: dict[ThreadKey, str] = {}  # where a graph was interrupted, and may be past by now

    def key(self, place: Place) -> ThreadKey:
        """The thread of a place."""
        return key_of(self.namespace, self.user, place.thread, place.ns)

    async def put(self, put: Put) -> None:
        """Keep a checkpoint after its parent. Raises `VersionConflictError` when something else came after that."""
        await self.parts.ready()
        key = self.key(put.place)
        tip = self._tips.get(key)
        state = await self._state(key, put, tip)
        request = self._fenced(key, self._request(put, tip is None))
        parent = put.place.checkpoint
        if parent is not None and tip is not None and tip.checkpoint == parent:
            try:
                return await self._save(key, put, state, request, tip.version, None)
            except VersionConflictError:
                self._tips.pop(key, None)  # another process was here
        expected, after = (None, None) if parent is None else await self._builds_on(key, put, parent)
        await self._save(key, put, state, request, expected, after)

    async def _save(
        self, key: ThreadKey, put: Put, state: dict[str, Any], request: Request, expected: int | None, after: int | None
    ) -> None:
        if await self._answered(key, put, after):
            request = msgspec.structs.replace(request, patch=_WENT_ON)
        saved = await self.parts.engine.save(key, state, expected, request, after=after, subclasses="plain")
        empty = layout.without_value(put.checkpoint["channel_versions"], state)
        self._remember(key, Tip(put.checkpoint["id"], saved.appended.state_version, empty))
        await self.parts.look_after(key)

    async def _answered(self, key: ThreadKey, put: Put, after: int | None) -> bool:
        """A graph that was interrupted went on, or elsewhere: nobody has to answer any more."""
        asked, parent = self._asking.get(key), put.place.checkpoint
        # Writes may come before the checkpoint they belong to: its own put is no answer, nor is one before it.
        if asked is None or (parent != asked and after is None):
            return False
        del self._asking[key]
        written = [] if put.values.are_opaque else await self._writes(key, asked, put.values)
        await interrupts.close(self.parts, key, written)
        return True

    async def _state(self, key: ThreadKey, put: Put, tip: Tip | None) -> dict[str, Any]:
        before: dict[str, Any] = {}
        # A graph names `__start__` among its versions for ever, and never again among its values: a channel that had
        # no value at this version has none now, and reading the whole state at every put would not find one.
        empty = tip.empty if tip is not None and tip.checkpoint == put.place.checkpoint else {}
        parent = put.place.checkpoint
        if parent is not None and layout.missing(put.checkpoint, put.new_versions, empty):
            # Of its parent alone: on another branch the same version of a channel is another value.
            row = await self._find(key, parent)
            if row is not None:
                before = layout.kept_from((await self._document(key, row)).value(), put.checkpoint)
        return layout.state_of(put.checkpoint, put.place.checkpoint, put.new_versions, before, put.values)

    def _request(self, put: Put, fresh: bool) -> Request:
        parent = put.place.checkpoint
        mark = CheckpointMark(
            id=point_id(put.checkpoint["id"]),
            kind=KIND,
            agent=KIND,
            note=put.note,
            metadata=encode(dict(put.metadata), root="metadata", subclasses="plain"),
            parent=None if parent is None else point_id(parent),
        )
        return Request(mark=mark, patch=_OURS if fresh else NO_PATCH)

    async def _builds_on(self, key: ThreadKey, put: Put, parent: str) -> tuple[int | None, int | None]:
        """The version of the state that a put expects, and the one it goes back to (None: it goes on)."""
        row, newest = await self._find(key, parent), await self._find(key, None)
        if row is None or newest is None:
            return None, None  # the parent was never here, or is gone: nobody is left behind by mistake
        now = await self.parts.storage.thread(key)
        head = now.state_version if now is not None else 0
        if newest.mark.id == row.mark.id:
            return head, None if head == row.version else row.version
        if not put.branches:
            raise VersionConflictError(key.id, row.version, newest.version)
        return head, row.version

    def forget(self, key: ThreadKey) -> None:
        """Drop what is known of a thread."""
        self._tips.pop(key, None)
        self.parts.engine.forget(key)

    def _remember(self, key: ThreadKey, tip: Tip) -> None:
        self._tips[key] = tip
        self._tips.move_to_end(key)
        if len(self._tips) > _TIPS:
            self._tips.popitem(last=False)

    async def put_writes(
        self, place: Place, given: Sequence[tuple[str, Any]], task: str, path: str, values: layout.Values
    ) -> None:
        """Keep what a task wrote for a checkpoint; the very same call again changes nothing."""
        if not given or place.checkpoint is None:
            return
        kept = [(channel, values.kept(value)) for channel, value in given]
        # The question first: if a crash undoes its interrupt, that is raised again and finds it. None would ask later.
        asked = await self.ask(place, task, given, opaque=values.are_opaque)
        await self.put_written(place, writes.written(place.checkpoint, kept, task, path))
        if not asked:  # there was no thread yet
            await self.ask(place, task, given, opaque=values.are_opaque)

    async def put_written(self, place: Place, written: writes.Written) -> None:
        """Keep one call's writes as they are, their places among those of the task included."""
        await self.parts.ready()
        body = writes.encode_body(written)
        entry = self.parts.engine.entry(EntryKind.TASK_WRITTEN, body, None)
        request = Request(key=writes.key_of(written.checkpoint, body))
        await self.parts.engine.speak(self.key(place), [entry], request)

    async def ask(self, place: Place, task: str, given: Sequence[tuple[str, Any]], *, opaque: bool = False) -> bool:
        """Open questions for the interrupts among what a task wrote; those of a subgraph are its graph's too.

        With `opaque` they do not say what is asked: that is for the user's serializer alone. False when there is no
        thread yet that could ask.
        """
        raised = [] if place.ns else interrupts.raised(given, opaque=opaque)
        if not raised or place.checkpoint is None:
            return True
        await self.parts.ready()
        self._interrupted(self.key(place), place.checkpoint)
        return await interrupts.ask(self.parts, self.key(place), place.checkpoint, task, raised)

    def _interrupted(self, key: ThreadKey, checkpoint: str) -> None:
        if len(self._asking) >= _TIPS:
            self._asking.clear()  # the status of those threads is put right when they are read again
        self._asking[key] = checkpoint

    async def get(self, place: Place, values: layout.Values, *, runs: bool = False) -> Found | None:
        """The checkpoint of a place, or the newest one of its thread; None when there is none.

        Raises `QuarantinedError` for a graph that `runs` on a thread that nobody has trusted: it would go on with what
        a stranger put there before it writes anything that could be refused.
        """
        await self.parts.ready()
        key = self.key(place)
        if runs and (thread := await self.parts.storage.thread(key)) is not None:
            check_run(thread)
        row = await self._find(key, place.checkpoint)
        if row is None:
            return None
        try:
            document = await self._document(key, row)
        except NotFoundError:
            return None  # dropped a moment ago
        if document.root is None:
            return None  # deleted a moment ago
        found = await self._found(key, row, place, document.value(), values)
        if any(channel == interrupts.INTERRUPT for _, channel, _ in found.writes):
            self._interrupted(key, found.checkpoint["id"])
        if place.checkpoint is None:
            empty = layout.without_value(found.checkpoint["channel_versions"], found.checkpoint["channel_values"])
            self._remember(key, Tip(found.checkpoint["id"], row.version, empty))
        return found

    async def _found(
        self, key: ThreadKey, row: CheckpointRow, place: Place, state: dict[str, Any], values: layout.Values
    ) -> Found:
        id = checkpoint_id(row.mark.id)
        checkpoint, parent = layout.checkpoint_in(state, id, values)
        return Found(
            place=Place(place.thread, place.ns, id),
            checkpoint=checkpoint,
            metadata=metadata_in(row.mark.metadata),
            parent=parent,
            writes=await self._writes(key, id, values),
        )

    async def _writes(self, key: ThreadKey, checkpoint: str, values: layout.Values) -> list[tuple[str, str, Any]]:
        """What tasks wrote for a checkpoint, in the order in which a step applies it."""
        calls = await self.calls(key, checkpoint)
        return [(task, channel, values.given(value)) for task, channel, value in writes.merged(calls)]

    async def calls(self, key: ThreadKey, checkpoint: str) -> list[writes.Written]:
        """The calls that wrote something for a checkpoint, the oldest first."""
        entries = await self.parts.storage.under(key, writes.prefix(checkpoint))
        return [told(key.id, entry, writes.decode_written) for entry in entries if entry.payload]

    async def newest(self, key: ThreadKey) -> dict[str, Any] | None:
        """The metadata of the newest checkpoint of a thread; None when there is none."""
        row = await self._find(key, None)
        return None if row is None else metadata_in(row.mark.metadata)

    async def _find(self, key: ThreadKey, checkpoint: str | None) -> CheckpointRow | None:
        """The line of a checkpoint; without an id that of the newest one that no branch left behind."""
        if checkpoint is None:
            query = CheckpointQuery(kind=KIND, limit=1, present=True)
        else:
            query = CheckpointQuery(kind=KIND, limit=1, id=point_id(checkpoint))
        rows = await self.parts.storage.checkpoints(key, query)
        return rows[0] if rows else None

    async def _document(self, key: ThreadKey, row: CheckpointRow) -> Document:
        head = await self.parts.engine.head(key)
        return head.document if head.version == row.version else await self.parts.engine.at(key, row.version)
