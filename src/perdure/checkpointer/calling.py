"""What every call of a checkpointer has in common: it is counted, timed, waited for at the end, and has a twin."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="Caller")
_COUNTED = "__perdure_counted__"
Method = Callable[Concatenate[S, P], Coroutine[Any, Any, T]]


class Caller(Protocol):
    """A checkpointer, as far as its calls are concerned."""

    def _called(self, name: str | None, work: Coroutine[Any, Any, T]) -> Coroutine[Any, Any, T]: ...

    def _drive(self, work: Coroutine[Any, Any, T]) -> T: ...


def operation(method: Method[S, P, T]) -> Method[S, P, T]:
    """An asynchronous call. It counts from the moment it is made: `asyncio.create_task(…)` and a release right after
    it lose nothing.
    """
    return _counted(method, method.__name__.removeprefix("a"))


def _counted(method: Method[S, P, T], name: str | None) -> Method[S, P, T]:
    @functools.wraps(method)
    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return self._called(name, method(self, *args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    if hasattr(inspect, "markcoroutinefunction"):
        inspect.markcoroutinefunction(call)  # type: ignore[attr-defined]
    vars(call)[_COUNTED] = True
    return call


def count_overrides(cls: type) -> None:
    """Let what a subclass puts in the place of a call count like the call."""
    for name, method in list(vars(cls).items()):
        is_call = any(hasattr(vars(base).get(name), _COUNTED) for base in cls.__mro__[1:])
        if is_call and inspect.iscoroutinefunction(method) and not hasattr(method, _COUNTED):
            setattr(cls, name, _counted(method, None))


def twin(method: Method[S, P, T]) -> Callable[Concatenate[S, P], T]:
    """The same call for synchronous code, an override in a subclass included."""
    name = method.__name__

    def call(self: S, *args: P.args, **kwargs: P.kwargs) -> T:
        return self._drive(getattr(self, name)(*args, **kwargs))  # pyright: ignore[reportPrivateUsage]

    call.__name__ = name.removeprefix("a")
    call.__doc__ = f"`{name}` for synchronous code."
    call.__signature__ = inspect.signature(method)  # type: ignore[attr-defined]
    return call
