"""Going back in a thread whose run is not over."""

from __future__ import annotations

from typing import Any

import pytest

from perdure import Perdure
from perdure.errors import UnfinishedRunError


async def asking(run: Any) -> str:
    await run.update(set={"n": 2})
    return "yes" if await run.pause("go", ask="Go?") else "no"


async def test_a_thread_whose_run_waits_is_not_rewound_until_the_run_is_given_up(url: str) -> None:
    async with Perdure.open(url) as store:
        store.handler("ask")(asking)
        thread = store.thread("t")
        await thread.save({"n": 1})
        await store.start("ask", thread="t")
        run = (await store.resume("t")).id
        for _ in range(2):
            with pytest.raises(UnfinishedRunError, match=rf"{run} .*store\.cancel\(thread\)"):
                await store.thread("t").rewind("@1")
            assert (await store.thread("t").rewind("@1", dry_run=True)).to == 1
            if pauses := await store.pauses():
                await store.decide(pauses[0], approved=True, by="ann")  # decided does not make it over
        await store.cancel("t", reason="back to the start")
        await store.thread("t").rewind("@1")
        assert await store.thread("t").load() == {"n": 1}


async def test_nor_is_one_whose_run_is_at_work(url: str) -> None:
    async with Perdure.open(url) as store, Perdure.open(url) as other:
        await store.thread("t").save({"n": 1})
        async with store.thread("t").run() as run:
            await run.update(set={"n": 2})
            with pytest.raises(UnfinishedRunError, match=run.id):
                await other.thread("t").rewind("@1")
        await other.thread("t").rewind("@1")
        assert await other.thread("t").load() == {"n": 1}
