"""Fields that an agent collects: what is asked for, and which values are taken."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from datetime import date
from typing import Any

from perdure.core.errors import InvalidInputError

_EMAIL = re.compile(r"[^@\s]{1,64}@[^@\s.]+(\.[^@\s.]+)+")
_TRUE, _FALSE = frozenset({"yes", "y", "true", "1"}), frozenset({"no", "n", "false", "0"})
_MAX_PATTERN_TEXT = 1000  # characters that a pattern is tried on: a careless one takes exponential time


def name_of(field: Any) -> str:
    """The name of a field, which is a text, a mapping with a name, or an object with one."""
    return str(field["name"] if isinstance(field, Mapping) else getattr(field, "name", field))


def field_named(fields: Iterable[Any], name: str) -> Any:
    """The field of a name, None where there is none."""
    return next((each for each in fields if name_of(each) == name), None)


def question_of(field: Any) -> str:
    """What a person is asked for a field."""
    choices = _of(field, "choices")
    among = f" ({', '.join(map(str, choices))})" if choices else ""
    return str(_of(field, "prompt") or f"Please give {name_of(field)}{among}.")


def check_field(field: Any, value: Any) -> Any:
    """The value of a field as it is kept; raise `ValueError` that tells a person what is wrong with it.

    A field may say `type` (text, integer, number, boolean, email, date), `choices`, `pattern`, `min` and `max`.
    """
    kind = _of(field, "type") or "text"
    if kind not in _TYPES:
        raise InvalidInputError(f"field {name_of(field)!r}: unknown type {kind!r}; there are {', '.join(_TYPES)}")
    checked = value if kind == "text" else _TYPES[kind](value)
    choices = _of(field, "choices")
    if choices:
        checked = _chosen(checked, choices)
    pattern = _of(field, "pattern")
    if pattern and not re.fullmatch(str(pattern), str(checked)[:_MAX_PATTERN_TEXT]):
        raise ValueError(f"{checked!r} does not have the form {pattern}.")
    _check_range(checked, _of(field, "min"), _of(field, "max"))
    return checked


def _of(field: Any, key: str) -> Any:
    return field.get(key) if isinstance(field, Mapping) else getattr(field, key, None)


def _chosen(value: Any, choices: Iterable[Any]) -> Any:
    known = list(choices)
    for each in known:
        if value == each or str(value).strip().casefold() == str(each).casefold():
            return each
    raise ValueError(f"{value!r} is none of {', '.join(map(str, known))}.")


def _check_range(value: Any, least: Any, most: Any) -> None:
    size = len(value) if isinstance(value, str | list | tuple | dict) else value
    unit = " characters" if isinstance(value, str) else ""
    if least is not None and size < least:
        raise ValueError(f"At least {least}{unit}, please.")
    if most is not None and size > most:
        raise ValueError(f"At most {most}{unit}, please.")


def _integer(value: Any) -> int:
    if type(value) is int or re.fullmatch(r"[-+]?\d{1,18}", str(value).strip()):
        return int(value)
    raise ValueError(f"{value!r} is no whole number.")


def _number(value: Any) -> int | float:
    if type(value) in (int, float):
        return value
    text = str(value).strip()
    if re.fullmatch(r"[-+]?\d{1,18}(\.\d{1,18})?", text):
        return float(text) if "." in text else int(text)
    raise ValueError(f"{value!r} is no number.")


def _boolean(value: Any) -> bool:
    text = str(value).strip().casefold()
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    raise ValueError("Please answer yes or no.")


def _email(value: Any) -> str:
    text = str(value).strip()
    if len(text) <= 320 and _EMAIL.fullmatch(text):
        return text
    raise ValueError(f"{value!r} is no e-mail address.")


def _date(value: Any) -> date:
    try:
        return value if isinstance(value, date) else date.fromisoformat(str(value).strip())
    except ValueError:
        raise ValueError(f"{value!r} is no date; write one such as 2026-11-01.") from None


_TYPES: Mapping[str, Callable[[Any], Any]] = {
    "text": str, "integer": _integer, "number": _number, "boolean": _boolean, "email": _email, "date": _date,
}  # fmt: skip
