"""Single values of a file: what an unquoted word means (YAML 1.2), and `${VARIABLES}` in it."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perdure.app.config.secret_files import read_secret

_VARIABLE = re.compile(r"\$(\$)?\{([^{}]*)\}")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_INT = re.compile(r"[-+]?[0-9]{1,18}")
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]{1,30}(\.[0-9]*)?)([eE][-+]?[0-9]{1,3})?")
_WORDS = {"": None, "~": None, "null": None, "Null": None, "NULL": None,
          "true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}  # fmt: skip


class Unset(LookupError):
    """A variable that has no value; also what stands in the place of the value then."""


def scalar(text: str) -> str | int | float | bool | None:
    """What an unquoted word means."""
    if text in _WORDS:
        return _WORDS[text]
    if _INT.fullmatch(text):
        return int(text)
    return float(text) if _FLOAT.fullmatch(text) else text


def substituted(text: str, environment: Mapping[str, str], folder: str = "") -> str:
    """A text with its variables: `${NAME}`, `${NAME:-default}`, `${file:PATH}` for what a file holds; `$${` is `${`
    itself. Raises `Unset`.

    It is done in a value that was parsed already: what a variable holds cannot add keys to a file.
    """
    return _VARIABLE.sub(lambda found: _value(found, environment, folder), text) if "${" in text else text


def has_variables(text: str) -> bool:
    """Whether a text would read the environment."""
    return any(not found[1] for found in _VARIABLE.finditer(text))


def _value(found: re.Match[str], environment: Mapping[str, str], folder: str) -> str:
    if found[1]:
        return f"${{{found[2]}}}"
    if found[2].startswith("file:"):
        try:
            return read_secret(found[2], folder)
        except LookupError as exc:
            raise Unset(str(exc)) from None
    name, has_default, default = found[2].partition(":-")
    if not _NAME.fullmatch(name):
        raise Unset(f"${{{found[2]}}} names no environment variable; write ${{NAME}}, or $${{…}} for the text itself")
    value = environment.get(name)
    if has_default:
        return value or default
    if value is None:
        raise Unset(f"environment variable {name!r} is not set; set it, or give a default: ${{{name}:-…}}")
    return value
