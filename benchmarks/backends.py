"""The databases that can be measured: `python -m benchmarks --backend NAME`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks import files, fsyncs, mysql, parts, postgres, runtime, savers
from benchmarks.scale import FULL, QUICK, Bench, Scale


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """What a run on one database is made of."""

    title: str
    results: str  # the name of the files
    notes: tuple[str, ...]
    parts: Mapping[str, Callable[[Bench], None]]
    apart: Mapping[str, Callable[[Bench], None]] = field(default_factory=dict)  # those that are run only when named
    full: Scale
    quick: Scale
    server: Callable[[Scale], AbstractContextManager[Any]]  # what has to run meanwhile
    fsyncs: Callable[[Bench], dict[str, float]]  # counted after one of …
    counted_after: frozenset[str] = frozenset({"update", "save"})
    counted_by: str

    def part(self, name: str) -> Callable[[Bench], None]:
        """A part by its name."""
        return self.parts[name] if name in self.parts else self.apart[name]

    @property
    def names(self) -> list[str]:
        """What can be asked for."""
        return [*self.parts, *self.apart]


@contextmanager
def _nothing(scale: Scale) -> Iterator[None]:
    yield None


def _on_server(package: Any, name: str, *, results: str, counted_by: str, **more: Any) -> Backend:
    """What the package of a server brings along."""
    return Backend(
        title=f"Benchmarks on {name}",
        results=results,
        notes=package.NOTES,
        parts=package.PARTS,
        full=package.FULL,
        quick=package.QUICK,
        server=package.Lab,
        fsyncs=package.fsyncs,
        counted_by=counted_by,
        **more,
    )


_APART = {"runtime": runtime.run, "langgraph": savers.run}
BACKENDS = {
    "sqlite": Backend(
        title="Benchmarks",
        results="latest",
        notes=parts.NOTES,
        parts=parts.PARTS,
        apart=_APART,
        full=FULL,
        quick=QUICK,
        server=_nothing,
        fsyncs=lambda bench: fsyncs.per_save(bench.scale.traced),
        counted_by="strace",
    ),
    "file": Backend(
        title="Benchmarks of a folder of files",
        results="file",
        notes=files.NOTES,
        parts=files.PARTS,
        full=FULL,
        quick=QUICK,
        server=_nothing,
        fsyncs=lambda bench: {},
        counted_after=frozenset(),
        counted_by="nothing",
    ),
    "postgres": _on_server(postgres, "PostgreSQL", results="postgres", counted_by="pg_stat_wal", apart=_APART),
    "mysql": _on_server(mysql, "MariaDB", results="mysql", counted_by="Innodb_data_fsyncs"),
}
