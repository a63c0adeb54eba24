"""Functions as tools of an agent."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar, overload

import msgspec
from msgspec.structs import replace

from perdure.core.errors import InvalidInputError
from perdure.runtime.agents.model import ToolSchema
from perdure.runtime.agents.schema import Parameters
from perdure.runtime.approving import check_prompt
from perdure.runtime.options import Policy, Retry, options_of
from perdure.runtime.work import is_async

F = TypeVar("F", bound=Callable[..., Any])
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class Tool:
    """A function that an agent's model may ask for; calling it calls the function."""

    def __init__(
        self,
        function: Callable[..., Any],
        *,
        require_approval: bool = False,
        repeatable: bool = False,
        approval_prompt: str | None = None,
        who: str | Sequence[str] | None = None,
        approvals: int = 1,
        remind: timedelta | float | None = None,
        escalate: Mapping[str, Any] | None = None,
        name: str | None = None,
        timeout: float | timedelta | None = None,
        retry: Retry | int | None = None,
        unverified: Policy = "ask",
    ) -> None:
        if not callable(function):
            raise InvalidInputError(f"a tool is a function, not {function!r}")
        functools.update_wrapper(self, function)
        self.function = function
        self._given: dict[str, Any] = {
            "require_approval": require_approval, "repeatable": repeatable, "approval_prompt": approval_prompt,
            "who": who, "approvals": approvals, "name": name, "timeout": timeout, "retry": retry,
            "unverified": unverified, "remind": remind, "escalate": escalate,
        }  # fmt: skip
        self.name = _checked(name or _name_of(function))
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise InvalidInputError(f"tool {self.name!r}: a generator has no one result; return a list")
        if timeout is not None and not is_async(function):
            raise InvalidInputError(
                f"tool {self.name!r}: a plain function cannot be stopped after a timeout, its effect would come later; "
                "make it async, or give what it calls a timeout of its own"
            )
        self.parameters = Parameters(function, self.name)
        options = options_of(
            retry=retry, timeout=timeout, repeatable=repeatable, unverified=unverified,
            require_approval=require_approval, approval_prompt=approval_prompt, who=who,
            approvals=approvals, remind=remind, escalate=escalate,
        )  # fmt: skip
        if approval_prompt is not None:
            check_prompt(approval_prompt, function, (), self.name)
        # Whoever decides may edit the arguments: the schema says which ones the tool takes.
        self.options = replace(options, shape=msgspec.json.encode(self.parameters.schema).decode())

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self.function(*args, **named)

    def __get__(self, instance: object, owner: type | None = None) -> Tool:
        """A method as a tool of its object: `self` is not for the model to give."""
        if instance is None or not hasattr(self.function, "__get__"):
            return self
        return Tool(self.function.__get__(instance, owner), **self._given)

    def __repr__(self) -> str:
        return f"Tool({self.name!r})"

    @property
    def is_unbound(self) -> bool:
        """Whether it is a method without its object."""
        return (
            inspect.isfunction(self.function) and next(iter(inspect.signature(self.function).parameters), "") == "self"
        )

    @property
    def description(self) -> str:
        """What the model is told: the docstring without its sections."""
        return self.parameters.description.text

    @property
    def schema(self) -> ToolSchema:
        """The tool as a model is told of it."""
        return ToolSchema(name=self.name, description=self.description, parameters=self.parameters.schema)


@overload
def tool(function: Callable[..., Any], /) -> Tool: ...
@overload
def tool(
    *,
    require_approval: bool = False,
    repeatable: bool = False,
    approval_prompt: str | None = None,
    who: str | Sequence[str] | None = None,
    approvals: int = 1,
    remind: timedelta | float | None = None,
    escalate: Mapping[str, Any] | None = None,
    name: str | None = None,
    timeout: float | timedelta | None = None,
    retry: Retry | int | None = None,
    unverified: Policy = "ask",
) -> Callable[[Callable[..., Any]], Tool]: ...
def tool(
    function: Any = None,
    /,
    *,
    require_approval: bool = False,
    repeatable: bool = False,
    approval_prompt: str | None = None,
    who: str | Sequence[str] | None = None,
    approvals: int = 1,
    remind: timedelta | float | None = None,
    escalate: Mapping[str, Any] | None = None,
    name: str | None = None,
    timeout: float | timedelta | None = None,
    retry: Retry | int | None = None,
    unverified: Policy = "ask",
) -> Any:
    """Make a function, sync or async, a tool of agents: `@perdure.tool` or `@perdure.tool(require_approval=True)`.

    The model is told its name, its docstring and its parameters; what it gives is checked against their annotations.
    Parameters called `run` and `idempotency_key` are filled in and not shown. With `require_approval` somebody is asked
    first, in the words of `approval_prompt` ("Execute: {command}?"), and only those whom `who` names may decide; with
    `approvals=2` two different people have to approve. A `repeatable` tool may run twice: after a crash nobody is asked
    about it. The other words are those of `run.options`.
    """

    def made(wrapped: Callable[..., Any]) -> Tool:
        return Tool(
            wrapped, require_approval=require_approval, repeatable=repeatable, approval_prompt=approval_prompt, who=who,
            approvals=approvals, remind=remind, escalate=escalate, name=name, timeout=timeout, retry=retry,
            unverified=unverified,
        )  # fmt: skip

    return made if function is None else made(function)


def tools_of(given: object) -> dict[str, Tool]:
    """The tools of an agent by name; plain functions are tools too."""
    if not isinstance(given, list | tuple):
        raise InvalidInputError(f"tools must be a list of functions, not {given!r}")
    found: dict[str, Tool] = {}
    for each in given:
        made = each if isinstance(each, Tool) else Tool(each)
        if made.is_unbound:
            raise InvalidInputError(
                f"tool {made.name!r} is a method of a class; give that of an object: tools=[it.{made.name}]"
            )
        if made.name in found:
            raise InvalidInputError(f"there are two tools {made.name!r}; give one another name: @tool(name=…)")
        found[made.name] = made
    return found


def _name_of(function: Callable[..., Any]) -> str:
    """The name of a function, or of the one that a `functools.partial` calls; of another object that of its class."""
    while isinstance(function, functools.partial):
        function = function.func
    return getattr(function, "__name__", type(function).__name__)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidInputError(
            f"tool {name!r}: models take names of letters, digits, _ and -, up to 64; give one: @tool(name=…)"
        )
    return name
