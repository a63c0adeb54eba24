"""Every way in which a question ends, asked by a handler and by an agent's tool, on SQLite and PostgreSQL."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from perdure import Approvals, Perdure, RecoveryPolicy
from perdure.errors import NotAllowedError, PauseClosedError, VersionConflictError
from perdure.testing.clock import START, ManualClock
from tests.seeds.approval_stage import did
from tests.seeds.decision_stage import ARGS, ASKING, asked, decisions, told

Opening = Callable[..., AbstractAsyncContextManager[Any]]
DEPLOYED = list(ARGS.values())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=list(ASKING))
def opening(request: pytest.FixtureRequest, url: str, tmp_path: Path, clock: ManualClock) -> Opening:
    """Opens the store as a program that starts: with its handler or agent, and a clock that a test moves."""

    @asynccontextmanager
    async def opened(**options: Any) -> AsyncIterator[Any]:
        policy = RecoveryPolicy(auto_resume_hitl=True)
        async with Perdure.open(url, clock=clock, recovery=policy, **options) as store:
            ASKING[request.param](store, tmp_path)
            yield store

    return opened


async def test_approved_it_is_done_once(opening: Opening, tmp_path: Path) -> None:
    """S4.21, S4.22, S4.25, B17: and who and when is in the log."""
    async with opening() as store:
        pause = await asked(store)
        assert [point.kind for point in await store.thread("t").history()] == ["pause"]
        assert await store.recover() == []
        decision = await store.decide(pause, approved=True, by="ann", version=pause.version)
        assert (await told(store), did(tmp_path)) == ("done", [DEPLOYED])
        assert (await store.recover(), await decisions(store)) == ([], [("ann", decision.at)])


async def test_denied_it_is_not_done_and_the_run_is_told_by_whom_and_why(opening: Opening, tmp_path: Path) -> None:
    """S4.26"""
    async with opening() as store:
        await store.decide(await asked(store), approved=False, by="bob", answer="not on Friday")
        assert (await told(store)).endswith("denied by bob: not on Friday")
        assert (did(tmp_path), (await decisions(store))[0][0]) == ([], "bob")


async def test_edited_it_is_done_as_edited(opening: Opening, tmp_path: Path) -> None:
    """S4.25, B17"""
    async with opening() as store:
        edited = {**ARGS, "tag": "1.5"}
        assert (await store.decide(await asked(store), approved=True, by="ann", args=edited)).args == edited
        assert (await told(store), did(tmp_path)) == ("done", [["api", "1.5"]])


async def test_expired_it_is_denied_and_it_is_too_late(opening: Opening, tmp_path: Path, clock: ManualClock) -> None:
    """N0, B17: nobody answered in time, and that is a no."""
    async with opening(approvals=Approvals(timeout=300)) as store:
        pause = await asked(store)
        assert pause.deadline == START + timedelta(seconds=300)
        clock.advance(timedelta(seconds=299))
        assert (await store.recover(), len(await store.pauses())) == ([], 1)
        clock.advance(timedelta(seconds=1))
        with pytest.raises(PauseClosedError, match="its deadline"):
            await store.decide(pause, approved=True, by="ann")
        assert (await told(store)).endswith("nobody approved it in time")
        assert (did(tmp_path), (await decisions(store))[0][0], await store.pauses()) == ([], None, [])


async def test_a_second_decision_names_the_first_also_when_they_come_at_once(opening: Opening, tmp_path: Path) -> None:
    """B17"""
    async with opening() as store, opening() as other:
        pause = await asked(store)
        given = [store.decide(pause, approved=True, by="ann"), other.decide(pause, approved=False, by="bob")]
        ended = await asyncio.gather(*given, return_exceptions=True)
        (first,) = [each for each in ended if not isinstance(each, BaseException)]
        (second,) = [each for each in ended if isinstance(each, PauseClosedError)]
        assert (second.by, second.approved) == (first.by, first.approved)
        with pytest.raises(PauseClosedError, match=str(first.by)):
            await store.decide(pause, approved=not first.approved, by="bob")
        assert (await told(store) == "done", did(tmp_path)) == (first.approved, [DEPLOYED] if first.approved else [])
        with pytest.raises(PauseClosedError, match=str(first.by)):
            await store.decide(pause, approved=True, by="bob")


async def test_who_saw_another_version_does_not_decide(opening: Opening, tmp_path: Path) -> None:
    """B17"""
    async with opening() as store:
        pause = await asked(store)
        with pytest.raises(VersionConflictError):
            await store.decide(pause, approved=True, by="ann", version=pause.version - 1)
        assert (await store.recover(), await store.pauses(), did(tmp_path)) == ([], [pause], [])
        await store.decide(pause, approved=True, by="ann", version=pause.version)
        assert (await told(store), did(tmp_path)) == ("done", [DEPLOYED])


async def test_somebody_else_does_not_decide(opening: Opening, tmp_path: Path) -> None:
    """B17"""
    async with opening() as store:
        pause = await asked(store)
        for approved in (True, False):
            with pytest.raises(NotAllowedError, match=r"mallory may not decide .* ann or bob"):
                await store.decide(pause, approved=approved, by="mallory")
        assert (await store.recover(), await store.pauses(), did(tmp_path)) == ([], [pause], [])
        await store.decide(pause, approved=True, by="bob")
        assert (await told(store), did(tmp_path)) == ("done", [DEPLOYED])


async def test_a_question_is_answered_a_month_later_and_gone_on_with_another_month_later(
    opening: Opening, tmp_path: Path, clock: ManualClock
) -> None:
    """S4.2, S4.3, S4.19, S4.24: nothing runs meanwhile, and it does not expire."""
    async with opening() as store:
        pause = await asked(store)
    clock.advance(timedelta(days=30))
    async with opening() as store:
        assert (await store.recover(), await store.pauses()) == ([], [pause])
        decision = await store.decide(pause, approved=True, by="ann")
        assert decision.at - pause.at == timedelta(days=30)
    clock.advance(timedelta(days=30))
    async with opening() as store:
        assert (await told(store), did(tmp_path)) == ("done", [DEPLOYED])
        (info,) = await store.runs()
        assert info.updated_at - pause.at == timedelta(days=60)
