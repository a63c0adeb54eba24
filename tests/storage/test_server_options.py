"""What is wrong with the options of servers is told when a store is opened, by name; a password never is."""

from __future__ import annotations

import math
import secrets
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg_pool
import pytest

from perdure import Perdure, sync
from perdure.core.errors import InvalidInputError
from perdure.testing.servers import require, shared_mariadb, shared_postgres

NOWHERE = "127.0.0.1:1"  # nobody answers there
POSTGRES, MYSQL = f"postgresql://{NOWHERE}/agents", f"mysql://{NOWHERE}/agents"
REDIS = f"redis://{NOWHERE}/0"
NO_SECONDS = (math.nan, math.inf, -1, True, "3", 1e12)


def told(url: str, **options: Any) -> str:
    """What is said when the store is not opened."""
    for opened in (Perdure.open, sync.Perdure.open):
        with pytest.raises(InvalidInputError) as caught:
            opened(url, **options)
    return str(caught.value)


# Redis' address.


@pytest.mark.parametrize(
    ("hot", "says"),
    [
        (f"{REDIS}?foo=1", "'foo' of the hot layer's address is not known"),
        (f"{REDIS}?decode_responses=true", "'decode_responses' of the hot layer's address is not known"),
        (f"{REDIS}?ssl_cert_reqs=none", "'ssl_cert_reqs' of the hot layer's address cannot be used with redis://"),
        (f"rediss://{NOWHERE}?ssl_cert_reqs=some", "'ssl_cert_reqs' of the hot layer's address cannot be used"),
        (f"{REDIS}?client_name=me&protocol=9", "'protocol' of the hot layer's address cannot be used"),
        (f"redis://{NOWHERE}/x", "must be a number"),
        (f"redis://{NOWHERE}/1/2", "must be a number"),
        (f"redis://{NOWHERE}?db=-1", "must be a number"),
        (f"redis://{NOWHERE}?db=x", "must be a number"),
        (f"redis://{NOWHERE}/0#1", "must look like redis://"),
        ("unix://", "names no socket"),
        (f"http://{NOWHERE}", "must look like redis://"),
        (5, "must look like redis://"),
    ],
)
def test_an_address_that_the_client_would_stumble_over_is_refused(hot: Any, says: str) -> None:
    assert says in told("memory://", hot=hot)


@pytest.mark.parametrize(
    "hot",
    [
        f"redis://u:hunter2@{NOWHERE}/0?foo=1",
        f"redis://{NOWHERE}/0?password=hunter2&foo=1",
        f"redis://u:hunter2@{NOWHERE}/0?ssl_cert_reqs=hunter2",
        "redis://u:1?hunter2=1@host/0",  # an unquoted password, which looks like a port and a parameter
        "redis://u:1/hunter2@host/0",
        "redis://u:1#hunter2@host/0",
        "redis://u:hunter2#@host/0",
    ],
)
def test_a_refusal_never_shows_a_password(hot: str) -> None:
    assert "hunter2" not in told("memory://", hot=hot)


@pytest.mark.parametrize(
    "hot",
    [
        REDIS,
        f"redis://{NOWHERE}",
        f"redis://u:p%40w@{NOWHERE}/3?socket_timeout=1&client_name=me@here",
        f"rediss://{NOWHERE}/0?ssl_cert_reqs=none&ssl_ca_certs=ca.pem",
        "unix:///nowhere/a@b.sock?db=2&password=x",
    ],
)
def test_a_redis_that_is_away_is_no_error(hot: str, tmp_path: Path) -> None:
    with sync.Perdure.open(f"sqlite:///{tmp_path}/a.db", hot=hot) as store:
        store.thread("t").append("messages", "hi")
        assert store.thread("t").load() == {"messages": ["hi"]}


def test_a_refused_hot_layer_leaves_nothing_behind(tmp_path: Path) -> None:
    told(f"sqlite:///{tmp_path}/a.db", hot=f"{REDIS}?foo=1")
    assert list(tmp_path.iterdir()) == []


# Numbers, and what is true or false.


@pytest.mark.parametrize("value", [*NO_SECONDS, 0])
def test_a_time_to_live_is_a_number_of_seconds_above_0(value: Any) -> None:
    assert told("memory://", hot=REDIS, cache_ttl=value).startswith("cache_ttl must be")


@pytest.mark.parametrize("value", [0, -1, 1.5, True, math.nan, "3"])
def test_the_most_threads_are_a_whole_number(value: Any) -> None:
    says = f"max_cached_threads must be a whole number from 1 on, not {value!r}"
    assert told("memory://", hot=REDIS, max_cached_threads=value) == says


@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
@pytest.mark.parametrize("value", [0, -1, 2.5, 2.0, True, math.inf])
def test_the_most_connections_are_a_whole_number(url: str, value: Any) -> None:
    assert told(url, pool_max=value) == f"pool_max must be a whole number from 1 on, not {value!r}"


@pytest.mark.parametrize("url", [POSTGRES, MYSQL])
@pytest.mark.parametrize("name", ["retry_seconds", "pool_timeout"])
@pytest.mark.parametrize("value", NO_SECONDS)
def test_waiting_takes_a_number_of_seconds(url: str, name: str, value: Any) -> None:
    assert told(url, **{name: value}).startswith(f"{name} must be a number of seconds")


def test_a_lease_is_neither_endless_nor_none() -> None:
    for value in (*NO_SECONDS, 0, 0.05):
        assert told("memory://", lease_ttl=value).startswith("lease_ttl must be")


def test_smaller_pools_than_their_least_are_refused() -> None:
    assert "pool_min=9 and pool_max=8" in told(POSTGRES, pool_min=9)
    assert told(POSTGRES, pool_min=0.5).startswith("pool_min must be a whole number")


def test_a_flag_is_true_or_false() -> None:
    assert told(POSTGRES, prepare="no") == "prepare must be True or False, not 'no'"
    assert told(POSTGRES, prepare=0) == "prepare must be True or False, not 0"


# What a pool of the caller's has no use for.


def test_there_has_to_be_a_pool_to_close() -> None:
    assert told(POSTGRES, close_pool=True).startswith("close_pool is for a pool of your own")
    sync.Perdure.open(POSTGRES, close_pool=False).close()


@pytest.mark.parametrize("option", [{"password": lambda: "x"}, {"pool_max": 3}, {"pool_min": 1}])
def test_options_for_a_pool_of_ours_are_refused_beside_the_callers(option: dict[str, Any]) -> None:
    (name,) = option
    assert told(POSTGRES, pool=object(), **option).startswith(f"{name} is for a pool that perdure makes")


def test_a_callers_pool_goes_with_everything_that_is_read() -> None:
    pool = psycopg_pool.ConnectionPool(POSTGRES, open=False)
    sync.Perdure.open(POSTGRES, pool=pool, close_pool=True, pool_timeout=1, retry_seconds=0, prepare=False).close()


# Passwords.


@pytest.fixture(params=["postgresql", "mysql"])
def url(request: pytest.FixtureRequest) -> str:
    server = require(shared_postgres if request.param == "postgresql" else shared_mariadb)
    return server.database(f"options_{secrets.token_hex(4)}")


async def later() -> str:
    return ""  # the tests' servers ask for none


class Later:
    """Something to wait for that is no coroutine."""

    def __await__(self) -> Any:
        yield from ()
        return ""


@pytest.mark.parametrize("password", [lambda: None, lambda: b"hunter2", lambda: ["hunter2"], later, Later])
def test_a_synchronous_store_wants_a_password_that_is_a_str(url: str, password: Callable[[], Any]) -> None:
    with pytest.raises(InvalidInputError, match="password must be a function that returns a str") as caught:
        sync.Perdure.open(url, password=password).setup()
    assert "hunter2" not in str(caught.value)
    assert ("only asynchronous stores await it" in str(caught.value)) == (password in (later, Later))


async def nothing() -> None: ...


@pytest.mark.parametrize("password", [lambda: None, lambda: b"hunter2", nothing])
async def test_an_asynchronous_store_wants_a_str_too(url: str, password: Callable[[], Any]) -> None:
    store = Perdure.open(url, password=password)
    with pytest.raises(InvalidInputError, match="password must be a function that returns a str, not"):
        await store.setup()
    await store.close()


@pytest.mark.parametrize("password", [lambda: "", Later, later])
async def test_an_asynchronous_store_may_wait_for_its_password(
    url: str, password: Callable[[], str] | Callable[[], Awaitable[str]]
) -> None:
    async with Perdure.open(url, password=password) as store:
        assert await store.thread("t").append("messages", "hi") == 1


def test_a_password_itself_is_no_function(url: str) -> None:
    says = told(url, password="hunter2")
    assert says == "password must be a function that returns the password"
