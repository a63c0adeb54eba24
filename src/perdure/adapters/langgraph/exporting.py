"""Threads back into the databases of LangGraph's own savers, by these savers themselves."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import groupby
from typing import Any

import msgspec
import ormsgpack
from langgraph.checkpoint.base import WRITES_IDX_MAP
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from perdure import sync
from perdure.adapters.langgraph import keeping, theirs, versions, writes
from perdure.adapters.langgraph.catching_up import AnotherHistory, Missing, Standing, missing
from perdure.adapters.langgraph.importing import allow_all, chosen, saver_on
from perdure.adapters.langgraph.keeper import Found, Keeper
from perdure.adapters.langgraph.listing import Wanted, lines
from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.reports import Brought, Count, Outcome, Progress, Report, Tally
from perdure.adapters.langgraph.revival import Reviver, named, serializer
from perdure.adapters.langgraph.saver import PerdureSaver
from perdure.adapters.langgraph.theirs import Source, Spot
from perdure.adapters.langgraph.types import Opaque
from perdure.app.parts import Parts
from perdure.app.servers import check_address
from perdure.app.store import Perdure
from perdure.core.codec import decode
from perdure.core.errors import InvalidInputError, StorageUnavailableError, UnsupportedValueError
from perdure.storage.permissions import EXPOSED, exposed, make_database
from perdure.storage.postgres.ports import check_url

Written = list[tuple[str, str, int, str, Any]]  # path, task, index, channel, value
_APART = ("id", "channel_values")


def export_to(
    target: str,
    source: PerdureSaver | Perdure | sync.Perdure,
    *,
    threads: Iterable[str] | None = None,
    types: Sequence[Any] = (),
    progress: Progress | None = None,
) -> Report:
    """Write threads of graphs into the tables of LangGraph's SqliteSaver (a file) or PostgresSaver (an address).

    The tables are made by LangGraph's own saver, which writes every checkpoint; each is then read back and compared.
    It can be repeated: what is there is left alone. A thread that has another history there is refused.
    """
    saver = saver_on(source)
    allow_all(types)
    spots = chosen(saver._sides.run(_spots), threads, "the store")
    with _their_saver(target, saver._sides.run(_parts)) as there, theirs.opened(target) as reader:
        return Exporter(saver, there, reader, in_postgres=target.startswith(theirs.POSTGRES)).bring(spots, progress)


async def _spots(keeper: Keeper) -> list[Spot]:
    found = await lines(keeper, Wanted())
    places = sorted((line.place.thread, line.place.ns) for line in found)
    return [Spot(*place, len(list(each))) for place, each in groupby(places)]


async def _parts(keeper: Keeper) -> Parts:
    return keeper.parts


def _make_file(path: str, parts: Parts) -> None:
    """Make the database for their saver, which would make it readable for everybody."""
    try:
        make_database(path, parts.file_mode)
    except OSError as exc:
        raise StorageUnavailableError(path, exc.strerror or str(exc)) from exc
    for each in exposed([path], parts.file_mode):
        parts.telemetry.log("warning", EXPOSED, path=each.path, mode=f"{each.mode:04o}")


@contextmanager
def _their_saver(target: str, parts: Parts) -> Generator[Any]:
    cls, address = _saver_class(target)
    if not target.startswith(theirs.POSTGRES):
        _make_file(address, parts)
    with cls.from_conn_string(address) as saver:
        saver.setup()
        saver.serde = Sealing(serializer())
        yield saver


def _saver_class(target: str) -> tuple[Any, str]:
    package = "langgraph-checkpoint-postgres" if target.startswith(theirs.POSTGRES) else "langgraph-checkpoint-sqlite"
    try:
        if target.startswith(theirs.POSTGRES):
            check_address(target)
            check_url(target)
            from langgraph.checkpoint.postgres import PostgresSaver

            return PostgresSaver, target
        from langgraph.checkpoint.sqlite import SqliteSaver

        return SqliteSaver, theirs.file_of(target)
    except ImportError as exc:
        raise InvalidInputError(f"{package} is needed to write there: pip install {package}") from exc


class Sealing:
    """LangGraph's serializer; values that were kept as bytes go back as they came."""

    def __init__(self, inner: JsonPlusSerializer) -> None:
        self._inner = inner
        self.loads_typed = inner.loads_typed

    def dumps_typed(self, obj: Any) -> tuple[str, bytes]:
        """The bytes of a value, or of a whole checkpoint."""
        if type(obj) is Opaque:
            return obj.type, obj.data
        if isinstance(obj, dict) and "channel_values" in obj:
            values = {name: _as_part(value) for name, value in obj["channel_values"].items()}
            obj = {**obj, "channel_values": values}
        return self._inner.dumps_typed(obj)


def _as_part(value: Any) -> Any:
    """A value inside of a checkpoint that is one value."""
    if type(value) is not Opaque:
        return value
    if value.type != "msgpack":
        raise UnsupportedValueError("channel_values", f"a value that is kept as {value.type!r} cannot stand in msgpack")
    return ormsgpack.Fragment(value.data)


class _Names:
    """The versions of channels along the branches of a graph in a thread."""

    def __init__(self, there: Callable[[Place], versions.Names]) -> None:
        self._there = there
        self._newest: tuple[str | None, versions.Names] = (None, {})
        self.last: dict[str, Any] = {}  # those that were put last

    def of(self, found: Found) -> Found:
        """A checkpoint with versions that no other branch has."""
        names = versions.named(found.checkpoint, self._before(found))
        self._newest = (found.checkpoint["id"], names)
        return msgspec.structs.replace(found, checkpoint=versions.renamed(found.checkpoint, names))

    def _before(self, found: Found) -> versions.Names:
        if found.parent is None or found.parent == self._newest[0]:
            return self._newest[1] if found.parent else {}
        return self._there(msgspec.structs.replace(found.place, checkpoint=found.parent))


class Exporter:
    """Brings threads from one store into a database of LangGraph's."""

    def __init__(self, saver: PerdureSaver, there: Any, reader: Source, *, in_postgres: bool) -> None:
        self._run: Callable[[Any], Any] = saver._sides.run
        self._values = saver._values
        self._there = there
        self._reader = reader
        self._shares_values = in_postgres  # between checkpoints that have the same version of a channel
        self._serde = serializer()

    def bring(self, spots: list[Spot], progress: Progress | None) -> Report:
        """Bring what stands at these spots, thread by thread."""
        count = Count(sum(spot.count for spot in spots), progress)
        names = list(dict.fromkeys(spot.thread for spot in spots))
        done = [self._thread(name, list(each), count) for name, each in groupby(spots, lambda spot: spot.thread)]
        return Report(
            threads=tuple(done),
            source_bytes=self._run(lambda keeper: keeping.weight(keeper, names)),
            target_bytes=self._reader.weight(names),
        )

    def _thread(self, name: str, spots: list[Spot], count: Count) -> Brought:
        total, start, tally = sum(spot.count for spot in spots), count.done, Tally()
        try:
            for spot, todo in [(spot, self._missing(spot)) for spot in spots]:
                tally.before += len(todo.grown)
                self._spot(spot, todo, count, tally)
            return Brought(thread=name, outcome=tally.outcome, checkpoints=total, new=tally.new)
        except (AnotherHistory, InvalidInputError) as exc:
            return Brought(thread=name, outcome=Outcome.REFUSED, checkpoints=total, new=tally.new, reason=str(exc))
        finally:
            count.to(start + total)

    def _missing(self, spot: Spot) -> Missing:
        here: Standing = self._run(lambda keeper: keeping.standing(keeper, spot.thread, spot.ns))
        there = frozenset(self._reader.ids(spot.thread, spot.ns))
        # What was pruned here is no history of its own there.
        return missing(sorted(here.ids), Standing(ids=there, own=frozenset() if here.pruned else there))

    def _spot(self, spot: Spot, todo: Missing, count: Count, tally: Tally) -> None:
        """Bring what is missing of a graph in a thread."""
        reviver, names = Reviver(self._serde), _Names(self._named_there)
        for id in todo.grown:
            tally.written += self._write_more(Place(spot.thread, spot.ns, id))
            count.one()
        for id in todo.new:
            place = Place(spot.thread, spot.ns, id)
            found = self._run(lambda keeper, place=place: keeper.get(place, self._values))
            if found is not None:
                found = names.of(found) if self._shares_values else found
                self._put(found, names)
                self._check(reviver, found, self._write(place))
                tally.new += 1
            count.one()

    def _put(self, found: Found, names: _Names) -> None:
        """Put a checkpoint; values that were put with the one before are not put again."""
        now = found.checkpoint["channel_versions"]
        changed = {name: version for name, version in now.items() if names.last.get(name) != version}
        self._there.put(_config(found.place, found.parent), found.checkpoint, found.metadata, changed)
        names.last = now

    def _named_there(self, place: Place) -> versions.Names:
        """How the versions of a checkpoint that is there already are called there."""
        here = self._run(lambda keeper: keeper.get(place, self._values))
        there = self._reader.get(place)
        if here is None or there is None:
            return {}
        reviver = Reviver(self._serde)
        return versions.paired(here.checkpoint, {name: reviver.read(each) for name, each in there[0].rest.items()})

    def _write_more(self, place: Place) -> int:
        """Put what was written since for a checkpoint that is there."""
        before = self._reader.pending(place)
        self._write(place)
        return int(self._reader.pending(place) != before)

    def _write(self, place: Place) -> Written:
        """Put what was written for a checkpoint, and return it."""
        calls = self._run(lambda keeper: keeper.calls(keeper.key(place), place.checkpoint))
        found: Written = [
            (path, task, each.index, each.channel, self._values.given(decode(each.value)))
            for path, task, each in writes.standing(calls)
        ]
        for (path, task, _), each in groupby(found, lambda one: (one[0], one[1], one[3] in WRITES_IDX_MAP)):
            self._there.put_writes(
                _config(place, place.checkpoint), [(channel, value) for *_, channel, value in each], task, path
            )
        return found

    def _check(self, reviver: Reviver, found: Found, written: Written) -> None:
        """Read a checkpoint back. Raises `UnsupportedValueError` naming what differs."""
        stored = self._reader.get(found.place)
        if stored is None:
            raise _lossy(found.place, "checkpoint")
        row, pending = stored
        back = reviver.channels(row.values, frozenset(), opaque=True)
        given = found.checkpoint["channel_values"]
        for name in {**given, **back}:
            if name not in given or name not in back or not _same(reviver, given[name], back[name], row.values[name]):
                raise _lossy(found.place, f"channel_values.{name}")
        rest = {name: reviver.read(value) for name, value in row.rest.items() if name not in _APART}
        if rest != {name: value for name, value in found.checkpoint.items() if name not in _APART}:
            raise _lossy(found.place, "rest")
        if (row.parent, row.metadata) != (found.parent, found.metadata):
            raise _lossy(found.place, "metadata")
        _check_written(reviver, found.place, written, pending)


def _same(reviver: Reviver, given: Any, back: Any, row: Opaque) -> bool:
    return given == row if type(given) is Opaque else reviver.same(given, back)


def _check_written(reviver: Reviver, place: Place, written: Written, pending: list[theirs.Pending]) -> None:
    if [each[:2] + each[3:4] for each in written] != [(each.path, each.task, each.channel) for each in pending]:
        raise _lossy(place, "writes")
    for (*_, channel, given), each in zip(written, pending, strict=True):
        if not _same(reviver, given, reviver.read_or_keep(each.value, True), each.value):
            raise _lossy(place, f"writes.{channel}")


def _config(place: Place, checkpoint: str | None) -> dict[str, Any]:
    """What LangGraph's savers take for a place; without a checkpoint there is no parent."""
    named = {"thread_id": place.thread, "checkpoint_ns": place.ns}
    return {"configurable": named if checkpoint is None else {**named, "checkpoint_id": checkpoint}}


def _lossy(place: Place, part: str) -> UnsupportedValueError:
    return UnsupportedValueError(f"{named(place)}, {part}", "what is read back is not equal to what is kept here")
