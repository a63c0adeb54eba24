"""Threads out of the databases of LangGraph's own savers: one checkpoint at a time, each read back and compared."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from typing import Any

from perdure import sync
from perdure.adapters.langgraph import keeping, theirs, types
from perdure.adapters.langgraph.catching_up import AnotherHistory, Missing, missing
from perdure.adapters.langgraph.keeping import Brings
from perdure.adapters.langgraph.places import Place
from perdure.adapters.langgraph.reports import Brought, Count, Outcome, Progress, Report, Tally
from perdure.adapters.langgraph.revival import Reviver, serializer
from perdure.adapters.langgraph.saver import PerdureSaver
from perdure.adapters.langgraph.theirs import Source, Spot, Unreadable
from perdure.app.store import Perdure
from perdure.core.errors import (
    ConflictError,
    DamagedError,
    InvalidInputError,
    NotFoundError,
    PerdureError,
    StorageUnavailableError,
)
from perdure.core.registry import REGISTRY

Run = Callable[[Any], Any]  # does something with a keeper
# What code raises that meets a value it did not expect: LangGraph's, LangChain's, or that of a class that was allowed.
_MISREAD = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)


def import_from(
    source: str,
    target: PerdureSaver | Perdure | sync.Perdure,
    *,
    threads: Iterable[str] | None = None,
    types: Sequence[Any] = (),
    opaque: bool = False,
    max_rows: int = 1_000_000,
    max_bytes: int = 64 << 20,
    max_seconds: float = 600.0,
    progress: Progress | None = None,
) -> Report:
    """Bring threads of LangGraph's SqliteSaver (a file) or PostgresSaver (an address) into a store.

    The source is opened read-only. Each checkpoint is put with its metadata, its parent and what was written for it,
    then read back and compared. It can be repeated, also after a crash: what is there is left alone. A thread that has
    another history here, or a value that cannot be kept, is refused with the reason, and the others go on. `types` are
    classes whose objects may be built, beside LangChain's and LangGraph's; with `opaque`, a value with any other is
    kept as the bytes it was. `progress` is called with the number of checkpoints that are done, and of all.

    The database may be hostile: nothing in it is run or imported, and a thread that cannot be read is refused with the
    reason, as is one with more than `max_rows` checkpoints, with one of more than `max_bytes`, or one that takes longer
    than `max_seconds`; an import that is repeated goes on where that one ended. Raises `StorageDamagedError` when not
    even the list of threads can be read within these bounds.
    """
    bounds = theirs.Bounds(max_rows=max_rows, max_bytes=max_bytes, max_seconds=max_seconds)
    saver = saver_on(target)
    allow_all(types)
    with theirs.opened(source, bounds) as there:
        there.limits.start()
        spots = chosen(there.spots(), threads, there.place)
        unnamed = there.unnamed if threads is None else 0
        return Importer(there, saver._sides.run, opaque=opaque, values=saver._values).bring(spots, progress, unnamed)


def saver_on(target: PerdureSaver | Perdure | sync.Perdure) -> PerdureSaver:
    """The saver, or one on a store."""
    return target if isinstance(target, PerdureSaver) else PerdureSaver(target)


def allow_all(classes: Sequence[Any]) -> None:
    """Allow classes that somebody named. Raises `InvalidInputError` for one whose objects cannot be kept."""
    types.allow(classes)
    for cls in classes:
        if isinstance(cls, type) and not types.is_typed_dict(cls) and REGISTRY.of(cls) is None:
            what = f"{cls.__module__}:{cls.__qualname__}"
            raise InvalidInputError(f"objects of {what} cannot be taken apart; keep them as bytes with opaque")


def chosen(spots: list[Spot], threads: Iterable[str] | None, place: str) -> list[Spot]:
    """Those of the chosen threads. Raises `NotFoundError` for a thread that is not there."""
    if threads is None:
        return spots
    wanted = set(threads)
    for absent in sorted(wanted - {spot.thread for spot in spots}):
        raise NotFoundError(f"thread {absent!r} in {place}")
    return [spot for spot in spots if spot.thread in wanted]


class Importer:
    """Brings threads from a database into one store."""

    def __init__(self, source: Source, run: Run, *, opaque: bool, values: Any) -> None:
        self._source = source
        self._run = run
        self._opaque = opaque
        self._values = values
        self._serde = serializer()

    def bring(self, spots: list[Spot], progress: Progress | None, unnamed: int = 0) -> Report:
        """Bring what stands at these spots, thread by thread."""
        count = Count(sum(spot.count for spot in spots), progress)
        done = [self._thread(name, list(each), count) for name, each in groupby(spots, lambda spot: spot.thread)]
        names = [each.thread for each in done if each.new or each.outcome is not Outcome.REFUSED]
        return Report(
            threads=(*done, *_unnamed(unnamed)),
            source_bytes=self._weight(names),
            target_bytes=self._run(lambda keeper: keeping.weight(keeper, names)),
        )

    def _weight(self, names: list[str]) -> int:
        """The bytes of what can be read."""
        total = 0
        self._source.limits.start()
        for name in names:
            with suppress(DamagedError, StorageUnavailableError):
                total += self._source.weight([name])
        return total

    def _thread(self, name: str, spots: list[Spot], count: Count) -> Brought:
        total, start, tally = sum(spot.count for spot in spots), count.done, Tally()
        self._source.limits.start()
        try:
            for spot, todo in [(spot, self._missing(spot)) for spot in spots]:
                tally.before += len(todo.grown)
                self._spot(spot, todo, count, tally)
            return Brought(thread=name, outcome=tally.outcome, checkpoints=total, new=tally.new)
        except (AnotherHistory, InvalidInputError, ConflictError) as exc:
            return Brought(thread=name, outcome=Outcome.REFUSED, checkpoints=total, new=tally.new, reason=str(exc))
        except Unreadable as exc:
            return Brought(thread=name, outcome=Outcome.REFUSED, checkpoints=total, new=tally.new, reason=exc.reason)
        except PerdureError:
            raise
        except _MISREAD as exc:
            reason = f"what is kept there cannot be read ({type(exc).__name__}: {str(exc)[:200]})"
            return Brought(thread=name, outcome=Outcome.REFUSED, checkpoints=total, new=tally.new, reason=reason)
        finally:
            count.to(start + total)

    def _missing(self, spot: Spot) -> Missing:
        ids = sorted(self._source.ids(spot.thread, spot.ns))
        return missing(ids, self._run(lambda keeper: keeping.standing(keeper, spot.thread, spot.ns)))

    def _spot(self, spot: Spot, todo: Missing, count: Count, tally: Tally) -> None:
        """Bring what is missing of a graph in a thread."""
        brings = Brings(Reviver(self._serde), self._run, opaque=self._opaque, values=self._values)
        for id in todo.grown:
            tally.written += self._grown(brings, Place(spot.thread, spot.ns, id), is_last=id == todo.grown[-1])
            count.one()
        for id in todo.new:
            tally.new += self._one(brings, Place(spot.thread, spot.ns, id))
            count.one()
        if todo.again:
            self._one(brings, Place(spot.thread, spot.ns, todo.again))
        if todo.newest and not spot.ns:
            newest = Place(spot.thread, spot.ns, todo.newest)
            brings.wait(newest, self._source.pending(newest))

    def _one(self, brings: Brings, place: Place) -> bool:
        found = self._source.get(place)
        if found is None:
            return False  # deleted there meanwhile
        brings.bring(*found)
        return True

    def _grown(self, brings: Brings, place: Place, *, is_last: bool) -> int:
        """Bring what was written since for a checkpoint that is here. A crash may have left the last one unchecked."""
        if not is_last:
            return brings.write_more(place, self._source.pending(place))
        brings.went_on(place)
        found = self._source.get(place)
        if found is None:
            return 0
        if brings.stands(found[0]):
            return brings.write_more(place, found[1])
        brings.bring(*found)
        return 1


def _unnamed(count: int) -> list[Brought]:
    """Checkpoints whose thread has no id that can be used."""
    reason = "the thread_id or the checkpoint_ns of these checkpoints is no text, or too long"
    return [Brought(thread="?", outcome=Outcome.REFUSED, checkpoints=count, reason=reason)] if count else []
