"""Messages: frozen all the way down, so that a list of them is saved by what was added."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NoReturn, Self

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


CALL_BLOCKS = ("tool_use", "tool_call")  # blocks of a content that ask for a tool
_makers: list[Callable[[], str]] = []


def name_with(maker: Callable[[], str]) -> None:
    """Let messages that are made by `text_message` and its siblings get ids of this maker."""
    _makers[:] = [maker]


class Message(msgspec.Struct, frozen=True):
    """One message of a conversation. Of two with the same id in a thread, the later one takes the earlier's place."""

    role: str
    content: Any
    tools_calls: Iterable[Any] = ()
    metadata: Mapping[str, Any] = {}
    id: str | None = None

    @classmethod
    def text_message(
        cls, text: str, role: str = "user", *, metadata: Mapping[str, Any] | None = None, id: str | None = None
    ) -> Self:
        """A message of plain text, with an id of its own unless one is given."""
        return cls(role=role, content=text, metadata=metadata or {}, id=id or _new_id())

    @classmethod
    def tool_message(
        cls, call_id: str, content: Any, *, is_error: bool = False, metadata: Mapping[str, Any] | None = None
    ) -> Self:
        """The result of a tool call."""
        told = {**(metadata or {}), "tool_call_id": call_id, **({"is_error": True} if is_error else {})}
        return cls(role="tool", content=content, metadata=told, id=_new_id())

    @property
    def message_id(self) -> str | None:
        """The id, under its longer name."""
        return self.id

    def text(self) -> str:
        """What it says: its content, or the texts of its blocks, one a line."""
        return "\n".join(texts(self.content))

    def __post_init__(self) -> None:
        if type(self.role) is not str:
            raise UnsupportedValueError("message.role", f"{type(self.role).__name__} is not a str")
        for name in ("content", "tools_calls", "metadata"):
            msgspec.structs.force_setattr(self, name, frozen(getattr(self, name)))


def _new_id() -> str | None:
    return _makers[0]() if _makers else None


def texts(content: Any, depth: int = 20) -> Iterator[str]:
    """The texts in a content: itself, or those of its blocks. A block of another type, such as a picture, has none."""
    if isinstance(content, str):
        yield content
    elif depth and isinstance(content, list | tuple):
        for block in content:
            yield from texts(block, depth - 1)
    elif depth and isinstance(content, Mapping):
        parts = [content[name] for name in ("text", "content", "output") if name in content]
        for part in content.values() if not parts and "type" not in content else parts:
            yield from texts(part, depth - 1)


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
