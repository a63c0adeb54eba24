"""Plain functions whose calls are steps of the run they are made in."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from perdure.runtime.calling import Asked, call_step, call_tool
from perdure.runtime.options import Options, Policy, Retry, options_of
from perdure.runtime.scope import SCOPE

F = TypeVar("F", bound=Callable[..., Any])


@overload
def durable(function: F, /) -> F: ...
@overload
def durable(
    *,
    name: str | None = None,
    effects: bool = False,
    retry: Retry | int | None = None,
    timeout: float | None = None,
    repeatable: bool = False,
    unverified: Policy = "ask",
) -> Callable[[F], F]: ...
def durable(
    function: Any = None,
    /,
    *,
    name: str | None = None,
    effects: bool = False,
    retry: Retry | int | None = None,
    timeout: float | None = None,
    repeatable: bool = False,
    unverified: Policy = "ask",
) -> Any:
    """Make every call of a function, sync or async, a step of the run that is under way; elsewhere it is a plain call.

    With `effects` it is a tool: that it starts is recorded first. The other words are those of `run.options`.
    """
    options = options_of(retry=retry, timeout=timeout, repeatable=repeatable, unverified=unverified)

    def wrap(wrapped: Any) -> Any:
        return _wrapped(wrapped, name or wrapped.__qualname__, options, effects)

    return wrap if function is None else wrap(function)


def _wrapped(function: Any, name: str, options: Options, effects: bool) -> Any:
    call = call_tool if effects else call_step

    @functools.wraps(function)
    async def later(*args: Any, **named: Any) -> Any:
        scope = SCOPE.get()
        if scope is None:
            return await function(*args, **named)
        return await call(scope.run, options, Asked(name, function, args, named))

    @functools.wraps(function)
    def at_once(*args: Any, **named: Any) -> Any:
        scope = SCOPE.get()
        if scope is None:
            return function(*args, **named)
        return scope.run.runtime.work.drive(call(scope.run, options, Asked(name, function, args, named)))

    return later if inspect.iscoroutinefunction(function) else at_once
