"""Inputs that are no arguments of a store's methods, such as files and rows: a module of them adds its trial here."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hostile.canary import Canary
from tests.hostile.catalogue import Hostile
from tests.hostile.judge import Judge

Play = Callable[[Judge, Canary, str, Sequence[Hostile], Path], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """How the inputs of a category are tried, and on which storages."""

    category: str
    backends: Sequence[str]
    play: Play


TRIALS: list[Trial] = []
