"""Running workflows: what each kind of step does, and what is recorded of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from perdure import Perdure, StandardAgent, durable
from perdure.errors import InvalidInputError, KeyReusedError, StepDeniedError
from perdure.testing.clock import ManualClock
from perdure.workflows import WorkflowExecutor, as_mermaid, as_text, parse_workflow
from tests.workflows.scenes import MARKS, OUTPUT, RELEASE, World, answered, executor


async def ran(store: Perdure, text: str, inputs: dict[str, Any] | None = None, **named: Callable[..., Any]) -> Any:
    runner = WorkflowExecutor(named, tools=named, store=store)
    return await runner.run(parse_workflow(text), inputs)


async def echo(given: Any) -> Any:
    return given


async def test_a_workflow_with_every_kind_of_step_pauses_for_a_person_and_ends(store: Perdure, world: World) -> None:
    runner, workflow = executor(store, world), parse_workflow(RELEASE)
    paused = await runner.run(workflow, {"service": "api"}, thread="r1")
    assert (paused.status, paused.pauses[0].ask) == ("input_required", "Deploy api?")
    assert {name: each.status for name, each in paused.steps.items() if each.status != "pending"} == {
        "plan": "finished", "build": "finished", "tests": "finished", "unit": "finished", "lint": "finished",
        "notify": "finished", "never": "skipped", "settle": "finished", "approve": "waiting",
    }  # fmt: skip
    await answered(store, "r1", world)
    result = await runner.run(workflow, {"service": "api"}, thread="r1")
    assert (bool(result), result.output, world.counts()) == (True, OUTPUT, MARKS)
    assert result["tests"] == {"unit": 12, "lint": "clean api-3"}
    assert result.steps["canary"].error == "RuntimeError: too slow"


async def test_the_same_key_is_the_same_run_and_other_inputs_are_refused(store: Perdure) -> None:
    text = "inputs: {n: integer}\nsteps:\n  - {name: a, agent: echo, input: '{{ inputs.n }}'}\n"
    runner = WorkflowExecutor({"echo": echo}, store=store)
    first = await runner.run(parse_workflow(text), {"n": 1}, thread="t", key="k")
    again = await runner.run(parse_workflow(text), {"n": 1}, thread="t", key="k")
    assert first.output == again.output == 1
    assert first.run.id == again.run.id
    with pytest.raises(KeyReusedError):
        await runner.run(parse_workflow(text), {"n": 2}, thread="t", key="k")


@pytest.mark.parametrize(
    ("inputs", "problem"),
    [
        ({}, "input 'city' is missing \\(text\\)"),
        ({"city": 3}, "input 'city' must be text, not int"),
        ({"city": "Paris", "n": True}, "input 'n' must be integer, not bool"),
        ({"citi": "Paris"}, "unknown input 'citi', did you mean 'city'\\?"),
    ],
)
async def test_wrong_inputs_are_refused_before_anything_is_written(
    store: Perdure, inputs: dict[str, Any], problem: str
) -> None:
    text = "inputs: {city: text, n: {type: integer, default: 3}}\nsteps:\n  - {name: a, agent: echo}\n"
    with pytest.raises(InvalidInputError, match=problem):
        await ran(store, text, inputs, echo=echo)
    assert await store.threads() == []


async def test_the_output_of_a_step_is_the_input_of_the_next_one_without_an_input(store: Perdure) -> None:
    result = await ran(
        store, "steps:\n  - {name: a, agent: echo, input: [1, 2]}\n  - {name: b, agent: echo}\n", echo=echo
    )
    assert result["b"] == [1, 2]


@pytest.mark.parametrize(
    ("when", "runs"),
    [
        ("{{ steps.a.output.n }} == 3", True), ("{{ steps.a.output.n }} > 3", False), ("steps.a.output.n >= 3", True),
        ("not {{ steps.a.output.flag }}", True), ("{{ steps.a.output.city }} == 'Paris'", True),
        ("{{ steps.a.output.city }} in steps.a.output.cities", True),
        ("'Rome' not in {{ steps.a.output.cities }}", True),
        ("{{ steps.a.output.n }} != 3 or {{ steps.a.output.city }} == \"Paris\"", True),
        ("{{ steps.a.output.n }} == 3 and {{ steps.a.output.flag }}", False), ("false", False),
        ("{{ steps.a.status }} == finished", None),
    ],
)  # fmt: skip
async def test_a_condition_compares_paths_and_values(store: Perdure, when: str, runs: bool | None) -> None:
    output = "{n: 3, flag: false, city: Paris, cities: [Paris, Oslo]}"
    text = (
        f"steps:\n  - {{name: a, agent: echo, input: {output}}}\n"
        f"  - name: b\n    agent: echo\n    when: >-\n      {when}\n"
    )
    if runs is None:  # a bare word is a path
        with pytest.raises(Exception, match="there is no 'finished'"):
            await ran(store, text, echo=echo)
        return
    result = await ran(store, text, echo=echo)
    assert result.steps["b"].status == ("finished" if runs else "skipped")


async def test_values_that_cannot_be_compared_are_told(store: Perdure) -> None:
    text = (
        "steps:\n  - {name: a, agent: echo, input: x}\n  - {name: b, agent: echo, when: '{{ steps.a.output }} > 3'}\n"
    )
    with pytest.raises(ValueError, match="str and int cannot be compared by >"):
        await ran(store, text, echo=echo)


async def test_a_path_that_leads_nowhere_names_what_is_there(store: Perdure) -> None:
    first = "steps:\n  - {name: a, agent: echo, input: {x: 1}}\n"
    text = first + "  - {name: b, agent: echo, input: '{{ steps.a.output.y }}'}\n"
    with pytest.raises(InvalidInputError, match=r"steps\.a\.output has no 'y'; it has x"):
        await ran(store, text, echo=echo)


async def test_a_retry_is_made_for_the_named_exceptions_only(store: Perdure) -> None:
    calls: list[str] = []

    async def flaky(given: str) -> str:
        calls.append(given)
        if len(calls) < 3:
            raise ConnectionResetError("again")
        return "done"

    async def broken(given: str) -> str:
        calls.append("broken")
        raise KeyError("no")

    retry = "retry: {times: 5, delay: 0, backoff: 1, on: [OSError]}"
    result = await ran(store, f"steps:\n  - {{name: a, agent: flaky, input: x, {retry}}}\n", flaky=flaky)
    assert (result.output, calls) == ("done", ["x", "x", "x"])
    with pytest.raises(KeyError):
        await ran(store, f"steps:\n  - {{name: a, agent: broken, input: x, {retry}}}\n", broken=broken)
    assert calls.count("broken") == 1


async def test_a_step_that_takes_too_long_is_stopped(store: Perdure) -> None:
    async def slow(given: Any) -> None:
        await asyncio.sleep(30)

    with pytest.raises(TimeoutError):
        await ran(store, "steps:\n  - {name: a, agent: slow, timeout: 0.02}\n", slow=slow)


async def test_foreach_runs_at_most_as_many_at_once_as_the_limit_says_and_keeps_the_order(store: Perdure) -> None:
    at_work, most = 0, 0

    async def square(given: int) -> int:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.01 / given)
        at_work -= 1
        return given * given

    text = "inputs: {n: list}\nsteps:\n  - {name: a, foreach: inputs.n, limit: 2, agent: square}\n"
    result = await ran(store, text, {"n": [1, 2, 3, 4, 5]}, square=square)
    assert (result.output, most) == ([1, 4, 9, 16, 25], 2)
    with pytest.raises(InvalidInputError, match="needs a list, not str"):
        await ran(store, text.replace("n: list", "n: any"), {"n": "abc"}, square=square)


async def test_what_began_beside_a_failure_comes_to_its_end_and_is_not_run_again(store: Perdure, world: World) -> None:
    async def good(given: Any) -> str:
        await asyncio.sleep(0.02)
        world.mark("good")
        return "good"

    async def bad(given: Any) -> str:
        world.mark("bad")
        if world.counts()["bad"] == 1:
            raise RuntimeError("bad")
        return "mended"

    runner = WorkflowExecutor({"good": good, "bad": bad}, store=store)
    text = "steps:\n  - name: p\n    parallel:\n      - {name: g, agent: good}\n      - {name: b, agent: bad}\n"
    with pytest.raises(RuntimeError) as caught:
        await runner.run(parse_workflow(text), thread="t")
    assert "in step 'b' of workflow 'workflow' (workflow.yaml:5:9)" in caught.value.__notes__
    result = await runner.run(parse_workflow(text), thread="t")
    assert result.output == {"g": "good", "b": "mended"}
    assert world.counts() == {"good": 1, "bad": 2}


async def test_a_failure_may_be_passed_over_and_looked_at_later(store: Perdure) -> None:
    async def bad(given: Any) -> None:
        raise LookupError("nothing there")

    text = (
        "steps:\n  - {name: a, agent: bad, on_error: continue}\n"
        "  - {name: b, agent: echo, input: '{{ steps.a.status }}: {{ steps.a.error.message }}'}\n"
    )
    assert (await ran(store, text, bad=bad, echo=echo)).output == "failed: nothing there"


async def test_a_denied_approval_ends_the_run_or_goes_to_its_fallback(store: Perdure) -> None:
    runner = WorkflowExecutor({"echo": echo}, store=store)
    stops = parse_workflow("steps:\n  - {name: ok, approval: 'Go?'}\n  - {name: a, agent: echo}\n")
    first = await runner.run(stops, thread="t1")
    await store.decide(first.pauses[0], approved=False, by="ann", answer="not today")
    with pytest.raises(StepDeniedError, match="step 'ok' was not approved: denied by ann: not today"):
        await runner.run(stops, thread="t1")
    fallback = "{fallback: {agent: echo, input: '{{ error.type }}'}}"
    text = f"steps:\n  - name: ok\n    approval: 'Go?'\n    on_error: {fallback}\n"
    falls = parse_workflow(text, "other.yaml")
    second = await runner.run(falls, thread="t2")
    await store.decide(second.pauses[0], approved=False, by="ann")
    assert (await runner.run(falls, thread="t2")).output == "StepDeniedError"


async def test_an_approval_has_choices_people_and_a_deadline() -> None:
    clock = ManualClock()
    async with Perdure.open("memory://", clock=clock) as store:
        approval = "{ask: Which?, choices: [a, b], who: ann, deadline: 1h, on_deny: continue}"
        text = f"steps:\n  - name: which\n    approval: {approval}\n"
        runner, workflow = WorkflowExecutor(store=store), parse_workflow(text)
        (pause,) = (await runner.run(workflow, thread="t1")).pauses
        assert (pause.choices, pause.who) == (("a", "b"), ("ann",))
        await store.decide(pause, approved=True, by="ann", answer="b")
        assert (await runner.run(workflow, thread="t1")).output["answer"] == "b"
        await runner.run(workflow, thread="t2")
        clock.advance(timedelta(hours=2))
        assert (await runner.run(workflow, thread="t2")).output["approved"] is False


async def test_a_wait_for_a_signal_and_for_a_time_ends_in_another_process() -> None:
    clock = ManualClock()
    async with Perdure.open("memory://", clock=clock) as store:
        text = (
            "inputs: {when: text}\nsteps:\n  - {name: a, wait: {signal: paid}}\n  - {name: b, wait: 2h}\n"
            "  - {name: c, wait: {until: '{{ inputs.when }}'}}\n"
            "  - {name: d, agent: echo, input: '{{ steps.a.output }}'}\n"
        )
        runner, workflow = WorkflowExecutor({"echo": echo}, store=store), parse_workflow(text)
        when = {"when": "2000-01-01T00:00Z"}
        assert (await runner.run(workflow, when, thread="t")).status == "waiting"
        await store.signal("t", "paid", {"eur": 3})
        assert [each.status for each in await store.recover()] == ["waiting"]
        clock.advance(timedelta(hours=3))
        (info,) = await store.recover()
        assert (info.status, info.result) == ("finished", {"eur": 3})
        bad = parse_workflow("steps:\n  - {name: a, wait: {until: '2030-01-01T00:00'}}\n", "b.yaml")
        with pytest.raises(InvalidInputError, match="has no time zone; add one"):
            await WorkflowExecutor(store=store).run(bad)


async def test_an_agent_that_needs_a_field_asks_a_person(store: Perdure) -> None:
    class Booking(StandardAgent):
        required_fields = ({"name": "city", "prompt": "Which city?"}, "nights")

        async def on_running(self, msg: Any) -> str:
            return f"{self.collected_fields['nights']} nights in {self.collected_fields['city']}"

    runner, workflow = (
        WorkflowExecutor({"Booking": Booking}, store=store),
        parse_workflow("steps:\n  - {name: book, agent: Booking, input: hello}\n"),
    )
    for question, answer in (("Which city?", "Paris"), ("Please give nights.", "3")):
        result = await runner.run(workflow, thread="t")
        assert result.pauses[0].ask == question
        await store.decide(result.pauses[0], approved=True, by="ann", answer=answer)
    assert (await runner.run(workflow, thread="t")).output == "3 nights in Paris"


async def test_calls_of_durable_functions_inside_an_agent_are_not_repeated(store: Perdure, world: World) -> None:
    @durable
    async def costly() -> int:
        world.mark("costly")
        return 7

    async def agent(given: Any) -> int:
        value = await costly()
        world.mark("agent")
        if world.counts()["agent"] == 1:
            raise RuntimeError("after the costly part")
        return value

    runner, workflow = (
        WorkflowExecutor({"agent": agent}, store=store),
        parse_workflow("steps:\n  - {name: a, agent: agent}\n"),
    )
    with pytest.raises(RuntimeError):
        await runner.run(workflow, thread="t")
    assert (await runner.run(workflow, thread="t")).output == 7
    assert world.counts() == {"costly": 1, "agent": 2}


async def test_a_fallback_that_fails_too_ends_the_run_with_its_own_error(store: Perdure) -> None:
    async def bad(given: Any) -> None:
        raise LookupError(str(given))

    fallback = "{fallback: {agent: bad, input: second}}"
    with pytest.raises(LookupError, match="second"):
        await ran(store, f"steps:\n  - {{name: a, agent: bad, input: first, on_error: {fallback}}}\n", bad=bad)


async def test_a_plan_is_shown_as_text_and_as_a_diagram(store: Perdure, world: World) -> None:
    runner, workflow = executor(store, world), parse_workflow(RELEASE)
    paused = await runner.run(workflow, {"service": "api"}, thread="r1")
    text = as_text(workflow, paused.steps)
    assert "✓ build: tool build (finished)" in text
    assert "… approve: approval a person approves (waiting)" in text
    diagram = as_mermaid(workflow, paused.steps)
    assert diagram.startswith("flowchart TD")
    assert "on error" in diagram
