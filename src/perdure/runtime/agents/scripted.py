"""A model that answers by a script, for tests and examples: no network, the same every time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from perdure.core.errors import InvalidInputError, ModelError
from perdure.runtime.agents.model import Reply, Said, ToolCall, ToolSchema

FOREVER = 10**9


class Stall(msgspec.Struct, frozen=True):
    """Say nothing for so many seconds, then go on with the script."""

    seconds: float = FOREVER


class Loop(msgspec.Struct, frozen=True):
    """Give these answers again and again, for ever."""

    items: tuple[Any, ...]


class _Turn(msgspec.Struct, frozen=True):
    """What one turn of the script does: it fails and stalls, and then answers."""

    answer: Any
    before: tuple[Any, ...] = ()


class ScriptedModel:
    """Answers by a script: `ScriptedModel([("refund", {"order": 7}), "It is on its way."])`.

    An item is a text, a tool call `(name, args)`, a list of tool calls that are made at once, a `Reply`, or a
    `ScriptedModel.loop(…)` of such items. An exception is raised, and a `ScriptedModel.stall(seconds)` waits, each time
    before the answer that follows it is given for the first time.

    Which item it gives is told by the assistant's messages in the conversation, so a new process with the same script
    goes on where the old one was. `calls` counts how often it was asked, `requests` keeps what it was given.
    """

    def __init__(self, script: Iterable[Any]) -> None:
        self._turns = list(_turns(script))
        self._failed: dict[int, int] = {}  # by turn: how many of its failures were had
        self.calls = 0
        self.requests: list[list[Said]] = []

    @staticmethod
    def stall(seconds: float = FOREVER) -> Stall:
        """Wait before the next answer; without a number, for ever."""
        return Stall(seconds)

    @staticmethod
    def loop(*items: Any) -> Loop:
        """Go on with these answers for ever."""
        return Loop(items)

    async def reply(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> Reply:
        """The answer of this turn."""
        for wait in self._before(messages):
            await asyncio.sleep(wait)
        return self._answer(messages)

    def reply_now(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> Reply:
        """The same for synchronous code."""
        for wait in self._before(messages):
            threading.Event().wait(wait)
        return self._answer(messages)

    async def stream(
        self, messages: Sequence[Said], *, tools: Sequence[ToolSchema] = (), settings: Mapping[str, Any] | None = None
    ) -> AsyncIterator[str | Reply]:
        """The same, word by word."""
        reply = await self.reply(messages, tools=tools, settings=settings)
        for at, word in enumerate(reply.text.split(" ") if reply.text else ()):
            yield word if at == 0 else f" {word}"
        yield reply

    def _before(self, messages: Sequence[Said]) -> Iterator[float]:
        """Count the call; raise or give the waits that come before the answer."""
        self.calls += 1
        self.requests.append(list(messages))
        at = _turns_in(messages)
        had, before = self._failed.get(at, 0), self._turn(at).before
        for item in before[had:]:
            self._failed[at] = self._failed.get(at, 0) + 1
            if isinstance(item, BaseException):
                raise item
            yield item.seconds

    def _answer(self, messages: Sequence[Said]) -> Reply:
        at = _turns_in(messages)
        return _reply(self._turn(at).answer, at)

    def _turn(self, at: int) -> _Turn:
        for number, turn in enumerate(self._turns):
            if isinstance(turn.answer, Loop):
                return _Turn(turn.answer.items[(at - number) % len(turn.answer.items)])
            if number == at:
                return turn
        raise ModelError("the scripted model", f"has {len(self._turns)} answers, and was asked for number {at + 1}")


def _turns(script: Iterable[Any]) -> Iterator[_Turn]:
    before: list[Any] = []
    for item in script:
        if isinstance(item, BaseException | Stall):
            before.append(item)
        else:
            yield _Turn(_checked(item), tuple(before))
            before = []
    if before:  # it never gets over them
        yield _Turn(before[-1], tuple(before))


def _checked(item: Any) -> Any:
    parts = item.items if isinstance(item, Loop) else (item,)
    if not parts or not all(isinstance(each, str | Reply) or _is_calls(each) for each in parts):
        known = "texts, (tool, args) pairs, lists of these, loops, stalls and errors"
        raise InvalidInputError(f"a script has {known}, not {item!r}")
    return item


def _is_calls(item: Any) -> bool:
    calls = item if isinstance(item, list) else [item]
    return bool(calls) and all(
        isinstance(each, tuple) and len(each) == 2 and isinstance(each[0], str) for each in calls
    )


def _reply(item: Any, turn: int) -> Reply:
    if isinstance(item, BaseException):
        raise item
    if isinstance(item, Stall):
        raise ModelError("the scripted model", "has no answer after it stalled")
    if isinstance(item, Reply):
        return item
    if isinstance(item, str):
        return Reply(text=item)
    calls = item if isinstance(item, list) else [item]
    return Reply(
        tool_calls=[ToolCall(name, args, f"call_{turn + 1}_{at + 1}") for at, (name, args) in enumerate(calls)]
    )


def _turns_in(messages: Sequence[Said]) -> int:
    return sum(message.get("role") == "assistant" for message in messages)
