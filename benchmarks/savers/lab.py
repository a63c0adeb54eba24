"""Both savers, each with a database of its own and a process that plays W into it."""

from __future__ import annotations

import os
from types import TracebackType
from typing import Any, Self

from benchmarks.runtime.homes import homes_of
from benchmarks.savers.children import OURS, THEIRS, started
from benchmarks.scale import Bench


class Table:
    """The two sides of one kind of messages."""

    def __init__(self, bench: Bench, kind: str) -> None:
        self.kind = kind
        self._homes = homes_of(bench)
        self._lab = bench.server
        self.homes: dict[str, Any] = {
            side: self._homes.new(f"{side}_{kind}", theirs=side == THEIRS) for side in (OURS, THEIRS)
        }
        self.peers = {side: started(side, home.url, kind, bench.scale.turns) for side, home in self.homes.items()}

    def wal_grew(self) -> list[str]:
        """The sides whose WAL had to grow after all."""
        return [side for side, home in self.homes.items() if home.wal_grew()]

    def settle(self) -> None:
        """Tell planners how the tables look, which autovacuum would have done."""
        for home in self.homes.values():
            if self._lab is not None:
                home.analyze()

    def closed(self) -> dict[str, int]:
        """Close both sides, and return the bytes of their databases."""
        for peer in self.peers.values():
            peer.close()
        self.peers.clear()
        sizes: dict[str, int] = {}
        for side, home in self.homes.items():
            if self._lab is None:
                home.close()
            sizes[side] = self._homes.bytes(home)
        return sizes

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for peer in self.peers.values():
            peer.end()
        for home in self.homes.values():
            home.close()
            if self._lab is None:
                os.unlink(home.path)  # theirs may have a gigabyte
