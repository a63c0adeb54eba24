"""Addresses that are told what happens."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.recovery_policy import is_seconds

_SCHEMES = ("http://", "https://")


class Webhook(msgspec.Struct, frozen=True, kw_only=True):
    """An address that is told of pauses, and of what else `events` names; none named: of everything there is.

    It is tried `attempts` times, waiting `first_wait` seconds and then longer, at most `longest_wait`; each try may
    take `timeout` seconds. With a `secret` what is sent is signed. `template` is the text that is sent instead of JSON.
    """

    url: str
    secret: str | None = None
    headers: Mapping[str, str] = {}
    template: str | None = None
    attempts: int = 3
    first_wait: float = 1.0
    longest_wait: float = 30.0
    timeout: float = 10.0
    events: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if type(self.url) is not str or not self.url.startswith(_SCHEMES) or len(self.url.split("://", 1)[1]) == 0:
            raise InvalidInputError("the url of a webhook must begin with http:// or https:// and name a host")
        if type(self.attempts) is not int or self.attempts < 1:
            raise InvalidInputError(f"attempts must be an int from 1 on, not {self.attempts!r}")
        for name in ("first_wait", "longest_wait", "timeout"):
            if not is_seconds(getattr(self, name)):
                raise InvalidInputError(f"{name} must be a number of seconds, not {getattr(self, name)!r}")
        if self.longest_wait < self.first_wait:
            raise InvalidInputError(f"longest_wait is {self.longest_wait:g}, shorter than first_wait")
        if not all(type(name) is type(value) is str and _is_one_line(value) for name, value in self.headers.items()):
            raise InvalidInputError("headers must be texts of one line each")

    def __repr__(self) -> str:
        # Neither the secret nor a header: both end up in logs, and a header may be a password.
        return f"Webhook(url={self.place!r}, attempts={self.attempts}, events={self.events!r})"

    @property
    def place(self) -> str:
        """The address for people, without what may be a password."""
        scheme, _, rest = self.url.partition("://")
        host = rest.split("?", 1)[0].rpartition("@")[2]
        return f"{scheme}://{host}"


def _is_one_line(text: str) -> bool:
    return not any(char in text for char in "\r\n\0")
