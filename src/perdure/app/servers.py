"""Storages on servers: PostgreSQL, MySQL, and Redis in front of any storage."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from perdure.app.options import BACKGROUND, HOT, POSTGRES, SERVERS
from perdure.core.errors import InvalidInputError, InvalidUrlError
from perdure.core.identity import ThreadKey
from perdure.core.limits import DecodeLimits, limits_given
from perdure.core.ports import Clock, Randomness, Telemetry
from perdure.storage.permissions import PRIVATE

if TYPE_CHECKING:
    from perdure.storage.background.store import BackgroundStorage
    from perdure.storage.baton import Baton
    from perdure.storage.contract import Storage
    from perdure.storage.hot.store import HotStorage

Mode = Literal["sync", "async"]

_ENCODE = "percent-encode special characters of the user and the password"
_BAD_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})|%00")
_UNWRITTEN = re.compile(r"[\x00-\x20\x7f]")


def check_address(url: str) -> None:
    """Raise `InvalidUrlError` for an address that cannot be one of a server.

    What a driver would say about an address may repeat its password: everything that one stumbles over is found here.
    """
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:  # its text repeats what it takes for the port
        raise InvalidUrlError(url, f"its host or port cannot be read; {_ENCODE}") from None
    if port == 0:
        raise InvalidUrlError(url, "port 0 is no port")
    if parts.netloc.count("@") > 1 or "@" in parts.path + parts.fragment or _UNWRITTEN.search(url):
        raise InvalidUrlError(url, f"it has a space, or an @ too many; {_ENCODE}")
    if _BAD_ESCAPE.search(url):
        raise InvalidUrlError(url, "a % in it is not followed by two hexadecimal digits; write %25 for a % itself")


class Opened(msgspec.Struct, frozen=True):
    """A storage, and the parts of it that have names of their own."""

    storage: Storage
    hot: HotStorage | None
    background: BackgroundStorage | None


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """How a storage is to be opened."""

    mode: Mode
    options: dict[str, Any]
    clock: Clock
    randomness: Randomness
    own_clock: bool = False  # the caller's clock counts, also where a server has one
    baton: Baton | None = None  # what threads that share a store take turns with
    telemetry: Telemetry

    on_broken: Callable[[ThreadKey], None] = lambda key: None  # a promise about this thread was not kept

    def __repr__(self) -> str:
        """Without the values of options: one may be a password, or an address with one."""
        return f"Asked(mode={self.mode!r}, options={sorted(self.options)!r})"

    @property
    def file_mode(self) -> int:
        """The mode of files that are made."""
        return self.options.get("file_mode", PRIVATE)

    @property
    def limits(self) -> DecodeLimits:
        """How large a value may be."""
        return limits_given(self.options.get("max_decoded_bytes"), self.options.get("max_decoded_nodes"))

    @property
    def in_background(self) -> bool:
        """Whether writes are answered before they are durable."""
        return self.options.get("durability") == "background"

    @property
    def server_time(self) -> bool:
        """Whether the server's clock counts; a write that waits in a queue has its time already."""
        return not (self.own_clock or self.in_background)

    def given(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The options of these names that were given."""
        return {name: value for name, value in self.options.items() if name in names}

    def for_server(self, names: tuple[str, ...]) -> dict[str, Any]:
        """The same for a server, whose password is a text whenever it is asked for."""
        options = self.given((*names, "user_id_type"))
        if callable(options.get("password")):
            options["password"] = checked_password(options["password"], self.mode)
        return options


def checked_password(password: Callable[[], Any], mode: Mode) -> Callable[[], str] | Callable[[], Awaitable[str]]:
    """A function that asks `password`, and raises `InvalidInputError` unless it gets a text."""

    def in_place() -> str:
        return _text(password())

    async def on_loop() -> str:
        answer = password()
        return _text(await answer if inspect.isawaitable(answer) else answer)

    return in_place if mode == "sync" else on_loop


def _text(answer: Any) -> str:
    if isinstance(answer, str):
        return answer
    if inspect.iscoroutine(answer):
        answer.close()  # else Python would warn of it as well
    awaited = "; only asynchronous stores await it" if inspect.isawaitable(answer) else ""
    # The type alone: whatever else it is may hold the password.
    raise InvalidInputError(f"password must be a function that returns a str, not {type(answer).__name__}{awaited}")


def postgres(url: str, asked: Asked) -> Storage:
    """The storage on PostgreSQL. A clock of the caller's counts instead of the server's."""
    from perdure.storage.postgres.options import Options
    from perdure.storage.postgres.store import PostgresStorage

    options = Options(**asked.for_server(POSTGRES), server_time=asked.server_time)
    return PostgresStorage(url, options, mode=asked.mode, baton=asked.baton, telemetry=asked.telemetry)


def mysql(url: str, asked: Asked) -> Storage:
    """The storage on MySQL or MariaDB."""
    from perdure.storage.mysql.store import MysqlStorage

    options: dict[str, Any] = {"server_time": asked.server_time, **asked.for_server(SERVERS)}
    return MysqlStorage(url, mode=asked.mode, baton=asked.baton, telemetry=asked.telemetry, **options)


def hot_storage(inner: Storage, asked: Asked) -> HotStorage:
    """Redis in front of a storage."""
    from perdure.storage.hot.ports import open_redis
    from perdure.storage.hot.store import HotStorage

    redis = open_redis(asked.options["hot"], mode=asked.mode, telemetry=asked.telemetry, baton=asked.baton)
    return HotStorage(
        inner, redis, clock=asked.clock, randomness=asked.randomness, telemetry=asked.telemetry, **asked.given(HOT)
    )


def background_storage(inner: Storage, asked: Asked) -> BackgroundStorage:
    """A queue in front of a storage."""
    from perdure.storage.background.ports import open_queue
    from perdure.storage.background.store import BackgroundStorage

    queue = open_queue(asked.mode, asked.baton)
    return BackgroundStorage(
        inner, queue, telemetry=asked.telemetry, on_broken=asked.on_broken, **asked.given(BACKGROUND)
    )
