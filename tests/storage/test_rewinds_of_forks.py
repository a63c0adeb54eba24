"""A rewind of a fork to a version of its parent, while somebody else holds the parent: on servers with many writers."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

from perdure import Perdure
from tests.checkpoints.places import PLACES
from tests.storage.mysql import connected

LINE = "SELECT head FROM perdure{}thread WHERE uid = %s FOR UPDATE"


@contextmanager
def held(backend: str, url: str, uid: str) -> Generator[None]:
    """Somebody who holds the line of a thread, as a prune of it does until it is committed."""
    if backend == "postgres":
        with psycopg.connect(url) as connection:
            connection.execute(LINE.format("."), (uid,))
            yield
    else:
        with connected(url) as cursor:
            cursor.execute("START TRANSACTION")
            cursor.execute(LINE.format("_"), (uid,))
            yield
            cursor.execute("ROLLBACK")


@pytest.mark.parametrize("backend", ["postgres", "mysql"])
async def test_a_rewind_into_the_parent_waits_for_who_prunes_it(backend: str, tmp_path: Path) -> None:
    """Each of the two would not see the other, and the version be dropped that the fork went back to."""
    url, options = PLACES[backend](tmp_path)
    async with Perdure.open(url, **options) as store:
        parent = store.thread("parent")
        for number in range(1, 5):
            await parent.save({"n": number})
        child = await parent.fork("@4", to="child")
        line = await store._parts.storage.thread(parent._key)
        with held(backend, url, line.uid):
            await child.rewind("@4")  # needs nothing of the parent that the fork does not need anyway
            waiting = asyncio.create_task(child.rewind("@2"))
            assert not (await asyncio.wait({waiting}, timeout=0.5))[0]
        await waiting
        assert await child.load() == {"n": 2}
