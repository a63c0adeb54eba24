"""A turn holds its thread; when somebody else takes it, the code in the turn is told so."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path

import pytest

from perdure import Perdure
from perdure.adapters.langgraph import PerdureSaver
from perdure.errors import LeaseLostError

TTL = 0.3


async def test_a_lost_lease_is_raised_in_place_of_the_cancellation_that_it_caused(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    async with Perdure.open(f"sqlite:///{path}", lease_ttl=TTL) as store:
        saver = PerdureSaver(store)
        with pytest.raises(LeaseLostError):
            await taken_over(saver, path)
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0


async def taken_over(saver: PerdureSaver, path: Path) -> None:
    async with saver.turn("t"):
        with sqlite3.connect(path) as other:
            other.execute("UPDATE perdure_thread SET epoch = epoch + 1")
        other.close()
        await asyncio.sleep(60)
