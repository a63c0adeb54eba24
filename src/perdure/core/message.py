"""Messages: frozen all the way down, so that a list of them is saved by what was added."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NoReturn

import msgspec

from perdure.core.errors import UnsupportedValueError
from perdure.core.registry import REGISTRY, Kept


class FrozenDict(dict[str, Any]):
    """A dict that cannot change once made; equal to a dict with the same content."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("this mapping is frozen; copy it with dict(…) to change it")

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenDict, (dict(self),)  # copying and unpickling would fill an empty one

    __setitem__ = __delitem__ = clear = pop = popitem = setdefault = update = __ior__ = _refuse  # type: ignore[assignment]


class FrozenList(list[Any]):
    """A list that cannot change once made; equal to a list with the same content."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise TypeError("this list is frozen; copy it with list(…) to change it")

    def __reduce__(self) -> tuple[Any, ...]:
        return FrozenList, (list(self),)

    append = extend = insert = pop = remove = clear = sort = reverse = _refuse  # type: ignore[assignment]
    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse  # type: ignore[assignment]


def frozen(value: Any) -> Any:
    """A deeply frozen copy of plain data."""
    if isinstance(value, dict):
        return FrozenDict((key, frozen(child)) for key, child in value.items())
    if isinstance(value, list | tuple):
        return FrozenList(map(frozen, value))
    return value


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation."""

    role: str
    content: Any
    tools_calls: Iterable[Any] = ()
    metadata: Mapping[str, Any] = {}
    id: str | None = None

    def __post_init__(self) -> None:
        if type(self.role) is not str:
            raise UnsupportedValueError("message.role", f"{type(self.role).__name__} is not a str")
        for name in ("content", "tools_calls", "metadata"):
            msgspec.structs.force_setattr(self, name, frozen(getattr(self, name)))


def thawed(value: Any) -> Any:
    """A plain copy of frozen data."""
    if isinstance(value, dict):
        return {key: thawed(child) for key, child in value.items()}
    if isinstance(value, list):
        return list(map(thawed, value))
    return value


def _fields(message: Message) -> dict[str, Any]:
    return {name: thawed(getattr(message, name)) for name in Message.__struct_fields__}


REGISTRY.add(
    Kept(
        cls=Message,
        tag="perdure.Message",
        version=1,
        upcast={},
        fields=_fields,
        build=lambda fields: Message(**fields),
    )
)
