"""Counting commits whose answer was lost, and what was found out about each; production code counts nothing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec

from perdure.storage.sql import doubts
from perdure.storage.sql.transactions import CommitUnknown

LOST, STANDS, ABSENT = "lost", "stands", "absent"


class Doubts:
    """Counts in this process while it is entered, and leaves the figures in a file."""

    def __init__(self, folder: Path, name: str) -> None:
        self._path = folder / f"{name}.doubts"
        self.found: Counter[str] = Counter()

    def __enter__(self) -> Doubts:
        made = CommitUnknown.__init__

        def lost(error: CommitUnknown, *values: Any) -> None:
            made(error, *values)
            self.found[LOST] += 1

        CommitUnknown.__init__ = lost  # type: ignore[method-assign]
        for name in ("landed", "line_changed", "is_gone"):
            setattr(doubts, name, self._asked(getattr(doubts, name)))
        return self

    def _asked(self, question: Callable[..., Any]) -> Callable[..., Any]:
        async def ask(*values: Any) -> Any:
            answer = await question(*values)
            self.found[ABSENT if answer is None else STANDS] += 1
            return answer

        return ask

    def __exit__(self, *error: object) -> None:
        self._path.write_bytes(msgspec.json.encode(dict(self.found)))


def read(folder: Path) -> Counter[str]:
    """The figures of all processes."""
    found: Counter[str] = Counter()
    for path in folder.glob("*.doubts"):
        found.update(msgspec.json.decode(path.read_bytes(), type=dict[str, int]))
    return found
