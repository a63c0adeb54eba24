"""Stores of every kind and both faces, for tests that only use what users use."""

from __future__ import annotations

import itertools
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from perdure import Perdure, sync
from perdure.testing.servers import require, shared_mariadb, shared_postgres, shared_redis

_NUMBERS = itertools.count()
Place = tuple[str, dict[str, Any]]


def _name() -> str:
    return f"points_{os.getpid()}_{next(_NUMBERS)}"


def _postgres(folder: Path) -> Place:
    return require(shared_postgres).database(_name()), {}


def _mysql(folder: Path) -> Place:
    return require(shared_mariadb).database(_name()), {}


def _hot(place: Place) -> Place:
    return place[0], {"hot": require(shared_redis).url}


PLACES: dict[str, Callable[[Path], Place]] = {
    "memory": lambda folder: ("memory://", {}),
    "file": lambda folder: (f"file://{folder}/store", {}),
    "sqlite": lambda folder: (f"sqlite:///{folder}/store.db", {}),
    "postgres": _postgres,
    "mysql": _mysql,
    "hot_sqlite": lambda folder: _hot((f"sqlite:///{folder}/store.db", {})),
    "hot_postgres": lambda folder: _hot(_postgres(folder)),
}


class Awaited:
    """A synchronous store or thread whose calls are awaited: one test serves both faces."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        if not callable(found):
            return found
        return self._made(found) if name in ("thread", "scope") else self._call(found)

    def _made(self, found: Callable[..., Any]) -> Callable[..., Awaited]:
        return lambda *values, **options: Awaited(found(*values, **options))

    def _call(self, found: Callable[..., Any]) -> Any:
        async def call(*values: Any, **options: Any) -> Any:
            answer = found(*(each._inner if isinstance(each, Awaited) else each for each in values), **options)
            return Awaited(answer) if isinstance(answer, sync.Thread) else answer

        return call


@asynccontextmanager
async def opened(place: Place, mode: str, **options: Any) -> AsyncIterator[Any]:
    """A store in one of the modes."""
    url, given = place
    if mode == "sync":
        with sync.Perdure.open(url, **given, **options) as store:
            yield Awaited(store)
    else:
        async with Perdure.open(url, **given, **options) as store:
            yield store
