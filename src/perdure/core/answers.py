"""Which answer a pause expects, and whether one fits: the same rule wherever somebody decides."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal, get_origin

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.extras import check_releases, missing

AnswerKind = Literal["approval", "choice", "text", "form", "external"]
_KINDS: tuple[AnswerKind, ...] = ("approval", "text", "external")


class Expects(msgspec.Struct, array_like=True, frozen=True):
    """The answer that a pause expects."""

    kind: AnswerKind = "approval"
    choices: tuple[str, ...] = ()
    schema: str = ""  # of a form, as JSON

    @property
    def form(self) -> dict[str, Any]:
        """The JSON schema of a form."""
        return json.loads(self.schema) if self.schema else {}


APPROVAL = Expects()


def expects_of(expects: Any) -> Expects:
    """Read what code says: None, a list of choices, `str`, `Any`, a JSON schema, or a type whose fields are asked for.

    Raises `InvalidInputError` for what cannot be asked.
    """
    if expects is None or expects is bool:
        return APPROVAL
    if expects is str or expects is Any or expects is object:
        return Expects("text" if expects is str else "external")
    if isinstance(expects, str):
        return _named(expects)
    if isinstance(expects, Mapping):
        return _form(dict(expects))
    if isinstance(expects, Sequence):
        return _choice(expects)
    return _typed(expects)


def _named(word: str) -> Expects:
    if word not in _KINDS:
        raise InvalidInputError(f"expects takes {', '.join(map(repr, _KINDS))}, choices, a schema or a type: {word!r}")
    return Expects(word)


def _choice(choices: Sequence[Any]) -> Expects:
    given = tuple(choices)
    if not given or not all(isinstance(each, str) and each for each in given) or len(set(given)) < len(given):
        raise InvalidInputError(f"choices must be different words, at least one: {choices!r}")
    return Expects("choice", given)


def _typed(asked: Any) -> Expects:
    """A type: a choice where it is one of some words, else a form."""
    schema = _schema_of(asked)
    words = schema.get("enum")
    if isinstance(words, list) and words and all(isinstance(each, str) for each in words):
        return _choice(words)
    return _form(schema)


def _schema_of(asked: Any) -> dict[str, Any]:
    if hasattr(asked, "model_json_schema"):  # pydantic
        return asked.model_json_schema()
    is_type = isinstance(asked, type | types.UnionType) or get_origin(asked) is not None
    try:
        if is_type:
            (schema,), parts = msgspec.json.schema_components([asked])
            return {**_flat(schema, parts), "$defs": parts} if parts else schema
    except TypeError as exc:
        raise InvalidInputError(f"expects: no form can be made of {asked!r}: {exc}") from exc
    raise InvalidInputError(f"expects takes choices, str, a JSON schema or a type, not {asked!r}")


def _flat(schema: dict[str, Any], parts: Mapping[str, Any]) -> dict[str, Any]:
    """The schema itself where it only refers to one of its parts."""
    ref = schema.get("$ref", "")
    return parts.get(ref.removeprefix("#/$defs/"), schema)


def _form(schema: dict[str, Any]) -> Expects:
    text = _as_json(schema)
    validator = _validator(schema)
    try:
        validator.check_schema(schema)
    except Exception as exc:  # the library's own, which is only there with the library
        raise InvalidInputError(f"expects: not a JSON schema: {str(exc).splitlines()[0]}") from exc
    if (lost := misfit(schema, {}, "expects")) and "leads nowhere" in lost:
        raise InvalidInputError(lost)
    return Expects("form", (), text)


def _as_json(schema: dict[str, Any]) -> str:
    try:
        return json.dumps(schema, separators=(",", ":"), allow_nan=False)
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"expects: a JSON schema holds JSON only: {exc}") from exc


def plain(answer: Any) -> Any:
    """An answer as JSON has it: whoever holds the class may give an object."""
    if hasattr(answer, "model_dump"):
        return answer.model_dump(mode="json")
    is_object = isinstance(answer, msgspec.Struct) or (hasattr(answer, "__dataclass_fields__"))
    return msgspec.to_builtins(answer) if is_object else answer


def problem(expects: Expects, answer: Any, what: str = "answer") -> str | None:
    """Why an answer does not fit; None when it does."""
    if expects.kind == "choice":
        fits = isinstance(answer, str) and answer in expects.choices
        return None if fits else f"{what} must be one of {', '.join(map(repr, expects.choices))}, not {answer!r}"
    if expects.kind == "text":
        fits = isinstance(answer, str) and answer.strip()
        return None if fits else f"{what} must be a text, not {answer!r}"
    return misfit(expects.form, answer, what) if expects.kind == "form" else None


def misfit(schema: dict[str, Any], value: Any, what: str) -> str | None:
    """Why a value does not fit a JSON schema; None when it does."""
    known = _validator(schema)  # tells of the extra, if it is not there
    from referencing import Registry
    from referencing.exceptions import Unresolvable

    # An own registry: a `$ref` to an address would be fetched otherwise.
    checked = _strict(known)(schema, registry=Registry(), format_checker=_formats())
    try:
        told = [f"{what}{_place(error.absolute_path)}: {error.message}"[:200] for error in checked.iter_errors(value)]
    except (Unresolvable, RecursionError) as exc:
        return f"{what} cannot be checked: its schema leads nowhere ({type(exc).__name__})"
    return "; ".join(told[:3]) or None


def _validator(schema: Mapping[str, Any]) -> Any:
    try:
        from jsonschema.validators import Draft202012Validator, validator_for
    except ImportError as exc:
        raise missing("a form as the answer of a pause", "forms") from exc
    check_releases("a form as the answer of a pause", "forms")
    return validator_for(schema, default=Draft202012Validator)


@cache
def _strict(validator: Any) -> Any:
    """5.0 is an integer to JSON schema, and none to the code that asked for one."""
    from jsonschema.validators import extend

    types = validator.TYPE_CHECKER.redefine("integer", lambda _, value: type(value) is int)
    return extend(validator, type_checker=types)


@cache
def _formats() -> Any:
    from jsonschema import FormatChecker

    return FormatChecker(["date", "uuid"])  # those that need nothing more


def _place(path: Any) -> str:
    return "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in path)


def differences(before: Expects, now: Expects) -> list[str]:
    """What the code expects by now that was not expected when a question was asked."""
    if before == now:
        return []
    if before.kind != now.kind:
        return [f"it asked for {_said(before)}, now for {_said(now)}"]
    if now.kind == "choice":
        return [f"the choices were {', '.join(before.choices)}, now {', '.join(now.choices)}"]
    old, new = before.form, now.form
    if old == new:  # in another order
        return []
    fields = _changed("field", old.get("properties", {}), new.get("properties", {}))
    required = sorted(set(new.get("required", ())) - set(old.get("required", ())))
    return [*fields, *(f"field {name} is required now" for name in required)] or ["the form is another one now"]


def _said(expects: Expects) -> str:
    return {"approval": "a yes or no", "choice": "a choice", "text": "a text", "form": "a form"}.get(
        expects.kind, "a result"
    )


def _changed(what: str, old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    gone = [f"{what} {name} is gone" for name in old if name not in new]
    added = [f"{what} {name} is new" for name in new if name not in old]
    return [*gone, *added, *(f"{what} {name} changed" for name in new if name in old and old[name] != new[name])]


def args_changed(asked: Any, now: Any) -> list[str]:
    """How the arguments that code asks about differ from those somebody saw; one that was added is let.

    What was approved is what is run: a new argument is not among it, and its default holds.
    """
    if not isinstance(asked, Mapping) or not isinstance(now, Mapping):
        return [] if asked == now else [f"args were {asked!r}, now {now!r}"]
    gone = [f"args.{name} is gone, it was {asked[name]!r}" for name in asked if name not in now]
    other = [name for name in asked if name in now and now[name] != asked[name]]
    return [*gone, *(f"args.{name} was {asked[name]!r}, now {now[name]!r}" for name in other)]
