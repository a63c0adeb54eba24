"""What a model is told of a function: its parameters as a JSON schema, and its docstring."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import msgspec

from perdure.core.errors import InvalidInputError

FILLED_IN = ("run", "idempotency_key")  # by us: a model does not see them
_SECTION = re.compile(r"^(\w[\w ]*):\s*$")
_ITEM = re.compile(r"^\s+\*{0,2}(\w+)\s*(?:\([^)]*\))?:\s*(.+)$")
_FIELD = re.compile(r"^\s*:param\s+(?:[^:]*\s)?(\w+):\s*(.+)$")
_PARAMETERS = ("args", "arguments", "parameters")


class Described(msgspec.Struct, frozen=True):
    """A docstring, taken apart."""

    text: str
    parameters: dict[str, str]


class Parameters:
    """The parameters of a function: told to a model, and checked when it gives them."""

    def __init__(self, function: Callable[..., Any], name: str) -> None:
        found = _parameters(function, name)
        self.description = described(inspect.getdoc(_told_of(function)) or "")
        self.filled_in = frozenset(each for each in FILLED_IN if each in found)
        shown = {key: each for key, each in found.items() if key not in FILLED_IN}
        self._struct = _struct(name, function, shown, self.description.parameters)
        self.schema = _schema(name, self._struct, shown)
        self._defaults = _defaults(function, shown)

    def with_defaults(self, args: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call as a person is shown them: those that the model left out have their defaults.

        A default that has no plain form is left to the function.
        """
        return {**args, **{key: each for key, each in self._defaults.items() if key not in args}}

    def fitted(self, args: Any) -> dict[str, Any]:
        """The arguments as they were given, with whole numbers such as 3.0 as 3 where the function takes an int.

        JSON has one type of numbers. Raises `InvalidInputError` in words that a model can act on.
        """
        if not isinstance(args, Mapping):
            raise InvalidInputError(f"the arguments must be a JSON object, not {_short(args)}")
        given = dict(args)
        try:
            self._converted(given)
        except (msgspec.ValidationError, ValueError) as exc:  # a pydantic model raises a ValueError
            whole = _whole(given)
            try:
                self._converted(whole)
            except ValueError:
                raise InvalidInputError(str(exc)) from exc
            return whole
        return given

    def _converted(self, args: dict[str, Any]) -> msgspec.Struct:
        return msgspec.convert(args, self._struct, dec_hook=_built)

    def convert(self, args: Any) -> dict[str, Any]:
        """The arguments as the function takes them; raise `InvalidInputError` as `fitted` does."""
        made = self._converted(self.fitted(args))
        given = ((key, getattr(made, key)) for key in self._struct.__struct_fields__)
        return {key: value for key, value in given if value is not msgspec.UNSET}


def described(doc: str) -> Described:
    """The text of a docstring up to its sections, and what it says of parameters (Google's form, or `:param x:`)."""
    text: list[str] = []
    parameters: dict[str, str] = {}
    section = ""
    for line in doc.splitlines():
        head, field = _SECTION.match(line), _FIELD.match(line)
        if head or field:
            section = head[1].lower() if head else "field"
        item = field or (_ITEM.match(line) if section in _PARAMETERS else None)
        if item:
            parameters[item[1]] = item[2].strip()
        elif not section:
            text.append(line)
    return Described("\n".join(text).strip(), parameters)


def _told_of(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function that has the annotations and the docstring: of a `functools.partial`, or of an object's call."""
    while isinstance(function, functools.partial):
        function = function.func
    plain = inspect.isroutine(function) or inspect.isclass(function)
    return function if plain else type(function).__call__


def _parameters(function: Callable[..., Any], name: str) -> dict[str, inspect.Parameter]:
    found = dict(inspect.signature(function).parameters)
    for each in found.values():
        if each.kind not in (each.POSITIONAL_OR_KEYWORD, each.KEYWORD_ONLY):
            raise InvalidInputError(f"tool {name!r}: a model gives arguments by name, it cannot give {each}")
    return found


def _struct(
    name: str, function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter], told: Mapping[str, str]
) -> type[msgspec.Struct]:
    try:
        hints = get_type_hints(_told_of(function), include_extras=True)
    except NameError as exc:
        raise InvalidInputError(f"tool {name!r}: an annotation cannot be read: {exc}") from exc
    fields: list[Any] = []
    for key, each in parameters.items():
        kind = _with_description(hints.get(key, Any), told.get(key))
        required = each.default is each.empty
        fields.append((key, kind) if required else (key, kind | msgspec.UnsetType, msgspec.UNSET))
    return msgspec.defstruct(name, fields, kw_only=True, forbid_unknown_fields=True)


def _defaults(function: Callable[..., Any], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    """The defaults in the form that a model would give them."""
    hints = get_type_hints(_told_of(function), include_extras=True)
    given = {key: each.default for key, each in parameters.items() if each.default is not each.empty}
    plain = {key: _plain(hints.get(key, Any), default) for key, default in given.items()}
    return {key: each for key, each in plain.items() if each is not msgspec.UNSET}


def _plain(kind: Any, default: Any) -> Any:
    """A default in plain form; `UNSET` where it would not come back as what it is."""
    try:
        dumped = hasattr(default, "model_dump")
        plain: Any = default.model_dump(mode="json") if dumped else msgspec.to_builtins(default)
        return plain if msgspec.convert(plain, kind, dec_hook=_built) == default else msgspec.UNSET
    except (TypeError, ValueError, RecursionError):
        return msgspec.UNSET


def _with_description(kind: Any, told: str | None) -> Any:
    """`Annotated[int, "how many"]` describes a parameter as its docstring does."""
    if get_origin(kind) is Annotated:
        words = [each for each in get_args(kind)[1:] if isinstance(each, str)]
        told = words[0] if words else told
    return Annotated[kind, msgspec.Meta(description=told)] if told else kind


def _schema(name: str, struct: type[msgspec.Struct], parameters: Mapping[str, inspect.Parameter]) -> dict[str, Any]:
    try:
        (root,), parts = msgspec.json.schema_components([struct], schema_hook=_custom, ref_template="#/$defs/{name}")
    except TypeError as exc:
        raise InvalidInputError(f"tool {name!r}: a parameter has no JSON schema: {exc}") from exc
    schema: dict[str, Any] = parts.pop(root["$ref"].removeprefix("#/$defs/"))
    schema.pop("title", None)
    for key, shown in schema["properties"].items():
        default = parameters[key].default
        if isinstance(default, str | int | float | bool) and "$ref" not in shown:
            shown["default"] = default
    return {**schema, "$defs": parts} if parts else schema


def _custom(kind: type) -> dict[str, Any]:
    """The schema of a pydantic model; other classes have none, which msgspec wants to be told by this error."""
    if hasattr(kind, "model_json_schema"):
        return kind.model_json_schema()  # type: ignore[attr-defined]
    raise NotImplementedError


def _whole(value: Any) -> Any:
    """A value with its whole numbers as ints."""
    if isinstance(value, dict):
        return {key: _whole(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_whole(each) for each in value]
    return int(value) if type(value) is float and value.is_integer() else value


def _built(kind: type, value: Any) -> Any:
    if hasattr(kind, "model_validate"):
        return kind.model_validate(value)  # type: ignore[attr-defined]
    raise NotImplementedError


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}…"
