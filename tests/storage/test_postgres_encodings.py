"""Databases whose encoding is not UTF-8."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import psycopg
import pytest

from perdure.core.errors import NotAStorageError
from perdure.sync import Perdure
from perdure.testing.servers import require, shared_postgres

TEXT = "日本 ü 😀"


@pytest.fixture
def encoded() -> Iterator[Callable[[str], str]]:
    """Makes a database of an encoding, and returns its address."""
    server, made = require(shared_postgres), list[str]()

    def make(encoding: str) -> str:
        made.append(name := f"{encoding.lower()}_{os.getpid()}")
        text = f"CREATE DATABASE {name} ENCODING '{encoding}' TEMPLATE template0 LC_COLLATE 'C' LC_CTYPE 'C'"
        with psycopg.connect(server.url, autocommit=True) as connection:
            connection.execute(text.encode())
        return server.url.rpartition("/")[0] + f"/{name}"

    yield make
    for name in made:
        server.drop(name)


def test_one_without_an_encoding_keeps_any_text(encoded: Callable[[str], str]) -> None:
    with Perdure.open(encoded("SQL_ASCII")) as store:
        store.thread(TEXT).save({TEXT: TEXT}, note=TEXT)
        store.thread(TEXT).update(set={"more": TEXT})
        assert store.thread(TEXT).load() == {TEXT: TEXT, "more": TEXT}
        assert [each.id for each in store.threads()] == [TEXT]
        assert store.verify().ok


def test_one_that_cannot_keep_every_text_is_refused_and_left_as_it_was(encoded: Callable[[str], str]) -> None:
    url = encoded("LATIN1")
    with pytest.raises(NotAStorageError, match="its encoding is LATIN1"), Perdure.open(url) as store:
        store.thread("t").append("items", 1)
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT count(*) FROM pg_namespace WHERE nspname = 'perdure'").fetchone() == (0,)
