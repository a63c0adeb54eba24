"""A lease that is lost while a run writes its end: the caller gets `LeaseLostError`, never a bare cancellation."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from perdure import Perdure
from perdure.core.errors import LeaseLostError

TTL = 0.3
ENDINGS = ("returns", "raises", "pauses")
ROUNDS = range(6)  # of the event loop between the renewal that fails and the end of the code


async def lose(store: Any, rounds: int) -> None:
    """Hold up the event loop until a renewal is due, after somebody took the thread over."""
    await store._parts.running.take_away((await store._parts.storage.find("", "t"))[0].key)
    time.sleep(TTL / 3 + 0.02)
    for _ in range(rounds):
        await asyncio.sleep(0)


async def end(run: Any, how: str) -> str:
    if how == "raises":
        raise ValueError("of the code")
    if how == "pauses":
        await run.pause("sign", ask="Sign?")
    return "done"


async def in_a_block(store: Any, code: Callable[[Any], Any]) -> None:
    async with store.thread("t").run() as run:
        await code(run)


async def in_a_handler(store: Any, code: Callable[[Any], Any]) -> None:
    store.handler("code")(code)
    await store.start("code", thread="t")
    await store.resume("t")


@pytest.mark.parametrize("face", [in_a_block, in_a_handler])
@pytest.mark.parametrize("how", ENDINGS)
async def test_the_caller_is_told_of_the_loss_and_its_task_goes_on(tmp_path: Path, face: Any, how: str) -> None:
    for rounds in ROUNDS:
        url = f"sqlite:///{tmp_path}/{rounds}.db"
        async with Perdure.open(url, lease_ttl=TTL) as store, Perdure.open(url) as other:

            async def code(run: Any, other: Any = other, rounds: int = rounds) -> str:
                await lose(other, rounds)
                return await end(run, how)

            beside = asyncio.create_task(asyncio.sleep(0.05, "beside"))
            told, went_on = await asyncio.gather(face(store, code), beside, return_exceptions=True)
            assert (type(told), went_on) == (LeaseLostError, "beside"), rounds


@pytest.mark.parametrize("face", [in_a_block, in_a_handler])
async def test_nothing_of_the_cancellation_is_left_in_the_task(tmp_path: Path, face: Any) -> None:
    for rounds in ROUNDS:
        url = f"sqlite:///{tmp_path}/{rounds}.db"
        async with Perdure.open(url, lease_ttl=TTL) as store, Perdure.open(url) as other:

            async def code(run: Any, other: Any = other, rounds: int = rounds) -> None:
                await lose(other, rounds)

            with pytest.raises(LeaseLostError):
                await face(store, code)
            task = asyncio.current_task()
            await asyncio.sleep(0)
            assert task is not None
            assert task.cancelling() == 0


async def test_who_cancels_the_task_meanwhile_is_obeyed(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    async with Perdure.open(url, lease_ttl=TTL) as store, Perdure.open(url) as other:

        async def code(run: Any) -> None:
            await lose(other, 0)
            await asyncio.sleep(60)

        working = asyncio.create_task(in_a_block(store, code))
        while not working.done():
            await asyncio.sleep(0)
            if working.cancelling():
                working.cancel()
                break
        with pytest.raises(asyncio.CancelledError):
            await working
