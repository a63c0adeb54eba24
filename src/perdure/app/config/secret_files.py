"""Secrets in files of their own: `secret: file:/run/secrets/hook`, and `${file:/run/secrets/dsn}` inside a text."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.app.config.places import Page, Place

_MOST_BYTES = 64 * 1024


def secret_text(page: Page, place: Place, value: str, instead: Any) -> Any:
    """A secret as it is written, or what the file holds that it names."""
    if not value.startswith("file:"):
        return value
    try:
        return read_secret(value, page.folder)
    except LookupError as exc:
        page.problem(place, str(exc))
        return instead


def read_secret(name: str, folder: str) -> str:
    """The text of `file:PATH`, without its last line break; raise `LookupError` saying why it cannot be read."""
    path = os.path.join(folder, name.removeprefix("file:").removeprefix("//"))
    try:
        with open(path, "rb") as file:
            data = file.read(_MOST_BYTES + 1)
        text = data.decode().removesuffix("\n").removesuffix("\r")
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or "it is not UTF-8 text"
        # The path is not repeated: where a whole value came out of a variable, it may be an address with a password.
        raise LookupError(f"the file of this secret cannot be read: {reason}; create it, or correct its path") from None
    if not text or len(data) > _MOST_BYTES:
        raise LookupError(f"the file of this secret is {'empty' if not text else 'larger than 64 KB'}; correct it")
    return text
