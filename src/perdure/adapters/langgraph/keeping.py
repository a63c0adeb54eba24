"""Putting checkpoints of LangGraph's own savers into a store, and comparing what is read back."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
from langgraph.checkpoint.base import WRITES_IDX_MAP

from perdure.adapters.langgraph import layout, revival, writes
from perdure.adapters.langgraph.catching_up import IMPORTED, Standing
from perdure.adapters.langgraph.keeper import Keeper, Put
from perdure.adapters.langgraph.listing import PLAIN, Wanted, lines, threads
from perdure.adapters.langgraph.places import KIND, Place, checkpoint_id, point_id
from perdure.adapters.langgraph.revival import Foreign, Reviver
from perdure.adapters.langgraph.theirs import Pending, Theirs
from perdure.adapters.langgraph.types import Opaque
from perdure.checkpoints.restoring import Head, Restorer
from perdure.core.checkpoint import CheckpointQuery, metadata_in
from perdure.core.codec import decode, encode
from perdure.core.errors import UnsupportedValueError
from perdure.core.ports import Silence

ABSENT = object()
_KEPT = "keep it as bytes with --opaque"


async def standing(keeper: Keeper, thread: str, ns: str) -> Standing:
    """What the store has of a graph in a thread."""
    await keeper.parts.ready()
    key = keeper.key(Place(thread, ns))
    row = await keeper.parts.storage.thread(key)
    if row is None:
        return Standing()
    marks = [line.row.mark for line in await lines(keeper, Wanted(thread=thread, ns=ns))]
    found = {checkpoint_id(mark.id): mark.note for mark in marks}
    return Standing(
        ids=frozenset(found),
        own=frozenset(id for id, note in found.items() if note != IMPORTED),
        stranger=not found and row.head > 0,
        pruned=bool((await keeper.parts.storage.seams(key)).gone),
    )


async def weight(keeper: Keeper, names: Sequence[str]) -> int:
    """How many bytes these threads take here, those of their subgraphs included."""
    total = 0
    for name in names:
        for key, _ in await threads(keeper, name):
            if await keeper.parts.storage.thread(key) is not None:
                sizes = await keeper.parts.storage.sizes(key)
                total += sizes.entry_bytes + sizes.snapshot_bytes + sizes.blob_bytes
    return total


class Brings:
    """Puts the checkpoints of one graph in one thread, in order."""

    def __init__(self, reviver: Reviver, run: Callable[[Any], Any], *, opaque: bool, values: layout.Values) -> None:
        self._reviver = reviver
        self._run = run
        self._opaque = opaque
        self._values = Untouched(values)
        self._head: Head | None = None  # as the storage has it: what the engine remembers would vouch for itself

    def bring(self, found: Theirs, pending: list[Pending]) -> None:
        """Put a checkpoint with what was written for it, and compare. Raises `UnsupportedValueError`."""
        sealed: set[str] = set()
        put = self._put(found, sealed)
        differing = self._differing(found, put)
        if self._opaque and not sealed.issuperset(differing):
            sealed |= found.values.keys() & differing
            put = self._put(found, sealed)
            differing = self._differing(found, put)
        if differing:
            raise _lossy(found.place, differing[0])
        values = self._values_of(found.place, pending)
        self._write(found.place, pending, values)
        self._check_written(found.place, pending, values)

    def stands(self, found: Theirs) -> bool:
        """Whether the newest state equals this checkpoint, or is something else altogether."""
        put = self._made(found, set())
        state = self._read(found.place)
        is_it = layout.rest_of(state).get("ts") == put.checkpoint.get("ts")
        return not is_it or not self._differing(found, put)

    def _put(self, found: Theirs, sealed: set[str]) -> Put:
        """Put a checkpoint; channels that cannot be kept are added to `sealed` where that is allowed."""
        put = self._made(found, sealed)
        try:
            self._run(lambda keeper: keeper.put(put))
            return put
        except UnsupportedValueError as exc:
            more = {name for name, value in put.checkpoint["channel_values"].items() if not _is_kept(name, value)}
            if not self._opaque or not more:
                raise _placed(found.place, exc) from exc
        sealed |= more
        return self._put(found, sealed)

    def _made(self, found: Theirs, sealed: set[str]) -> Put:
        rest = {name: self._value(found.place, (name,), value) for name, value in found.rest.items()}
        _check_shape(found.place, rest)
        values = self._channels(found, sealed)
        return Put(
            place=msgspec.structs.replace(found.place, checkpoint=found.parent),
            checkpoint={**rest, "id": found.place.checkpoint, "channel_values": values},
            metadata=found.metadata,
            new_versions=rest["channel_versions"],
            branches=True,
            values=self._values,
            note=IMPORTED,
        )

    def _channels(self, found: Theirs, sealed: set[str]) -> dict[str, Any]:
        try:
            return self._reviver.channels(found.values, sealed, opaque=self._opaque)
        except Foreign as exc:
            name = next(name for name, value in found.values.items() if value is exc.value)
            raise revival.unsupported(found.place, ("channel_values", name), exc) from None

    def _value(self, place: Place, at: tuple[str | int, ...], value: Opaque) -> Any:
        try:
            return self._reviver.read_or_keep(value, self._opaque)
        except Foreign as exc:
            raise revival.unsupported(place, at, exc) from None

    def _read(self, place: Place) -> dict[str, Any]:
        head: Head = self._run(lambda keeper: _caught_up(keeper, place, self._head))
        self._head = head
        return decode(head.document.close())

    def _differing(self, found: Theirs, put: Put) -> list[str]:
        """The parts of a checkpoint that are read back as something else than was put."""
        stored, parent = layout.checkpoint_in(self._read(found.place), found.place.checkpoint or "", PLAIN)
        given, back = put.checkpoint["channel_values"], stored.pop("channel_values")
        rest = {name: value for name, value in put.checkpoint.items() if name != "channel_values"}
        metadata = self._run(lambda keeper: _metadata(keeper, found.place))
        differing = [] if metadata == found.metadata else ["metadata"]
        differing += [] if (stored, parent) == (rest, found.parent) else ["rest"]
        return differing + [name for name in {**given, **back} if not self._same(given, back, name)]

    def _same(self, given: dict[str, Any], back: dict[str, Any], name: str) -> bool:
        one, other = given.get(name, ABSENT), back.get(name, ABSENT)
        if one is ABSENT or other is ABSENT:
            return False
        return self._reviver.same(one, other if type(one) is Opaque else self._values.given(other))

    def write_more(self, place: Place, pending: list[Pending]) -> int:
        """Put what was written for a checkpoint, as far as it is not here; return how many calls that took."""
        return self._write(place, pending, self._values_of(place, pending))

    def _write(self, place: Place, pending: list[Pending], values: list[Any]) -> int:
        kept = [
            writes.encoded(self._values.kept(value), at, each.channel)
            for at, (value, each) in enumerate(zip(values, pending, strict=True))
        ]
        calls = _calls(place, pending, kept)
        return self._run(lambda keeper: _write(keeper, place, calls)) if calls else 0

    def _values_of(self, place: Place, pending: list[Pending]) -> list[Any]:
        return [self._kept(place, at, each) for at, each in enumerate(pending)]

    def wait(self, place: Place, pending: list[Pending]) -> None:
        """Open a question for each interrupt of the newest checkpoint: those before it were answered."""
        hidden = self._values.are_opaque
        for at, each in enumerate(pending):
            given = [(each.channel, self._kept(place, at, each))]
            self._run(lambda keeper, task=each.task, given=given: keeper.ask(place, task, given, opaque=hidden))

    def went_on(self, place: Place) -> None:
        """Look at the newest checkpoint that is here: what comes after it answers its questions."""
        self._run(lambda keeper: keeper.get(place, self._values))

    def _kept(self, place: Place, at: int, each: Pending) -> Any:
        value = self._value(place, ("writes", at, each.channel), each.value)
        try:
            writes.encoded(self._values.kept(value), at, each.channel)
        except UnsupportedValueError as exc:
            if not self._opaque:
                raise _placed(place, exc) from exc
            return each.value
        return value

    def _check_written(self, place: Place, pending: list[Pending], values: list[Any]) -> None:
        calls = self._run(lambda keeper: keeper.calls(keeper.key(place), place.checkpoint or ""))
        found = writes.standing(calls)
        places = [(path, task, each.index, each.channel) for path, task, each in found]
        if places != [(each.path, each.task, each.index, each.channel) for each in pending]:
            raise _lossy(place, "writes")
        for at, (value, (_, _, each)) in enumerate(zip(values, found, strict=True)):
            stored = decode(each.value)
            if not self._reviver.same(value, stored if type(value) is Opaque else self._values.given(stored)):
                raise _lossy(place, f"writes[{at}].{each.channel}")


class Untouched(layout.Values):
    """Values as a saver keeps them; what is bytes already stays as it is."""

    def __init__(self, values: layout.Values) -> None:
        self._inner = values

    @property
    def are_opaque(self) -> bool:
        """Whether nobody but the user's serializer may read them."""
        return self._inner.are_opaque

    def kept(self, value: Any) -> Any:
        """What is stored of a value."""
        return value if type(value) is Opaque else self._inner.kept(value)

    def given(self, stored: Any) -> Any:
        """The value that was stored."""
        return self._inner.given(stored)


def _calls(place: Place, pending: list[Pending], kept: list[bytes]) -> list[writes.Written]:
    """What was written, as calls of each task: results apart from what takes the place of something."""
    calls: dict[tuple[str, str, bool], list[writes.Write]] = {}
    for each, body in zip(pending, kept, strict=True):
        call = (each.task, each.path, each.channel in WRITES_IDX_MAP)
        calls.setdefault(call, []).append(writes.Write(each.index, each.channel, msgspec.Raw(body)))
    return [writes.Written(place.checkpoint or "", task, path, each) for (task, path, _), each in calls.items()]


async def _caught_up(keeper: Keeper, place: Place, head: Head | None) -> Head:
    restorer, key = Restorer(keeper.parts.storage, Silence()), keeper.key(place)
    return await (restorer.restore(key) if head is None else restorer.catch_up(key, head))


async def _metadata(keeper: Keeper, place: Place) -> dict[str, Any] | None:
    query = CheckpointQuery(kind=KIND, limit=1, id=point_id(place.checkpoint or ""))
    rows = await keeper.parts.storage.checkpoints(keeper.key(place), query)
    return metadata_in(rows[0].mark.metadata) if rows else None


async def _write(keeper: Keeper, place: Place, calls: list[writes.Written]) -> int:
    known = [writes.encode_body(each) for each in await keeper.calls(keeper.key(place), place.checkpoint or "")]
    new = [call for call in calls if writes.encode_body(call) not in known]
    for call in new:
        await keeper.put_written(place, call)
    return len(new)


def _is_kept(name: str, value: Any) -> bool:
    try:
        encode(value, at=(name,), subclasses="plain")
    except UnsupportedValueError:
        return False
    return True


def _placed(place: Place, exc: UnsupportedValueError) -> UnsupportedValueError:
    return UnsupportedValueError(f"{revival.named(place)}, {exc.path}", exc.reason, _KEPT)


def _check_shape(place: Place, rest: dict[str, Any]) -> None:
    """Raise `UnsupportedValueError` for a checkpoint that LangGraph would not have written."""
    versions = rest.get("channel_versions")
    if not isinstance(versions, dict):
        raise _misshapen(place, "channel_versions", "is no mapping")
    for name, version in versions.items():
        if not isinstance(name, str) or not isinstance(version, str | int | float):
            raise _misshapen(place, "channel_versions", "does not say the version of each channel")


def _misshapen(place: Place, part: str, reason: str) -> UnsupportedValueError:
    return UnsupportedValueError(f"{revival.named(place)}, .{part}", reason)


def _lossy(place: Place, part: str) -> UnsupportedValueError:
    reason = "what is read back is not equal to what was kept"
    return UnsupportedValueError(f"{revival.named(place)}, .{part}", reason, _KEPT)
