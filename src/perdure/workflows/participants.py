"""Participants: the agents and tools that a workflow names, and how each is asked."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

from perdure.app.options import hint
from perdure.core.errors import InvalidConfigError, InvalidInputError
from perdure.core.message import Message
from perdure.runtime.run import Run
from perdure.runtime.work import in_thread, is_async, takes
from perdure.workflows.definition import Step, Workflow

_WAITING_FOR_INPUT = "WAITING_FOR_INPUT"
_MAX_QUESTIONS = 50  # that one agent may ask in one step


@runtime_checkable
class Replying(Protocol):
    """An agent that answers messages, such as a `StandardAgent`."""

    async def reply(self, msg: Message) -> Any: ...


@runtime_checkable
class Nested(Protocol):
    """An agent that works inside the run of somebody else, such as one made by `store.agent(…)`."""

    async def answer_in(self, run: Run, prompt: Any, *, name: str) -> Any: ...


class Participants:
    """Finds agents and tools by the names that a workflow file uses."""

    def __init__(
        self,
        agents: Mapping[str, Any] | Iterable[Any],
        tools: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]],
        *,
        checkpoint_manager: Any = None,
        trust_imports: bool = False,
    ) -> None:
        self._agents = _by_name(agents, "agents")
        self._tools = _by_name(tools, "tools")
        self._manager = checkpoint_manager
        self._trusts_imports = trust_imports

    def check(self, workflow: Workflow) -> None:
        """Raise `InvalidConfigError` that names each agent and tool that is not there."""
        problems: list[str] = []
        for step in workflow.all_steps():
            for kind, name, known in (("agent", step.agent, self._agents), ("tool", step.tool, self._tools)):
                if name is not None and (problem := self._problem(kind, name, known)):
                    problems.append(f"{workflow.path}:{step.line}:{step.column}: step {step.name!r}: {problem}")
        if problems:
            raise InvalidConfigError(workflow.path, problems)

    def _problem(self, kind: str, name: str, known: Mapping[str, Any]) -> str:
        if name in known:
            return ""
        if ":" in name:
            if self._trusts_imports:
                return _import_problem(name)
            return f"{kind} {name!r} would be imported; pass trust_imports=True if you trust the file"
        near = hint(name, tuple(known)) or (f"; there are {', '.join(known)}" if known else "")
        return f"there is no {kind} {name!r}{near}; pass {kind}s={{{name!r}: …}} to WorkflowExecutor"

    def tool(self, name: str) -> Callable[..., Any]:
        """The function of a tool."""
        return self._tools[name] if name in self._tools else _imported(name)

    async def ask(self, run: Run, step: Step, given: Any, name: str) -> Any:
        """Give an agent its input, and return its answer.

        An agent that asks for a field waits for a person: the question opens a pause. Its own code runs again from the
        start when the process dies in it; calls that must not be repeated belong into `@perdure.durable` functions.
        """
        agent: Any = self._agents[step.agent] if step.agent in self._agents else _imported(step.agent or "")
        if isinstance(agent, type):
            return await self._converse(run, agent, given, name)
        if isinstance(agent, Nested):
            return await agent.answer_in(run, given, name=name)
        if isinstance(agent, Replying):
            return _content(await agent.reply(_message(given)))
        return await _called(agent, run, given)

    async def _converse(self, run: Run, kind: type, given: Any, name: str) -> Any:
        agent = self._made(run, kind, name)
        if not isinstance(agent, Replying):
            if callable(agent):
                return await _called(agent, run, given)
            raise InvalidInputError(f"agent {kind.__name__} has no method `async def reply(self, msg)`")
        answer = await agent.reply(_message(given))
        for nth in range(_MAX_QUESTIONS):
            if getattr(agent, "status", None) != _WAITING_FOR_INPUT:
                return _content(answer)
            decision = await run.pause(f"{name} input {nth + 1}", ask=str(_content(answer)), expects=str)
            if not decision:
                raise InvalidInputError(f"nobody answered {_content(answer)!r}, which step {name!r} needs")
            answer = await agent.reply(_message(decision.answer))
        raise InvalidInputError(f"agent {kind.__name__} asked {_MAX_QUESTIONS} questions in step {name!r}")

    def _made(self, run: Run, kind: type, name: str) -> Any:
        key = run.journal.key
        try:
            inspect.signature(kind).bind(agent_id="", user_id="")
        except (TypeError, ValueError):
            agent = kind()
        else:
            agent = kind(agent_id=f"{key.id}.{name}", user_id=key.user)
        if self._manager is not None and hasattr(agent, "checkpoint_manager"):
            agent.checkpoint_manager = self._manager
        return agent


async def _called(function: Any, run: Run, given: Any) -> Any:
    if not callable(function):
        raise InvalidInputError(f"an agent is a class, a function or an object with `reply`, not {function!r}")
    own = {"run": run} if takes(function, "run") else {}
    if is_async(function):
        answer: Any = function(given, **own)
        return _content(await answer)
    value = await in_thread(lambda: function(given, **own))  # in place it would hold up the lease of the run
    return _content(await value if inspect.isawaitable(value) else value)


def _message(given: Any) -> Message:
    return given if isinstance(given, Message) else Message(role="user", content=given)


def _content(answer: Any) -> Any:
    return answer.content if isinstance(answer, Message) else answer


def _by_name(given: Any, what: str) -> dict[str, Any]:
    if isinstance(given, Mapping):
        wrong = [each for each in given if not isinstance(each, str)]
        if wrong:
            raise InvalidInputError(f"{what} are found by name: {wrong[0]!r} is no text")
        return dict(given)
    return {_name_of(each, what): each for each in given}


def _name_of(each: Any, what: str) -> str:
    name = getattr(each, "name", None) or getattr(each, "__name__", None)
    if not isinstance(name, str):
        raise InvalidInputError(f"{what} without a name: pass them as a mapping, {{'name': {each!r}}}")
    return name


def _import_problem(name: str) -> str:
    try:
        _imported(name)
    except (ImportError, AttributeError) as exc:
        return f"{name!r} cannot be imported: {exc}"
    return ""


def _imported(name: str) -> Any:
    module, _, attribute = name.partition(":")
    value: Any = import_module(module)
    for part in attribute.split("."):
        value = getattr(value, part)
    return value
