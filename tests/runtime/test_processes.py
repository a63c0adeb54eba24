"""Runs and real processes: killed, stopped, side by side."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest

from perdure import Perdure
from tests.runtime.child import await_note, noted, register, spawned
from tests.runtime.scenes import block


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/store.db"


async def test_a_run_that_kills_its_process_ends_in_the_dead_letter(url: str, tmp_path: Path) -> None:
    async with Perdure.open(url) as store:
        await store.start("poison", thread="t")
    for _ in range(3):
        assert spawned("recover", url, tmp_path).wait(60) == -signal.SIGKILL
    assert spawned("recover", url, tmp_path).wait(60) == 0
    async with Perdure.open(url) as store:
        (info,) = await store.runs()
    assert (info.status, info.error) == ("dead", "Died: its process died 3 times in the same place")
    assert noted(tmp_path) == ["poison"] * 3


async def test_a_worker_that_gets_sigterm_gives_its_runs_back_and_ends_well(url: str, tmp_path: Path) -> None:
    async with Perdure.open(url) as store:
        register(store, tmp_path)
        await store.start("slow", thread="t")
        worker = spawned("work", url, tmp_path)
        try:
            await_note(tmp_path, "slow")
            worker.terminate()
            assert worker.wait(60) == 0
        finally:
            worker.kill()
            worker.wait()
        (info,) = await store.runs()
        assert (info.status, info.owner) == ("interrupted", None)
        assert [info.result for info in await store.recover()] == ["done"]


async def test_a_killed_worker_is_succeeded_at_once(url: str, tmp_path: Path) -> None:
    async with Perdure.open(url) as store:
        register(store, tmp_path)
        await store.start("slow", thread="t")
        worker = spawned("work", url, tmp_path)
        try:
            await_note(tmp_path, "slow")
        finally:
            worker.kill()
            worker.wait()
        assert [info.status for info in await store.runs()] == ["interrupted"]
        assert [info.result for info in await store.recover()] == ["done"]  # the lease would last for 30 s


async def test_the_same_key_in_several_processes_at_once_runs_once(url: str, tmp_path: Path) -> None:
    async with Perdure.open(url) as store:
        await store.threads()
    children = [spawned("turn", url, tmp_path) for _ in range(4)]
    assert [child.wait(60) for child in children] == [0] * 4
    assert noted(tmp_path) == ["answer"]


async def test_a_synchronous_run_that_was_killed_goes_on_in_another_process(url: str, tmp_path: Path) -> None:
    assert spawned("turn_in_place", url, tmp_path).wait(60) == -signal.SIGKILL
    async with Perdure.open(url) as store:
        assert [info.status for info in await store.runs()] == ["interrupted"]
        assert await block(store, lambda run: run.step("die", lambda: "alive"), wait=0) == "alive"
