"""A list of a thread reaches its head or raises: an entry that is gone never makes an answer shorter."""

from __future__ import annotations

from pathlib import Path

import pytest

from perdure.core.errors import EntryDamagedError
from tests.checkpoints.damaging import telling


@pytest.mark.parametrize("version", [1, 7, 12])
@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mysql"])
async def test_no_list_is_shorter_for_an_entry_that_is_gone(backend: str, version: int, tmp_path: Path) -> None:
    async with telling(backend, tmp_path) as (store, hands):
        thread = store.thread("t", user="alice")
        assert [entry.version for entry in await thread.entries()] == list(range(1, 13))
        hands.remove("t", "entry", version)
        calls = [thread.entries(), thread.messages(), thread.timeline(), store.export(thread, tmp_path / "t.perdure")]
        for call in calls:
            with pytest.raises(EntryDamagedError) as told:
                await call
            assert (told.value.version, told.value.reason) == (version, "is missing")
        assert [entry.version for entry in await thread.entries(limit=version - 1)] == list(range(1, version))


@pytest.mark.parametrize("backend", ["sqlite", "postgres", "mysql"])
async def test_a_rewind_that_its_index_lost_is_damage(backend: str, tmp_path: Path) -> None:
    async with telling(backend, tmp_path) as (store, hands):
        thread = store.thread("t", user="alice")
        before = await thread.messages()
        (rewind,) = hands.versions("t", "rewind")
        hands.remove("t", "rewind", rewind)
        with pytest.raises(EntryDamagedError, match="its rewind is not in the index"):
            await thread.messages()
        await store.repair()
        assert await thread.messages() == before
