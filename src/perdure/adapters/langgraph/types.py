"""The classes whose objects may stand in a graph's state: LangChain's, LangGraph's, and those of the graph's schema.

They are known here before anything is read: a database names tags, and a tag that nobody allowed builds nothing.
"""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import ipaddress
import re
import sys
import types
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from functools import cache
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints
from zoneinfo import ZoneInfo

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.registry import REGISTRY, Fields, Kept, register

_ADDRESSES = ("IPv4Address", "IPv4Interface", "IPv4Network", "IPv6Address", "IPv6Interface", "IPv6Network")
_LANGGRAPH = ("Send", "Interrupt", "Command", "Overwrite", "TimeoutPolicy", "CachePolicy", "RetryPolicy")


class Opaque(NamedTuple):
    """A value that a serializer of the user's turned into bytes."""

    type: str
    data: bytes


@cache
def allow_known() -> None:
    """Allow what LangGraph and LangChain put into states themselves."""
    from langchain_core import documents, messages
    from langgraph import types as graph
    from langgraph.checkpoint.serde.types import _DeltaSnapshot

    for name in dir(messages):
        cls = getattr(messages, name)
        if isinstance(cls, type) and name.endswith(("Message", "MessageChunk")):
            _add(cls, f"langchain:{cls.__name__}")
    _add(documents.Document, "langchain:Document")
    for name in _LANGGRAPH:
        cls = getattr(graph, name, None)
        if cls is not None:
            _add(cls, f"langgraph:{name}", _slots(cls) if name == "Send" else None)
    _add(_DeltaSnapshot, "langgraph:DeltaSnapshot")
    _add(Opaque, "langgraph:opaque")
    _allow_plain()


def _allow_plain() -> None:
    """Types of the standard library that LangGraph's own serializer keeps."""
    _add(
        deque,
        "deque",
        (lambda items: {"items": list(items), "maxlen": items.maxlen}, lambda made: deque(**_deque(made))),
    )
    _add(re.Pattern, "re.Pattern", (_pattern, lambda made: re.compile(made["pattern"], made["flags"])))
    _add(ZoneInfo, "ZoneInfo", (lambda zone: {"key": zone.key}, lambda made: ZoneInfo(made["key"])))
    for name in _ADDRESSES:
        cls = getattr(ipaddress, name)
        _add(cls, f"ipaddress:{name}", (lambda value: {"text": str(value)}, lambda made, cls=cls: cls(made["text"])))


def _deque(made: Fields) -> dict[str, Any]:
    return {"iterable": made["items"], "maxlen": made["maxlen"]}


def _pattern(pattern: re.Pattern[Any]) -> Fields:
    return {"pattern": pattern.pattern, "flags": pattern.flags}


Ways = tuple[Callable[[Any], Fields], Callable[[Fields], Any]]


def _slots(cls: Any) -> Ways:
    names = cls.__slots__

    def build(given: Fields) -> Any:
        made = object.__new__(cls)
        for name in names:
            setattr(made, name, given.get(name))
        return made

    return (lambda value: {name: getattr(value, name) for name in names}), build


def _add(cls: type, tag: str, ways: Ways | None = None) -> None:
    if REGISTRY.of(cls) is not None:
        return  # the user registered it under a tag of its own
    if ways is None:
        register(cls, tag=tag)
    else:
        REGISTRY.add(Kept(cls=cls, tag=tag, version=1, upcast={}, fields=ways[0], build=ways[1]))


def allow(schemas: Iterable[Any]) -> None:
    """Allow classes, and those that stand in the annotations of their fields, however deep."""
    seen: set[int] = set()
    waiting = list(schemas)
    while waiting:
        each = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            waiting += _inside(each)


def _inside(annotation: Any) -> list[Any]:
    """Allow a class; return what stands in its fields, or in the parts of an annotation."""
    if get_origin(annotation) is Annotated:
        return [get_args(annotation)[0]]
    if not isinstance(annotation, type) or isinstance(annotation, types.GenericAlias):
        return list(get_args(annotation))
    if annotation.__module__ in ("builtins", "typing", "collections.abc") or not _is_data(annotation):
        return []
    if not is_typed_dict(annotation):
        _add(annotation, f"{annotation.__module__}:{annotation.__qualname__}")
    if issubclass(annotation, Enum):
        return []
    try:
        return list(get_type_hints(annotation, include_extras=True).values())
    except (NameError, TypeError):
        # Annotations that are texts about classes of a function: pydantic looked them up where the class was made. Of
        # others nothing is known; their class is named when one of its objects is refused.
        fields = getattr(annotation, "__pydantic_fields__", {})
        return [field.annotation for field in fields.values()]


def is_typed_dict(cls: type) -> bool:
    """Whether it only describes dicts."""
    return issubclass(cls, dict) and hasattr(cls, "__total__")


def _is_data(cls: type) -> bool:
    fields = ("__dataclass_fields__", "model_fields", "_fields")
    return is_typed_dict(cls) or issubclass(cls, Enum | msgspec.Struct) or any(hasattr(cls, name) for name in fields)


def allow_named(names: Iterable[tuple[str, ...]]) -> None:
    """Allow classes by module and name, as a graph that is compiled tells them. Nothing is imported for it."""
    for name in names:
        cls: Any = sys.modules.get(name[0])
        for part in ".".join(name[1:]).split("."):
            cls = getattr(cls, part, None)
        if isinstance(cls, type):
            try:
                allow([cls])
            except InvalidInputError:
                continue  # two classes of one name: the first stands
