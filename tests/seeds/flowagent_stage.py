"""The stage on which flowagent's page is played: its blocks, unchanged but for the import, and what they take for
granted.
"""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import logging
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Optional

from perdure import (
    Checkpoint,
    CheckpointManager,
    InMemoryCheckpointStorage,
    Message,
    SQLiteCheckpointStorage,
    StandardAgent,
)

PAGE = Path(__file__).with_name("flowagent_page.md")
_NUMBERS = itertools.count()


def blocks() -> dict[str, str]:
    """The Python block under each heading of the page."""
    found: dict[str, str] = {}
    heading, fence = "", ""
    for line in PAGE.read_text(encoding="utf-8").splitlines(keepends=True):
        if line.startswith("```"):
            fence = "" if fence else line.strip()
        elif fence == "```python":
            found[heading] = found.get(heading, "") + line
        elif line.startswith("#") and not fence:
            heading = line.strip("# \n")
    return found


class Database:
    """The database behind the page's own storage: documents of JSON, newest first."""

    def __init__(self) -> None:
        self._texts: list[str] = []

    async def insert(self, document: dict[str, Any]) -> None:
        self._texts.insert(0, json.dumps(document))

    async def find(self, checkpoint_id: str) -> dict[str, Any] | None:
        return next((each for each in map(json.loads, self._texts) if each["id"] == checkpoint_id), None)

    async def find_many(self, *, user_id: str, limit: int, offset: int) -> list[dict[str, Any]]:
        return [each for each in map(json.loads, self._texts) if each["user_id"] == user_id][offset : offset + limit]


class Booking(StandardAgent):
    """The agent that the page takes for granted."""

    required_fields = ("city",)

    async def on_running(self, msg: Message) -> str:
        return f"{msg.content}: {self.collected_fields['city']}"


def booking() -> Booking:
    return Booking(agent_id="booking-1", user_id="user_123", collected_fields={"city": "Paris"})


class Stage:
    """A storage of one kind, and the names that blocks use and make."""

    def __init__(self, kind: str, folder: Path) -> None:
        self.kind = kind
        self.logger = logging.getLogger(f"page {next(_NUMBERS)}")
        self.names: dict[str, Any] = {
            "Checkpoint": Checkpoint, "Message": Message, "StandardAgent": StandardAgent, "dataclass": dataclass,
            "datetime": datetime, "List": list, "Optional": Optional, "logger": self.logger, "__name__": "the_page",
        }  # fmt: skip
        self.storage = self._storage(folder)
        self.manager = CheckpointManager(storage=self.storage)
        self.names |= {"checkpoint_mgr": self.manager, "agent": booking()}

    def _storage(self, folder: Path) -> Any:
        if self.kind == "memory":
            return InMemoryCheckpointStorage(max_checkpoints=1000)
        if self.kind == "sqlite":
            return SQLiteCheckpointStorage(db_path=folder / "checkpoints.db", max_checkpoints_per_user=100)
        source = blocks()["Custom Storage"].replace("from flowagent import", "from perdure import")
        exec(compile(source, str(PAGE), "exec", dont_inherit=True), self.names)
        storage = self.names["MyStorage"]()
        storage.db = Database()
        return storage

    async def play(self, heading: str, **names: Any) -> dict[str, Any]:
        """Run the block under a heading as `python -m asyncio` would, and return the names afterwards."""
        self.names |= names
        source = blocks()[heading].replace("from flowagent import", "from perdure import")
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        waiting = eval(compile(source, str(PAGE), "exec", flags=flags, dont_inherit=True), self.names)
        if inspect.isawaitable(waiting):
            await waiting
        return self.names

    async def close(self) -> None:
        if self.kind != "custom":
            await self.storage.close()
