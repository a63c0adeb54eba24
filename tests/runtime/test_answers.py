"""Typed answers, who may give them, and until when."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

import pytest
from pydantic import BaseModel, field_validator

from perdure.core.errors import (
    InvalidAnswerError,
    InvalidInputError,
    NotAllowedError,
    PauseChangedError,
    PauseClosedError,
)
from tests.runtime.scenes import block, clock, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


@dataclass
class Window:
    region: str
    hours: int = 2


class Form(BaseModel):
    region: Literal["eu", "us"]
    hours: int = 2


class Odd(BaseModel):
    n: int

    @field_validator("n")
    @classmethod
    def check(cls, n: int) -> int:
        if n % 2 == 0:
            raise ValueError("odd numbers only")
        return n


def asking(**question: Any) -> Any:
    async def code(run: Any) -> Any:
        decision = await run.pause("deploy", ask="Deploy?", **question)
        return [decision.approved, decision.answer, decision.expired]

    return code


FORM = {"type": "object", "properties": {"region": {"type": "string"}}, "required": ["region"]}
FITTING = [
    (["eu", "us"], "eu", "eu"),
    (Literal["eu", "us"], "us", "us"),
    (str, "because", "because"),
    (Any, {"any": [1, 2]}, {"any": [1, 2]}),
    (FORM, {"region": "eu"}, {"region": "eu"}),
    (Window, {"region": "eu"}, Window("eu", 2)),
    (Window, Window("us", 3), Window("us", 3)),
    (Form, {"region": "eu", "hours": 4}, Form(region="eu", hours=4)),
]


@pytest.mark.parametrize(("expects", "answer", "seen"), FITTING)
async def test_an_answer_that_fits_reaches_the_code_in_its_own_type(
    store: Any, expects: Any, answer: Any, seen: Any
) -> None:
    """B17"""
    await block(store, asking(expects=expects))
    (pause,) = await store.pauses()
    await store.decide(pause, approved=True, by="ann", answer=answer)
    got: list[Any] = []

    async def code(run: Any) -> None:
        got.append((await run.pause("deploy", ask="Deploy?", expects=expects)).answer)

    await block(store, code)
    assert got == [seen]


@pytest.mark.parametrize(
    ("expects", "answer", "said"),
    [
        (["eu", "us"], "asia", "one of 'eu', 'us'"),
        (["eu", "us"], None, "one of"),
        (str, " ", "a text"),
        (FORM, {}, "'region' is a required property"),
        (Window, {"region": 1}, r"answer\.region"),
        (Form, {"region": "mars"}, "mars"),
    ],
)
async def test_an_answer_that_does_not_fit_is_refused_and_the_pause_stays_open(
    store: Any, expects: Any, answer: Any, said: str
) -> None:
    """B17"""
    await block(store, asking(expects=expects))
    (pause,) = await store.pauses()
    with pytest.raises(InvalidAnswerError, match=said):
        await store.decide(pause, approved=True, by="ann", answer=answer)
    assert await store.pauses() == [pause]
    await store.decide(pause, approved=False, by="ann", answer="no answer is needed to say no")
    assert await block(store, asking(expects=expects)) == [False, "no answer is needed to say no", False]


async def test_a_pause_tells_what_it_expects_of_whom_and_until_when(store: Any, clock: Any) -> None:
    await block(store, asking(expects=["eu", "us"], who=["ann", "bob"], deadline=timedelta(hours=1)))
    (pause,) = await store.pauses()
    assert (pause.expects, pause.choices, pause.who) == ("choice", ("eu", "us"), ("ann", "bob"))
    assert pause.deadline - pause.at == timedelta(hours=1)
    await block(store, asking(expects=Form), "other")
    (pause,) = await store.pauses("other")
    assert (pause.expects, pause.schema["properties"]["hours"]["default"]) == ("form", 2)


@pytest.mark.parametrize("wrong", ["maybe", [], ["eu", "eu"], ["eu", 1], {"type": "nothing"}, {"x": object()}, 5])
async def test_what_cannot_be_asked_is_refused_before_anybody_is(store: Any, wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        await block(store, asking(expects=wrong))
    assert await store.pauses() == []


@pytest.mark.parametrize("wrong", [0, -1, "tomorrow", True, timedelta(0)])
async def test_a_deadline_has_to_be_ahead(store: Any, wrong: Any) -> None:
    with pytest.raises((InvalidInputError, AttributeError)):
        await block(store, asking(deadline=wrong))
    assert await store.pauses() == []


async def test_only_those_who_may_answer_do(store: Any) -> None:
    """B17"""
    await block(store, asking(who=["ann", "bob"]))
    (pause,) = await store.pauses()
    with pytest.raises(NotAllowedError, match=r"mallory may not decide .* ann or bob"):
        await store.decide(pause, approved=True, by="mallory")
    assert await store.pauses() == [pause]
    await store.decide(pause, approved=True, by="bob")
    assert await block(store, asking(who=["ann", "bob"])) == [True, None, False]


async def test_what_nobody_answered_until_the_deadline_is_denied(store: Any, clock: Any) -> None:
    """B17"""
    code = asking(deadline=60)
    await block(store, code)
    (pause,) = await store.pauses()
    clock.advance(timedelta(seconds=60))
    with pytest.raises(PauseClosedError, match="denied by its deadline"):
        await store.decide(pause, approved=True, by="ann")
    assert await block(store, code) == [False, None, True]
    assert (await kinds(store)).count("pause.decided") == 1


async def test_the_code_finds_out_about_the_deadline_when_nobody_else_did(store: Any, clock: Any) -> None:
    code = asking(deadline=60)
    await block(store, code)
    clock.advance(timedelta(seconds=59))
    await block(store, code)
    assert len(await store.pauses()) == 1
    clock.advance(timedelta(seconds=1))
    assert await block(store, code) == [False, None, True]


async def test_a_pause_without_a_deadline_waits_for_a_month(store: Any, clock: Any) -> None:
    """S4.2"""
    await block(store, asking())
    clock.advance(timedelta(days=30))
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    clock.advance(timedelta(days=30))
    assert await block(store, asking()) == [True, None, False]


@pytest.mark.parametrize("hitl", [True, False])
async def test_an_expired_pause_of_a_handler_goes_on_as_one_that_was_decided(
    store: Any, clock: Any, hitl: bool
) -> None:
    from perdure.app.store import parts_of
    from perdure.core.recovery_policy import RecoveryPolicy

    parts_of(store).running.runtime.recovery_policy = RecoveryPolicy(auto_resume_hitl=hitl)
    store.handler("deploy")(asking(deadline=60))
    await store.start("deploy", thread="t")
    await store.recover()
    clock.advance(timedelta(seconds=90))
    assert [info.result for info in await store.recover()] == ([[False, None, True]] if hitl else [])
    assert (await store.thread("t").info()).status == ("finished" if hitl else "decided")
    if not hitl:
        assert (await store.resume("t")).result == [False, None, True]


async def test_code_that_asks_about_something_else_by_now_is_stopped_before_any_effect(store: Any) -> None:
    await block(store, asking(args={"env": "prod", "size": 1}))
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    with pytest.raises(PauseChangedError, match=r"args.size is gone, it was 1; args.env was 'prod', now 'live'"):
        await block(store, asking(args={"env": "live"}))
    assert await block(store, asking(args={"env": "prod", "size": 1})) == [True, None, False]


async def test_an_argument_that_was_added_meanwhile_is_not_among_what_was_approved(store: Any) -> None:
    """S4.24"""

    async def code(run: Any) -> Any:
        return (await run.pause("deploy", ask="Deploy?", args={"env": "prod", "region": "eu"})).args

    await block(store, asking(args={"env": "prod"}))
    await store.decide((await store.pauses())[0], approved=True, by="ann")
    assert await block(store, code) == {"env": "prod"}


async def test_a_form_may_get_a_field_meanwhile_if_the_answer_still_fits(store: Any) -> None:
    """S4.24"""
    wider = {"type": "object", "properties": {**FORM["properties"], "why": {"type": "string"}}, "required": ["region"]}
    await block(store, asking(expects=FORM))
    await store.decide((await store.pauses())[0], approved=True, by="ann", answer={"region": "eu"})
    with pytest.raises(PauseChangedError, match=r"field why is new; field why is required now; .*'why' is a required"):
        await block(store, asking(expects={**wider, "required": ["region", "why"]}))
    assert await block(store, asking(expects=wider)) == [True, {"region": "eu"}, False]


async def test_code_that_dropped_the_question_does_not_go_past_it(store: Any, jobs: Any) -> None:
    from perdure.core.errors import RunDivergedError

    async def upgraded(run: Any) -> Any:
        return await run.tool("deploy", jobs.job("deploy"))

    await block(store, asking())
    with pytest.raises(RunDivergedError, match="pause deploy"):
        await block(store, upgraded)
    assert jobs.ran == []


async def test_questions_of_one_name_that_are_asked_at_once_get_their_own_answers(store: Any) -> None:
    def deleting(*names: str) -> Any:
        async def one(run: Any, name: str) -> str | None:
            return name if await run.pause("delete", ask=f"Delete {name}?") else None

        async def code(run: Any) -> Any:
            return await asyncio.gather(*(one(run, name) for name in names))

        return code

    await block(store, deleting("alpha", "beta"))
    for pause in await store.pauses():
        await store.decide(pause, approved="alpha" in pause.ask, by="ann")
    assert await block(store, deleting("beta", "alpha")) == [None, "alpha"]


async def test_a_question_in_other_words_is_another_question(store: Any) -> None:
    await block(store, asking())
    await store.decide((await store.pauses())[0], approved=True, by="ann")

    async def code(run: Any) -> Any:
        return bool(await run.pause("deploy", ask="Deploy to the moon?"))

    with pytest.raises(PauseChangedError, match=r"it asked 'Deploy\?', now 'Deploy to the moon\?'"):
        await block(store, code)
    assert await block(store, code, changed="accept") is True


async def test_an_open_question_stays_as_it_was_asked_when_its_words_change(store: Any) -> None:
    await block(store, asking())
    before = await store.pauses()

    async def code(run: Any) -> Any:
        return bool(await run.pause("deploy", ask="Deploy now?"))

    await block(store, code)
    assert await store.pauses() == before


@pytest.mark.parametrize(
    "wrong",
    [
        *({"ask": None}, {"ask": 5}, {"ask": " "}, {"ask": "\ud800"}, {"args": "x"}, {"args": {1: 2}}, {"who": []}),
        *({"who": 5}, {"deadline": timedelta(days=3_000_000)}, {"deadline": float("inf")}, {"deadline": float("nan")}),
        {"expects": {"$ref": "#/nowhere"}},
    ],
)
async def test_a_question_that_cannot_be_kept_is_refused_and_nothing_is_written(
    store: Any, wrong: dict[str, Any]
) -> None:
    with pytest.raises(InvalidInputError):
        await block(store, lambda run: run.pause("q", **{"ask": "Really?", **wrong}))
    assert (await store.pauses(), (await kinds(store)).count("pause.opened")) == ([], 0)


@pytest.mark.parametrize("wrong", [5, None, object()])
async def test_what_is_no_pause_cannot_be_decided(store: Any, wrong: Any) -> None:
    with pytest.raises(InvalidInputError):
        await store.decide(wrong, approved=True, by="ann")


async def test_five_point_zero_is_no_integer(store: Any) -> None:
    await block(store, asking(expects=int))
    (pause,) = await store.pauses()
    with pytest.raises(InvalidAnswerError, match="integer"):
        await store.decide(pause, approved=True, by="ann", answer=5.0)


@pytest.mark.parametrize(
    ("expects", "answer", "said"), [(datetime, "soon", "Invalid"), (Odd, {"n": 2}, "odd numbers only")]
)
async def test_a_rule_that_no_schema_tells_is_named_where_the_code_gets_the_answer(
    store: Any, expects: Any, answer: Any, said: str
) -> None:
    await block(store, asking(expects=expects))
    await store.decide((await store.pauses())[0], approved=True, by="ann", answer=answer)
    with pytest.raises(PauseChangedError, match=said):
        await block(store, asking(expects=expects))
    assert await block(store, asking(expects=expects), changed="accept") == [True, answer, False]


async def test_edited_arguments_are_a_mapping(store: Any) -> None:
    await block(store, asking(args={"env": "prod"}))
    (pause,) = await store.pauses()
    for wrong in ([], "env", 5):
        with pytest.raises(InvalidAnswerError, match="mapping"):
            await store.decide(pause, approved=True, by="ann", args=wrong)
    assert await store.pauses() == [pause]
