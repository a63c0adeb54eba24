"""What a configuration file says about people has its effect on real questions, on SQLite and PostgreSQL."""

from __future__ import annotations

import warnings
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import Perdure, ScriptedModel
from perdure.errors import PausesExpireWarning
from perdure.testing.clock import ManualClock
from tests.seeds.approval_stage import did, does

SCRIPT = [[("deploy", {}), ("search", {})], "Over."]
PEOPLE = "human_in_the_loop: {require_approval_for: [deploy], trusted_operations: [search]"


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@asynccontextmanager
async def opened(
    folder: Path, url: str, clock: ManualClock | None, text: str = "", **recovery: Any
) -> AsyncIterator[Any]:
    """A store by a file, with an agent that deploys without asking and searches with, and a handler that asks."""
    path = folder / "config.yaml"
    given = ", ".join(f"{name}: {value}" for name, value in {"auto_resume_hitl": "true", **recovery}.items())
    path.write_text(f"storage:\n  sessions: {url}\n  checkpoint: {{recovery: {{{given}}}}}\n{text}\n")
    async with Perdure.from_config(path, clock=clock) as store:
        tools = [
            perdure.tool(lambda: does(folder, "deploy"), name="deploy"),
            perdure.tool(require_approval=True, name="search")(lambda: does(folder, "search")),
        ]
        store.agent("agent", model=ScriptedModel(SCRIPT), tools=tools)
        store.handler("asker")(asking)
        yield store


async def asking(run: Any) -> list[Any]:
    decision = await run.pause("go", ask="Go on?")
    return [decision.approved, decision.expired]


async def waits(store: Any, name: str) -> list[str]:
    """Start it, and tell what somebody is asked about."""
    await store.start(name, "go", thread="t")
    await store.recover()
    return [pause.name for pause in await store.pauses()]


async def messages(store: Any) -> list[str]:
    return [each["content"] for each in await store.thread("t").messages(role="tool")]


async def test_an_operator_says_what_is_asked_about_and_what_is_not(
    url: str, tmp_path: Path, clock: ManualClock
) -> None:
    """N0: `require_approval_for` and `trusted_operations` win over what the tools say."""
    async with opened(tmp_path, url, clock, PEOPLE + "}") as store:
        assert (await waits(store, "agent"), did(tmp_path)) == (["deploy"], [["search"]])
        await store.decide((await store.pauses())[0], approved=True, by="ann")
        assert [info.result for info in await store.recover()] == ["Over."]
    assert did(tmp_path) == [["search"], ["deploy"]]


async def test_with_people_switched_off_the_tools_say_what_is_asked_about(
    url: str, tmp_path: Path, clock: ManualClock
) -> None:
    """N0: `enabled: false`."""
    async with opened(tmp_path, url, clock, PEOPLE + ", enabled: false}") as store:
        assert (await waits(store, "agent"), did(tmp_path)) == (["search"], [["deploy"]])


@pytest.mark.parametrize("reject", ["true", "false"])
async def test_what_nobody_approves_in_time_is_denied_or_waits_on(
    url: str, tmp_path: Path, clock: ManualClock, reject: str
) -> None:
    """N0: `approval_timeout_seconds` with `auto_reject_on_timeout`."""
    people = f"{PEOPLE}, approval_timeout_seconds: 300, auto_reject_on_timeout: {reject}}}"
    async with opened(tmp_path, url, clock, people) as store:
        await waits(store, "agent")
        clock.advance(timedelta(seconds=300 if reject == "true" else 10**8))
        ended = [info.result for info in await store.recover()]
        if reject == "true":
            assert (ended, (await messages(store))[0]) == (
                *(["Over."], "denied: deploy was not run: nobody approved it in time"),
            )
        else:
            assert (ended, len(await store.pauses())) == ([], 1)
    assert did(tmp_path) == [["search"]]


async def test_an_old_timeout_lets_pauses_expire_with_a_warning(url: str, tmp_path: Path, clock: ManualClock) -> None:
    """N4: `recovery.timeout`; by then nothing has to be running."""
    async with AsyncExitStack() as stack:
        with pytest.warns(PausesExpireWarning, match="expire after 3600 s"):
            store = await stack.enter_async_context(opened(tmp_path, url, clock, timeout=3600))
        assert await waits(store, "asker") == ["go"]
        clock.advance(timedelta(seconds=3599))
        assert (await store.recover(), len(await store.pauses())) == ([], 1)
    clock.advance(timedelta(seconds=1))
    async with opened(tmp_path, url, clock) as store:
        assert [info.result for info in await store.recover()] == [[False, True]]


@pytest.mark.filterwarnings("ignore::perdure.errors.PausesExpireWarning")
async def test_a_question_that_expires_while_a_server_runs_is_gone_on_with_at_once(url: str, tmp_path: Path) -> None:
    """N4, S4.20: as one that is decided then is, also with `auto_resume_hitl: false`."""
    async with opened(tmp_path, url, None, timeout=0.2, auto_resume_hitl="false") as store, store.worker():
        ticket = await store.start("asker", thread="t")
        assert await ticket.result(timeout=60) == [False, True]


async def test_without_it_they_wait_without_a_warning(url: str, tmp_path: Path, clock: ManualClock) -> None:
    """N4"""
    with warnings.catch_warnings():
        warnings.simplefilter("error", PausesExpireWarning)
        async with opened(tmp_path, url, clock) as store:
            assert await waits(store, "asker") == ["go"]
            clock.advance(timedelta(days=3650))
            assert (await store.recover(), len(await store.pauses())) == ([], 1)
