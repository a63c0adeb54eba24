"""The servers that the examples name: real ones that the tests start."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Callable

from perdure.testing.servers import require, shared_mariadb, shared_postgres, shared_redis

_NUMBERS = itertools.count()
_ADDRESS = re.compile(r"(postgresql|mysql)://localhost/agents|(redis)://localhost:6379")


class Places:
    """An empty database of each kind, made when a page names one."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}

    def named_in(self, text: str) -> str:
        """The text with the addresses of real servers."""
        return _ADDRESS.sub(lambda found: self._address(found[1] or found[2]), text)

    def _address(self, scheme: str) -> str:
        if scheme not in self._made:
            self._made[scheme] = _MAKERS[scheme]()
        return self._made[scheme]


def _name() -> str:
    return f"docs_{os.getpid()}_{next(_NUMBERS)}"


_MAKERS: dict[str, Callable[[], str]] = {
    "postgresql": lambda: require(shared_postgres).database(_name()),
    "mysql": lambda: require(shared_mariadb).database(_name()),
    "redis": lambda: require(shared_redis).url,
}
