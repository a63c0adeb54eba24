"""A storage's own life: set up, used, closed; and its layout's."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from perdure.core.checkpoint import CheckpointQuery
from perdure.core.errors import SchemaOutdatedError, SchemaTooNewError, StorageClosedError
from perdure.core.messages import MessageQuery, Owner, Projected, Projection
from perdure.core.threads import ThreadQuery
from perdure.core.transfer import ThreadCopy
from perdure.storage.contract import SCHEMA, Schema, Storage
from perdure.testing.contract.running import Contract, Place
from perdure.testing.scribe import OTHER, THREAD, Scribe, snapshot_of

SetSchema = Callable[[Schema], Awaitable[None]]
CURRENT = Schema(schema=SCHEMA, min_reader=SCHEMA, min_writer=SCHEMA)


class LifetimeContract(Contract):
    """Setting up and closing, for every storage."""

    async def test_setting_up_again_changes_nothing(self, storage: Storage, scribe: Scribe) -> None:
        made = await scribe.append()
        assert await storage.setup() == CURRENT
        assert await storage.setup("check") == CURRENT
        assert await storage.thread(THREAD) == made.row

    async def test_the_migration_is_told_in_words(self, storage: Storage) -> None:
        steps = list(storage.migration())
        assert all(isinstance(step, str) and step for step in steps)

    async def test_closing_twice_is_fine(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.close()
        await storage.close()

    async def test_closing_before_any_use_is_fine(self, place: Place) -> None:
        await (await place.open()).close()

    async def test_a_closed_storage_says_so(self, storage: Storage, scribe: Scribe) -> None:
        await scribe.append()
        await storage.close()
        for call in every_call(storage, scribe):
            with pytest.raises(StorageClosedError):
                await call


class LayoutContract(Contract):
    """The layout of a storage that outlives its process.

    Give it a third fixture, `set_schema`: an async callable that writes a `Schema` into the place, which is closed.
    """

    async def test_checking_an_empty_place_asks_for_a_migration(self, place: Place) -> None:
        storage = await place.open()
        with pytest.raises(SchemaOutdatedError):
            await storage.setup("check")
        with pytest.raises(SchemaOutdatedError):
            await (await place.open()).setup("check")

    async def test_setting_up_an_empty_place_gives_the_current_layout(self, place: Place) -> None:
        storage = await place.open()
        assert await storage.setup() == CURRENT
        assert storage.migration()

    async def test_a_place_that_was_set_up_passes_the_check(self, storage: Storage, place: Place) -> None:
        await storage.close()
        assert await (await place.open()).setup("check") == CURRENT

    async def test_several_may_set_up_at_once(self, place: Place, scribe: Scribe) -> None:
        made = await scribe.append()
        others = [await place.open() for _ in range(3)]
        for storage in others:
            assert await storage.setup() == CURRENT
            assert await storage.thread(THREAD) == made.row

    @pytest.mark.parametrize("migrate", ["auto", "check"])
    async def test_a_layout_for_newer_readers_is_refused_untouched(
        self, storage: Storage, place: Place, set_schema: SetSchema, migrate: Any
    ) -> None:
        await storage.close()
        await set_schema(Schema(schema=SCHEMA + 1, min_reader=SCHEMA + 1, min_writer=SCHEMA + 1))
        for _ in range(2):
            with pytest.raises(SchemaTooNewError):
                await (await place.open()).setup(migrate)

    async def test_a_layout_for_newer_writers_is_refused_to_writers(
        self, storage: Storage, place: Place, set_schema: SetSchema
    ) -> None:
        await storage.close()
        await set_schema(Schema(schema=SCHEMA + 1, min_reader=SCHEMA, min_writer=SCHEMA + 1))
        with pytest.raises(SchemaTooNewError):
            await (await place.open()).setup()

    async def test_a_newer_layout_that_admits_us_is_used(
        self, storage: Storage, scribe: Scribe, place: Place, set_schema: SetSchema
    ) -> None:
        made = await scribe.append()
        newer = Schema(schema=SCHEMA + 1, min_reader=SCHEMA, min_writer=SCHEMA)
        await storage.close()
        await set_schema(newer)
        again = await place.open()
        assert await again.setup() == newer
        assert await again.thread(THREAD) == made.row


def every_call(storage: Storage, scribe: Scribe) -> list[Coroutine[Any, Any, Any]]:
    """One call of each method that reads or writes."""
    return [
        storage.setup(),
        storage.append(scribe.write()),
        storage.keyed(THREAD, "k"),
        storage.under(THREAD, "k"),
        storage.restore(THREAD),
        storage.entries(THREAD),
        storage.log(THREAD),
        storage.headers(THREAD),
        storage.seams(THREAD),
        storage.records(THREAD),
        storage.forks(THREAD),
        storage.compact(),
        storage.put_snapshot(THREAD, "uid", snapshot_of(1)),
        storage.drop_snapshot(THREAD, 1),
        storage.checkpoints(THREAD, CheckpointQuery()),
        storage.user_checkpoints("", None, CheckpointQuery()),
        storage.checkpoint("", None, "chk_1"),
        storage.projection(THREAD),
        storage.project(Projected(seen=Projection(row=scribe.target(THREAD)), version=1, count=0)),
        storage.unprojected(Owner("", None)),
        storage.messages(THREAD, MessageQuery()),
        storage.current(THREAD, MessageQuery()),
        storage.tally(Owner("", "alice"), MessageQuery()),
        storage.thread(THREAD),
        storage.line("uid"),
        storage.find("", "t1"),
        storage.threads(ThreadQuery()),
        storage.fork(THREAD, 1, scribe.target(OTHER)),
        storage.namespaces(),
        storage.put_thread(ThreadCopy(row=scribe.target(OTHER), entries=[])),
        storage.delete(THREAD),
        storage.claim(THREAD, "me", until=1, now=0),
        storage.renew(THREAD, 1, until=1, now=0),
        storage.release(THREAD, 1),
        storage.due("", 0),
        storage.blobs(THREAD, [b"d" * 32]),
        storage.sweep_blobs(0),
        storage.sweep_user("", "alice"),
        storage.keep("name", b"value"),
        storage.sizes(),
    ]
