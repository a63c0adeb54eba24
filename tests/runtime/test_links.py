"""Links with which a person decides once, without an account."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from perdure.core.errors import (
    InvalidInputError,
    LinkExpiredError,
    LinkInvalidError,
    NotAllowedError,
    PauseClosedError,
)
from tests.runtime.scenes import block, clock, jobs, store

__all__ = ["clock", "jobs", "store"]


async def deploying(run: Any) -> Any:
    decision = await run.pause("deploy", ask="Deploy?", who=["ann"], deadline=timedelta(days=30))
    return [decision.approved, decision.by, decision.answer]


async def asked(store: Any) -> Any:
    await block(store, deploying)
    (pause,) = await store.pauses()
    return pause


async def test_a_link_shows_the_question_and_decides_once(store: Any) -> None:
    """B17: signed one-time link."""
    pause = await asked(store)
    token = await store.link(pause, by="ann")
    assert await store.linked(token) == pause
    await store.decide_by_link(token, approved=True, answer="from the phone")
    with pytest.raises(PauseClosedError, match="ann"):
        await store.decide_by_link(token, approved=False)
    with pytest.raises(PauseClosedError, match="ann"):
        await store.linked(token)
    assert await block(store, deploying) == [True, "ann", "from the phone"]


async def test_a_link_ends(store: Any, clock: Any) -> None:
    token = await store.link(await asked(store), by="ann", expires=timedelta(hours=1))
    clock.advance(timedelta(hours=1))
    with pytest.raises(LinkExpiredError):
        await store.decide_by_link(token, approved=True)
    assert len(await store.pauses()) == 1


async def test_a_link_that_was_changed_decides_nothing(store: Any) -> None:
    token = await store.link(await asked(store), by="ann")
    with pytest.raises(LinkInvalidError):
        await store.decide_by_link(token[:-2] + ("AA" if token[-2:] != "AA" else "BB"), approved=True)
    assert len(await store.pauses()) == 1


async def test_a_link_is_made_only_for_who_may_decide_about_what_is_open(store: Any, clock: Any) -> None:
    pause = await asked(store)
    with pytest.raises(NotAllowedError):
        await store.link(pause, by="mallory")
    with pytest.raises(InvalidInputError):
        await store.link(pause, by="ann", expires=timedelta(0))
    clock.advance(timedelta(days=30))
    with pytest.raises(PauseClosedError, match="its deadline"):
        await store.link(pause, by="ann")
