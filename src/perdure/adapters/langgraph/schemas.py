"""The classes that a graph makes known when it is compiled: those of its schemas, and of the answers that it asks for.

Any process that compiles the same graph knows the same classes, so what one of them keeps the next one can read. The
classes come from the graph, never from what is stored.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import CodeType, FunctionType, ModuleType
from typing import Any

from perdure.adapters.langgraph.types import allow

_ANSWER = "response_schema"  # the argument of `interrupt` that says what an answer is
_FUNCTIONS = 1000  # that are looked at for one graph
_OBJECTS = 20_000  # that are looked at for functions
_INSIDE = (
    "func",
    "afunc",
    "coroutine",
    "_run",
    "_arun",
    "__wrapped__",
    "__func__",
)  # where runnables and tools have code
_HEARD = "__perdure_heard__"


def hear_of_schemas() -> None:
    """Have every graph that is compiled make its classes known."""
    from langgraph import func, graph

    _before(graph.StateGraph, "compile", _of_graph)
    _before(func.entrypoint, "__call__", _of_entrypoint)
    try:
        from langgraph._internal import _serde
    except ImportError:
        return
    # Compiled graphs then limit LangGraph's own serializer, too, where a saver is given one (`with_allowlist`).
    if hasattr(_serde, "STRICT_MSGPACK_ENABLED"):
        _serde.STRICT_MSGPACK_ENABLED = True


def _before(cls: Any, name: str, hear: Callable[..., None]) -> None:
    inner = getattr(cls, name)
    if hasattr(inner, _HEARD):
        return

    @wraps(inner)
    def outer(self: Any, *args: Any, **kwargs: Any) -> Any:
        hear(self, *args)
        return inner(self, *args, **kwargs)

    setattr(outer, _HEARD, True)
    setattr(cls, name, outer)


def _of_graph(builder: Any, *_: Any) -> None:
    nodes = list(builder.nodes.values())
    branches = [each for group in builder.branches.values() for each in group.values()]
    schemas = [getattr(builder, f"{each}_schema", None) for each in ("state", "input", "output", "context")]
    allow([*schemas, *builder.schemas, *(each.input_schema for each in (*nodes, *branches))])
    allow(answers_of([each.runnable for each in nodes]))


def _of_entrypoint(entrypoint: Any, function: Any, *_: Any) -> None:
    allow([getattr(entrypoint, "context_schema", None), *getattr(function, "__annotations__", {}).values()])
    allow(answers_of([function]))


def answers_of(runnables: Iterable[Any]) -> list[Any]:
    """The classes that the code of a graph names where it asks for an answer with a `response_schema`."""
    found: list[Any] = []
    for function in _functions(runnables):
        named = list(_named(function))
        if any(_ANSWER in _constants(code) for code in _codes(function.__code__)):
            found += named
    return found


def _functions(runnables: Iterable[Any]) -> Iterator[FunctionType]:
    """The functions of nodes and tools, and those of the same package that they name."""
    seen: dict[int, Any] = {}  # the objects too: an id may be used again after its object is gone
    waiting = list(runnables)
    count = 0
    while waiting and count < _FUNCTIONS and len(seen) < _OBJECTS:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen[id(each)] = each
        if not isinstance(each, FunctionType):
            waiting += _parts(each)
            continue
        count += 1
        yield each
        waiting += [each.__dict__.get("__wrapped__")]
        waiting += [other for other in _named(each) if _is_near(other, each)]


def _parts(runnable: Any) -> list[Any]:
    if isinstance(runnable, type | ModuleType):
        return []
    tools = _attribute(runnable, "tools_by_name")
    found = list(tools.values()) if isinstance(tools, Mapping) else []
    found += [_attribute(runnable, name) for name in _INSIDE]
    if not found and callable(runnable):
        found.append(type(runnable).__call__)
    return found


def _attribute(value: Any, name: str) -> Any:
    """An attribute that is really there: a mock or a proxy makes a new one for every name, and so on without an end."""
    try:
        inspect.getattr_static(value, name)
        return getattr(value, name, None)
    except Exception:  # a property may raise anything
        return None


def _is_near(other: Any, function: FunctionType) -> bool:
    packages = [str(getattr(each, "__module__", "")).partition(".")[0] for each in (other, function)]
    return callable(other) and not isinstance(other, type) and packages[0] == packages[1]


def _named(function: FunctionType) -> Iterator[Any]:
    """What a function reaches from outside of itself: captured values, globals it names, and what modules have."""
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:
            continue  # a cell that is not filled yet: a function that names itself
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    reached = [function.__globals__[name] for name in names if name in function.__globals__]
    yield from reached
    for module in reached:
        if isinstance(module, ModuleType):
            yield from (vars(module)[name] for name in names if name in vars(module))


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _codes(each)


def _constants(code: CodeType) -> set[Any]:
    """The names of arguments that calls in a function are given by name, among its other constants."""
    tuples = (each for each in code.co_consts if type(each) is tuple)
    return {name for each in tuples for name in each if type(name) is str}
