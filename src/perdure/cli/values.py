"""Values of runs on the command line: as JSON where programs read them, and as a person types them."""

from __future__ import annotations

from typing import Any

import msgspec

from perdure.core.codec import encode_result
from perdure.core.errors import InvalidInputError
from perdure.core.printable import printable, printable_json
from perdure.core.render import to_json


def typed(text: str | None, option: str) -> Any:
    """A value that was typed as JSON; None when none was."""
    if text is None:
        return None
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as exc:
        raise InvalidInputError(
            f"{option} must be JSON, not {text!r} ({exc}); a text has quotes: '\"{text}\"'"
        ) from None


def rendered(value: Any) -> msgspec.Raw:
    """A value as JSON; what JSON cannot carry is an object with one key such as $bytes."""
    return msgspec.Raw(to_json(encode_result(value)))


def data(struct: Any, *values: str) -> dict[str, Any]:
    """The fields of an answer for programs; those named are values of a user's own."""
    fields = {name: getattr(struct, name) for name in struct.__struct_fields__}
    return fields | {name: rendered(fields[name]) for name in values}


def whole(value: Any) -> str:
    """A value on one line as JSON, of which nothing is cut."""
    return printable(printable_json(bytes(rendered(value)).decode()))


def brief(value: Any, width: int = 60) -> str:
    """The same, cut where it is long: not for what somebody decides about."""
    text = whole(value)
    return text if len(text) <= width else text[: width - 1] + "…"
