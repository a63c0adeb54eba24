"""The storages that agents are saved to, ours and one that somebody wrote."""

from __future__ import annotations

import functools
import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from perdure import (
    Checkpoint,
    CheckpointStorage,
    FileCheckpointStorage,
    InMemoryCheckpointStorage,
    MySQLCheckpointStorage,
    PostgresCheckpointStorage,
    SQLiteCheckpointStorage,
)
from perdure.testing.clock import ManualClock
from perdure.testing.servers import require, shared_mariadb, shared_postgres

_NUMBERS = itertools.count()


class ThreeMethods(CheckpointStorage):
    """A storage of somebody's own that does what it must and nothing else: JSON texts in a dict."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}

    async def save(self, checkpoint: Checkpoint) -> str:
        self.texts[checkpoint.id] = json.dumps(checkpoint.to_dict())
        return checkpoint.id

    async def load(self, checkpoint_id: str) -> Checkpoint | None:
        text = self.texts.get(checkpoint_id)
        return Checkpoint.from_dict(json.loads(text)) if text else None

    async def list_by_user(self, user_id: str, limit: int, offset: int) -> list[Any]:
        dicts = map(json.loads, reversed(self.texts.values()))
        return [each for each in dicts if each["user_id"] == user_id][offset : offset + limit]


def postgres(folder: Path, clock: ManualClock, **options: Any) -> CheckpointStorage:
    return PostgresCheckpointStorage(require(_postgres), schema=f"s{next(_NUMBERS)}", clock=clock, **options)


@functools.cache
def _postgres() -> str:
    return shared_postgres().database(f"flowagent_{os.getpid()}")


def mysql(folder: Path, clock: ManualClock, **options: Any) -> CheckpointStorage:
    url = require(shared_mariadb).database(f"flowagent_{os.getpid()}_{next(_NUMBERS)}")
    return MySQLCheckpointStorage(url, clock=clock, **options)


OURS: dict[str, Callable[..., Any]] = {
    "memory": lambda folder, clock: InMemoryCheckpointStorage(clock=clock),
    "file": lambda folder, clock, **options: FileCheckpointStorage(folder / "place", clock=clock, **options),
    "sqlite": lambda folder, clock, **options: SQLiteCheckpointStorage(folder / "agents.db", clock=clock, **options),
    "postgres": postgres,
    "mysql": mysql,
}
ALL: dict[str, Callable[..., Any]] = {**OURS, "three_methods": lambda folder, clock: ThreeMethods()}
