"""Classes whose objects may be stored, each under a tag that outlives its name.

Stored data names a tag, never a module or a class: nothing is imported because of what a database says.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum, Flag
from types import ModuleType
from typing import Any, cast

import msgspec

from perdure.core.errors import InvalidInputError, UnknownTypeError

_REPLACED = 1000  # classes that others took the place of
Fields = dict[str, Any]
Upcast = Callable[[Fields], Fields]


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """A registered class: how it is named, taken apart and built again."""

    cls: type
    tag: str
    version: int
    upcast: Mapping[int, Upcast]
    fields: Callable[[Any], Fields]
    build: Callable[[Fields], Any]
    like: Callable[[Fields], Callable[[Fields], Any] | None] | None = None  # for many like one, whose fields it tidies

    def upgraded(self, fields: Fields, version: int) -> Fields:
        """Bring the fields of an older version to this one, one step at a time."""
        for step in range(version, self.version):
            if step not in self.upcast:
                raise InvalidInputError(
                    f"type {self.tag!r}: stored version {version} cannot be read as {self.version}; "
                    f"register it with upcast={{{step}: function_from_{step}_to_{step + 1}}}"
                )
            try:
                fields = self.upcast[step](fields)
            except Exception as exc:
                raise InvalidInputError(
                    f"type {self.tag!r}: its upcast from {step} to {step + 1} raised {exc!r}"
                ) from exc
        return fields


class Registry:
    """The classes this process knows."""

    def __init__(self) -> None:
        self._by_class: dict[type, Kept] = {}
        self._by_tag: dict[str, Kept] = {}
        self._replaced: list[type] = []
        self.decode: Callable[[Any], Any] | None = None  # the codec's, with these classes

    def add(self, kept: Kept) -> None:
        """Add a class; the same tag for two classes is refused."""
        known = self._by_tag.get(kept.tag)
        if known is not None and not _same_class(known.cls, kept.cls):
            raise InvalidInputError(f"tag {kept.tag!r} belongs to {known.cls.__qualname__}; register with another tag=")
        if known is not None and known.cls is not kept.cls:
            self._replace(known.cls)
        self._by_class[kept.cls] = self._by_tag[kept.tag] = kept

    def _replace(self, cls: type) -> None:
        """A class was made again, as one inside of a function is at each call: the last ones of them may be in use."""
        self._replaced.append(cls)
        if len(self._replaced) > _REPLACED:
            self._by_class.pop(self._replaced.pop(0), None)

    def of(self, cls: type) -> Kept | None:
        """The registration of exactly this class."""
        return self._by_class.get(cls)

    def classes(self) -> list[type]:
        """All of them."""
        return list(self._by_class)

    def tagged(self, tag: str, version: int) -> Kept:
        """The registration of a stored tag; raise `UnknownTypeError` when there is none."""
        kept = self._by_tag.get(tag)
        if kept is None:
            raise UnknownTypeError(tag, version)
        if version > kept.version:
            raise InvalidInputError(
                f"type {tag!r}: stored version {version} is newer than the registered {kept.version}; upgrade it"
            )
        return kept


REGISTRY = Registry()


def register(
    target: type | ModuleType,
    *,
    tag: str | None = None,
    version: int = 1,
    upcast: Mapping[int, Upcast] | None = None,
    registry: Registry = REGISTRY,
) -> Any:
    """Let objects of a class (or of every suitable class of a module) be part of a state.

    `tag` is the stored name and defaults to the class name; `upcast` maps an old version to the function that turns
    its fields into those of the next. Returns `target`, so it works as a decorator.
    """
    if not isinstance(target, type | ModuleType):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"register takes a class or a module, not {target!r}")
    if isinstance(target, ModuleType):
        if tag is not None:
            raise InvalidInputError("a tag belongs to one class; register a module without tag=")
        for cls in _classes_of(target):
            registry.add(_keep(cls, cls.__name__, version, upcast or {}))
        return target
    registry.add(_keep(target, tag or target.__name__, version, upcast or {}))
    return target


def taken_apart(value: object) -> Fields | None:
    """The fields of a dataclass, struct, pydantic model or named tuple; None for anything else."""
    ways = _ways(type(value))
    return ways[0](value) if ways else None


def _classes_of(module: ModuleType) -> list[type]:
    found = [each for each in vars(module).values() if isinstance(each, type) and each.__module__ == module.__name__]
    return [cls for cls in found if issubclass(cls, Enum) or _ways(cls)]


def _same_class(one: type, other: type) -> bool:
    return one.__module__ == other.__module__ and one.__qualname__ == other.__qualname__


def _keep(cls: type, tag: str, version: int, upcast: Mapping[int, Upcast]) -> Kept:
    if type(version) is not int or version < 1:
        raise InvalidInputError(f"version of {tag!r} must be an int from 1 on, not {version!r}")
    is_enum, is_pydantic = issubclass(cls, Enum), _is_pydantic(cls)
    ways = (_enum_fields, lambda fields: _member(cls, fields)) if is_enum else _ways(cls)
    if ways is None:
        raise InvalidInputError(
            f"{cls.__qualname__} is not a dataclass, pydantic model, enum, msgspec struct or named tuple; "
            "turn it into one, or keep its fields in a dict"
        )
    like = _pydantic_like(cls) if is_pydantic else None
    return Kept(cls=cls, tag=tag, version=version, upcast=upcast, fields=ways[0], build=ways[1], like=like)


def _enum_fields(value: Enum) -> Fields:
    return {"value": value.value} if isinstance(value, Flag) else {"name": value.name}


def _member(cls: type[Enum], fields: Fields) -> Enum:
    try:
        return cls(fields["value"]) if "value" in fields else cls[fields["name"]]
    except (KeyError, ValueError) as exc:
        raise InvalidInputError(
            f"stored {cls.__name__} has no member {fields!r} any more; register it with upcast="
        ) from exc


def _ways(cls: type) -> tuple[Callable[[Any], Fields], Callable[[Fields], Any]] | None:
    if hasattr(cls, "__dataclass_fields__"):
        return _dataclass_ways(cls)
    if issubclass(cls, msgspec.Struct):
        return _struct_ways(cls)
    if _is_pydantic(cls):
        return _pydantic_ways(cls)
    if issubclass(cls, tuple) and hasattr(cls, "_fields"):
        named = cast("Any", cls)
        return (lambda value: value._asdict()), (lambda fields: named(**fields))
    return None


def _dataclass_ways(cls: Any) -> tuple[Callable[[Any], Fields], Callable[[Fields], Any]]:
    import dataclasses  # slow to import, and there is nothing to do with it before the first dataclass

    fields = dataclasses.fields(cls)

    def build(given: Fields) -> Any:
        made = object.__new__(cls)
        for field in fields:
            object.__setattr__(made, field.name, _given_or_default(cls, field, given))
        return made

    return (lambda value: {field.name: getattr(value, field.name) for field in fields}), build


def _given_or_default(cls: type, field: Any, given: Fields) -> Any:
    from dataclasses import MISSING

    if field.name in given:
        return given[field.name]
    if field.default is not MISSING:
        return field.default
    if field.default_factory is not MISSING:
        return field.default_factory()
    raise InvalidInputError(
        f"stored {cls.__name__} has no field {field.name!r}; give it a default, or register a new version with upcast="
    )


def _struct_ways(cls: type[msgspec.Struct]) -> tuple[Callable[[Any], Fields], Callable[[Fields], Any]]:
    def build(given: Fields) -> Any:
        try:
            return cls(**given)
        except TypeError as exc:
            raise InvalidInputError(f"stored {cls.__name__}: {exc}; register a new version with upcast=") from exc

    return (lambda value: {name: getattr(value, name) for name in cls.__struct_fields__}), build


def _is_pydantic(cls: type) -> bool:
    return hasattr(cls, "__pydantic_fields__") and hasattr(cls, "model_construct")


_SET, _PRIVATE = "model_fields_set", "model_private"  # pydantic keeps names starting with model_ for itself


def _pydantic_ways(cls: Any) -> tuple[Callable[[Any], Fields], Callable[[Fields], Any]]:
    def fields(value: Any) -> Fields:
        flat: Fields = {**value.__dict__, **(value.__pydantic_extra__ or {})}
        if value.model_fields_set != set(flat):
            flat[_SET] = sorted(value.model_fields_set)
        if value.__pydantic_private__:
            flat[_PRIVATE] = dict(value.__pydantic_private__)
        return flat

    def build(given: Fields) -> Any:
        flat = {name: value for name, value in given.items() if name not in (_SET, _PRIVATE)}
        fields_set = set(given.get(_SET, flat))
        if _is_bare(cls) and flat.keys() == cls.__pydantic_fields__.keys():
            return _made(cls, flat, fields_set, _takes_extra(cls))
        made = cls.model_construct(fields_set, **flat)
        for name, value in given.get(_PRIVATE, {}).items():
            setattr(made, name, value)
        return made

    return fields, build


def _is_bare(cls: Any) -> bool:
    """Nothing but fields: no attributes of its own that making it would have to set."""
    return not cls.__private_attributes__ and not cls.__pydantic_post_init__


def _takes_extra(cls: Any) -> bool:
    return cls.model_config.get("extra") == "allow"


_put = object.__setattr__


def _made(cls: Any, flat: Fields, fields_set: set[str], takes_extra: bool) -> Any:
    """What `model_construct` makes of all fields, which takes it ten times as long."""
    made = cls.__new__(cls)
    _put(made, "__dict__", flat)
    _put(made, "__pydantic_fields_set__", fields_set)
    _put(made, "__pydantic_extra__", {} if takes_extra else None)
    _put(made, "__pydantic_private__", None)
    return made


def _pydantic_like(cls: Any) -> Callable[[Fields], Callable[[Fields], Any] | None]:
    """What is looked at once for all objects that have the same fields; the dicts they are given become theirs."""

    def like(sample: Fields) -> Callable[[Fields], Any] | None:
        names = sample.keys() - {_SET}
        if not _is_bare(cls) or names != cls.__pydantic_fields__.keys():
            return None
        given, takes_extra = set(sample.pop(_SET, names)), _takes_extra(cls)
        return lambda flat: _made(cls, flat, given.copy(), takes_extra)

    return like
