"""Somebody else who acts between two calls of a storage."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from perdure.storage.contract import Storage

READS = (
    *("thread", "find", "seams", "records", "entries", "log", "headers", "restore", "blobs", "forks", "derived"),
    *("checkpoint", "checkpoints", "projection", "project", "current", "messages"),
)


class Interruption:
    """Somebody else who acts just before the given one of a storage's calls."""

    def __init__(self, storage: Storage, at: int, act: Callable[[], object]) -> None:
        self.calls, self.acted, self._at, self._act = 0, False, at, act
        for name in READS:
            setattr(storage, name, self._counted(getattr(storage, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        async def counted(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls == self._at:
                self.acted = True
                self._act()
            return await call(*args, **kwargs)

        return counted
