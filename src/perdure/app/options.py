"""The options of `open` that only some storages have."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypedDict

from perdure.core.errors import InvalidInputError
from perdure.core.limits import limits_given
from perdure.storage.permissions import check_file_mode

Durability = Literal["full", "background"]
UserIdType = Literal["string", "int", "bigint"]


class StorageOptions(TypedDict, total=False):
    """Options of some storages; each is refused where it would do nothing."""

    hot: str | None  # redis://… in front of the storage
    cache_ttl: float  # hot: seconds that a thread nobody uses stays in Redis (86400)
    max_cached_threads: int  # hot: the most threads in Redis, the least recently used go first (1000)
    durability: Durability  # "background": answered before it is durable, see the guide ("full")
    max_pending: int  # background: the most writes that wait to be made durable (1000)
    schema: str | None  # PostgreSQL: the schema the tables are in ("perdure")
    file_mode: int  # files: the mode of those that are made; folders get the one that goes with it (0o600)
    max_decoded_bytes: int  # the most bytes that a value may have when it is stored and read (268435456)
    max_decoded_nodes: int  # the most nodes, which are values and keys of mappings (2000000)
    lease_ttl: float  # seconds that a run may go without a sign of life before others take over (30)
    prices: Mapping[str, Any] | None  # of models, per million tokens: {"gpt-4o-mini": {"input": 0.15, "output": 0.6}}
    traceback: bool  # whether a failure keeps its traceback (True)
    user_id_type: UserIdType  # the type of user ids and, on servers, of their column ("string")
    pool: Any  # PostgreSQL: a psycopg or asyncpg pool of your own
    close_pool: bool  # PostgreSQL: close that pool with the store (False)
    pool_min: int  # PostgreSQL: connections kept open (1)
    pool_max: int  # servers: the most connections (8)
    pool_timeout: float  # servers: seconds to wait for a free connection (30)
    password: Callable[[], str] | Callable[[], Awaitable[str]] | None  # servers: asked for every new connection
    prepare: bool  # PostgreSQL: False for a pooler that does not know prepared statements (True)
    retry_seconds: float  # servers: how long a call waits for a server that went away, or that still starts (10)
    call_timeout: float | None  # servers: seconds until a call that got no answer is given up, None for ever (30)


LIMITS = ("max_decoded_bytes", "max_decoded_nodes")
ANY = ("hot", "user_id_type", "durability", "lease_ttl", "traceback", "prices", *LIMITS)
SERVERS = ("pool_max", "pool_timeout", "password", "retry_seconds", "call_timeout")
_NONE_COUNTS = ("call_timeout",)  # None is a value of its own, not the default
POSTGRES = (*SERVERS, "schema", "pool", "close_pool", "pool_min", "prepare")
HOT = ("cache_ttl", "max_cached_threads")
BACKGROUND = ("max_pending",)
FILES = ("file_mode",)
_TAKEN_BY = {
    "memory": ANY,
    "file": (*ANY, *FILES),
    "sqlite": (*ANY, *FILES),
    "mysql": (*ANY, *SERVERS),
    "postgresql": (*ANY, *POSTGRES),
}
_NOT_WITH_POOL = ("password", "pool_min", "pool_max")  # a pool of the caller's connects by itself
_SHORTEST_LEASE = 0.1  # a shorter one could not be renewed in time
_SECONDS = ("cache_ttl", "pool_timeout", "retry_seconds", "lease_ttl")
_MOST_SECONDS = 1_000_000_000  # some thirty years; servers and clocks count with more than that differently
_COUNTS = {"max_pending": 1, "max_cached_threads": 1, "pool_min": 0, "pool_max": 1}  # each with the least there may be


def given(options: Mapping[str, Any], scheme: str) -> dict[str, Any]:
    """The options that were given; raise for one that nobody knows or that this storage would not read."""
    for name in options:
        if name not in StorageOptions.__annotations__:
            raise TypeError(
                f"open() got an unexpected option {name!r}{hint(name, tuple(StorageOptions.__annotations__))}"
            )
    asked = {name: value for name, value in options.items() if value is not None or name in _NONE_COUNTS}
    from perdure.core.vocabulary import one_of

    one_of(asked.get("durability", "full"), ("full", "background"), "durability", InvalidInputError)
    limits_given(asked.get("max_decoded_bytes"), asked.get("max_decoded_nodes"))
    for name, value in asked.items():
        _check_taken(name, scheme, asked)
        _check_number(name, value)
        if name == "traceback" and type(value) is not bool:
            raise InvalidInputError(f"traceback must be True or False, not {value!r}")
        if name == "prices":
            from perdure.core.usage import prices_of

            prices_of(value)
        if name in FILES:
            check_file_mode(value)
    return asked


def is_taken(name: str, scheme: str) -> bool:
    """Whether a kind of storage reads an option."""
    return name in (*HOT, *BACKGROUND) or name in _TAKEN_BY[scheme]


def _check_number(name: str, value: Any) -> None:
    if name in _COUNTS and (type(value) is not int or value < _COUNTS[name]):
        raise InvalidInputError(f"{name} must be a whole number from {_COUNTS[name]} on, not {value!r}")
    if name in _SECONDS and (type(value) not in (int, float) or not 0 <= value <= _MOST_SECONDS):
        raise InvalidInputError(f"{name} must be a number of seconds from 0 to {_MOST_SECONDS}, not {value!r}")
    if name == "cache_ttl" and value == 0:
        raise InvalidInputError("cache_ttl must be above 0 seconds; leave hot out where nothing is to be kept")
    if name == "lease_ttl" and value < _SHORTEST_LEASE:
        raise InvalidInputError(f"lease_ttl must be at least {_SHORTEST_LEASE} seconds, not {value!r}")


def _check_taken(name: str, scheme: str, asked: Mapping[str, Any]) -> None:
    if name in HOT and "hot" not in asked:
        raise InvalidInputError(f"{name} is for the hot layer: give hot='redis://…' too, or leave it out")
    if name in BACKGROUND and asked.get("durability") != "background":
        raise InvalidInputError(f'{name} is for durability="background": give that too, or leave it out')
    if name not in (*HOT, *BACKGROUND) and name not in _TAKEN_BY[scheme]:
        takers = [each for each, names in _TAKEN_BY.items() if name in names]
        raise InvalidInputError(f"{name} is for {' and '.join(f'{each}://' for each in takers)}, not for {scheme}")
    if name in _NOT_WITH_POOL and "pool" in asked:
        raise InvalidInputError(f"{name} is for a pool that perdure makes: say it to your own pool, or leave pool out")
    if name == "close_pool" and asked[name] and "pool" not in asked:
        raise InvalidInputError("close_pool is for a pool of your own: give pool= too, or leave it out")


def hint(name: str, known: tuple[str, ...]) -> str:
    """A suggestion for a name that was mistyped, if one is near."""
    import difflib

    near = difflib.get_close_matches(name, known, 1)
    return f", did you mean {near[0]!r}?" if near else ""
