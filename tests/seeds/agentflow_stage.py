"""The stage on which Agentflow's page is played: its blocks, unchanged but for the import and for where servers are,
and what they take for granted.
"""

from __future__ import annotations

import ast
import asyncio
import inspect
import itertools
import logging
import os
import re
import time
from collections import Counter
from pathlib import Path
from typing import Any

import asyncpg
from injectq import Inject

from perdure.checkpointer import (
    AgentState,
    BaseCheckpointer,
    InMemoryCheckpointer,
    Message,
    PgCheckpointer,
    SQLiteCheckpointer,
    ThreadInfo,
    bind,
)

PAGE = Path(__file__).with_name("agentflow_page.md")
_NUMBERS = itertools.count()
_PLACES = re.compile(r'"(postgresql|redis)://[^"]*?(/\d)?"')


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


class Metrics:
    """The metrics library of the page."""

    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.seconds: dict[str, list[float]] = {}

    def histogram(self, name: str, value: float) -> None:
        self.seconds.setdefault(name, []).append(value)

    def counter(self, name: str) -> Any:
        outer = self

        class Counting:
            def inc(self) -> None:
                outer.counts[name] += 1

        return Counting()


def extract_topics(text: str) -> list[str]:
    """The page's extractor: words that matter."""
    return [word for word in ("weather", "flights") if word in text.lower()]


def conversation() -> list[Message]:
    """A question, a tool call with its result, and an answer."""
    call = {"id": "call_1", "name": "get_weather", "arguments": {"city": "Paris"}}
    return [
        Message.text_message("I have a weather query: how is Paris?"),
        Message(role="assistant", content="", tools_calls=[call], id="calls"),
        Message.tool_message("call_1", "Error: the weather station is closed", is_error=True),
        Message.text_message("I could not find out.", role="assistant"),
    ]


class Stage:
    """A checkpointer of one kind, and the names that blocks use and make."""

    def __init__(self, kind: str, folder: Path, postgres: str = "", redis: str = "", namespace: str = "") -> None:
        self.kind, self._folder, self.postgres, self.redis, self._namespace = kind, folder, postgres, redis, namespace
        self.logger = logging.getLogger(f"agentflow's page {next(_NUMBERS)}")
        self.metrics = Metrics()
        self._made: list[BaseCheckpointer] = []
        self.checkpointer = self.another()
        bind(self.checkpointer)
        call = conversation()
        self.names: dict[str, Any] = {
            "AgentState": AgentState, "BaseCheckpointer": BaseCheckpointer, "Inject": Inject, "List": list,
            "Message": Message, "PgCheckpointer": PgCheckpointer, "ThreadInfo": ThreadInfo, "asyncio": asyncio,
            "asyncpg": asyncpg, "dsn": postgres, "extract_topics": extract_topics, "logger": self.logger,
            "metrics": self.metrics, "os": os, "time": time, "__name__": "the_page", "checkpointer": self.checkpointer,
            "config": {"thread_id": "conv_123", "user_id": "alice"}, "state": AgentState(context=call[:1]),
            "tool_call_message": call[1], "tool_result_message": call[2],
        }  # fmt: skip

    def another(self, **options: Any) -> BaseCheckpointer:
        """One more checkpointer on the same place, as another process would make it; in memory there is but one."""
        self._made.append(self._another(options))
        return self._made[-1]

    def _another(self, options: dict[str, Any]) -> BaseCheckpointer:
        if self.kind == "memory":
            return InMemoryCheckpointer(**options)
        if self.kind == "sqlite":
            return SQLiteCheckpointer(self._folder / "sessions.db", **options)
        return PgCheckpointer(self.postgres, self.redis, namespace=self._namespace, **options)

    def source(self, heading: str) -> str:
        """The block under a heading, with our import, and with real servers where it names any."""
        text = blocks()[heading].replace("from agentflow.checkpointer import", "from perdure.checkpointer import")
        return _PLACES.sub(self._place, text)

    def _place(self, found: re.Match[str]) -> str:
        if found[1] == "postgresql":
            return f'"{self.postgres}"'
        database = found[2] or "/0"
        return f'"{self.redis.replace("/0?", f"{database}?")}"'

    async def play(self, heading: str, **names: Any) -> dict[str, Any]:
        """Run the block under a heading as `python -m asyncio` would, and return the names afterwards."""
        self.names |= names
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
        waiting = eval(compile(self.source(heading), str(PAGE), "exec", flags=flags, dont_inherit=True), self.names)
        if inspect.isawaitable(waiting):
            await waiting
        made = [value for value in self.names.values() if isinstance(value, BaseCheckpointer)]
        self._made += [each for each in made if not any(each is known for known in self._made)]
        return self.names

    async def close(self) -> None:
        for each in self._made:
            await each.arelease()
