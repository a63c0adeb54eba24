"""Calling the tools that a model asks for: checked, approved, recorded, and told to the model whatever comes of it."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from perdure.core.approval import needs_approval
from perdure.core.calls import Call, Outcome, key_digest, reason
from perdure.core.codec import decode
from perdure.core.errors import (
    InvalidInputError,
    RunError,
    StepFailedError,
    StorageError,
    ToolDeniedError,
    ToolMissingError,
)
from perdure.runtime.agents.conversation import result_of, shown_to_model
from perdure.runtime.agents.listening import AgentEvent, tell
from perdure.runtime.agents.model import ToolCall
from perdure.runtime.agents.nested import AgentTool
from perdure.runtime.approving import approved_by
from perdure.runtime.calling import KEY, Asked, Unverified, outcome_of_tool
from perdure.runtime.scope import SCOPE, Scope
from perdure.runtime.unkept import Unkept
from perdure.runtime.unwinding import Unwinding, sorted_out
from perdure.runtime.work import OnlyAwaitableError, in_thread, is_async

if TYPE_CHECKING:
    from perdure.runtime.agents.tool import Tool
    from perdure.runtime.run import Run

Face = Callable[["Run"], Any]  # the run as a tool is given it
Message = dict[str, Any]


class Caller:
    """Calls the tools of one agent."""

    def __init__(self, tools: Mapping[str, Tool], face: Face) -> None:
        self._tools = tools
        self._functions = {name: _prepared(tool, face) for name, tool in tools.items()}

    async def all(self, run: Run, turn: int, calls: Sequence[ToolCall]) -> list[Message]:
        """The results of calls that are made at once, in the order of the calls.

        All of them come to their end first, also when one waits for somebody: what is done stays done.
        """
        places = [_place(run, turn, at) for at in range(len(calls))]
        work = [self._one(run, scope, turn, call) for (_, scope), call in zip(places, calls, strict=True)]
        if run.runtime.work.in_place:
            ended: list[Any] = [await _to_its_end(each) for each in work]
        else:
            ended = await asyncio.gather(*map(_to_its_end, work))
        results = _none_raised(ended)
        for place, _ in places:
            run.journal.forget_inside(place.id)
        return results

    async def _one(self, run: Run, scope: Scope, turn: int, call: ToolCall) -> Message:
        token = SCOPE.set(scope)
        try:
            tell(AgentEvent(kind="tool_call", turn=turn, name=call.name, id=call.id, args=call.args))
            message = await self._result(run, call)
            said = message["content"]
            tell(AgentEvent(kind="tool_result", turn=turn, name=call.name, id=call.id, text=said))
            return message
        finally:
            SCOPE.reset(token)

    async def _result(self, run: Run, call: ToolCall) -> Message:
        tool = self._tools.get(call.name)
        if tool is None:
            return await self._without(run, call)
        try:
            args = tool.parameters.fitted(call.args)
        except InvalidInputError as exc:
            return result_of(call, f"error: bad arguments: {exc}", is_error=True)
        return await self._called(run, call, tool, args)

    async def _without(self, run: Run, call: ToolCall) -> Message:
        """A tool that there is not: the model is told, unless there was one when a person approved it or it ran."""
        try:
            found = await _of_missing(run, call) if run.resumed else None
        except ToolDeniedError as exc:
            return result_of(call, f"denied: {exc}")
        if found is not None:
            return result_of(call, _told(decode(bytes(found.value))))
        known = ", ".join(self._tools) or "none"
        return result_of(call, f"error: there is no tool {call.name!r}; there are: {known}", is_error=True)

    async def _called(self, run: Run, call: ToolCall, tool: Tool, args: dict[str, Any]) -> Message:
        # Found by what the model gave: a default that changed, or a question that is new, makes it no other call.
        options = replace(tool.options, key=dict(call.args), checkpoint=False)
        asked = Asked(tool.name, self._functions[tool.name], (), _shown(run, tool, args))
        try:
            return result_of(call, _told(await outcome_of_tool(run, options, asked)))
        except ToolDeniedError as exc:
            return result_of(call, f"denied: {exc}")
        except Exception as exc:
            if _is_ours(run, exc):
                raise
            text = f"error: {type(exc).__name__}: {reason(exc)}"
        # Recorded: without it a failure before a crash is not final, and what was told the model would be another text.
        return result_of(call, await run.step("told", lambda: text), is_error=True)


async def _of_missing(run: Run, call: ToolCall) -> Outcome | None:
    """What a tool gave that is gone by now. Raises `ToolDeniedError`; `ToolMissingError` where it has yet to run."""
    scope = run.scope
    if not isinstance(call.args, Mapping):
        return None
    place = scope.call(call.name, key_digest(dict(call.args)))
    scope.settle()
    found = await run.find(place, scope)
    if found.outcome is not None or run.accept:
        return found.outcome
    why = "may have run before a crash" if found.intent is not None else None
    if why is None and (by := await approved_by(run, scope, place, call.name)) is not None:
        why = f"was approved by {by}"
    if why is not None:
        raise ToolMissingError(call.name, run.current.started.name, run.journal.key.id, why)
    return None


def _shown(run: Run, tool: Tool, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a tool runs with; all of them where somebody is asked: what is approved is what runs."""
    asks = needs_approval(run.runtime.approvals, tool.name, required=tool.options.require_approval)
    return tool.parameters.with_defaults(args) if asks else args


def _told(value: Any) -> str:
    """What a model is told of a result."""
    if isinstance(value, Unkept):
        return f"ran; its result could not be kept: {value.kind}"
    return shown_to_model(value.text if isinstance(value, Unverified) else value)


def _place(run: Run, turn: int, at: int) -> tuple[Call, Scope]:
    """A place of its own for each call: which of them comes first does not matter for what is found again."""
    outer = run.scope
    call = outer.call("tool call", key_digest([turn, at]))
    outer.settle()
    scope = Scope(run, call.id, outer)
    scope.free = True  # whether somebody is asked may have changed since
    return call, scope


async def _to_its_end(work: Any) -> Any:
    try:
        return await work
    except asyncio.CancelledError:
        raise
    except BaseException as exc:
        return exc


def _none_raised(ended: Sequence[Any]) -> list[Message]:
    raised = [each for each in ended if isinstance(each, BaseException)]
    if not raised:
        return list(ended)
    failed = [each for each in raised if not isinstance(each, Unwinding)]
    raise failed[0] if failed else sorted_out(BaseExceptionGroup("tools", raised))


def _is_ours(run: Run, exc: Exception) -> bool:
    """Whether the run cannot go on; what a tool raised is told to the model."""
    if run.journal.held.lost is not None or isinstance(exc, (StorageError, OnlyAwaitableError)):
        return True
    return isinstance(exc, RunError) and not isinstance(exc, StepFailedError)


def _ask_agent(tool: AgentTool, *, prompt: str) -> Any:
    scope = SCOPE.get()
    if scope is None:
        raise InvalidInputError(f"agent {tool.name!r} can only be asked inside a run")
    return tool.ask_in(scope.run, prompt)


def _prepared(tool: Tool, face: Face) -> Callable[..., Any]:
    """The function as a run calls it: with plain arguments, which it converts, and with what is filled in."""
    if isinstance(tool, AgentTool):
        return functools.partial(_ask_agent, tool)
    filled = tool.parameters.filled_in

    def call(args: dict[str, Any], key: str | None) -> Any:
        given = tool.parameters.convert(args)
        scope = SCOPE.get()
        run = scope.run if scope else None
        own = {"run": face(run) if run else None, KEY: key}
        ready = {**given, **{name: own[name] for name in filled}}
        if run is None or run.runtime.work.in_place or is_async(tool.function):
            return tool.function(**ready)
        # A plain function would hold up the loop, and with it the lease that keeps others from running it too.
        return in_thread(tool.function, **ready)

    def with_key(*, idempotency_key: str, **args: Any) -> Any:
        return call(args, idempotency_key)

    return with_key if KEY in filled else lambda **args: call(args, None)
