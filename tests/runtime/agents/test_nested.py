"""Agents inside the run of somebody else: what they do and ask is recorded once, on the outer thread."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from perdure import ScriptedModel, sync, tool
from perdure.errors import InvalidInputError
from perdure.testing.clock import ManualClock
from perdure.workflows import WorkflowExecutor
from tests.checkpoints.places import PLACES, opened
from tests.runtime.scenes import Killed

RAN: list[Any] = []


@tool(require_approval=True, approval_prompt="Refund {amount} EUR?")
def refund(amount: int) -> str:
    RAN.append(amount)
    return f"refunded {amount}"


@tool
def look(city: str) -> str:
    RAN.append(city)
    return "blue"


@pytest.fixture(autouse=True)
def clean() -> None:
    RAN.clear()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with opened(PLACES[request.param](tmp_path), "async", clock=ManualClock()) as made:
        yield made


def both(store: Any, *, model: Any = None, **options: Any) -> tuple[Any, Any]:
    """A front desk that asks an accountant."""
    inner = model or ScriptedModel([("refund", {"amount": 5}), "5 EUR are on their way"])
    accountant = store.agent("accountant", model=inner, tools=[refund, look], description="Pays money back.")
    script = ScriptedModel([("accountant", {"prompt": "pay 5 back"}), "Done."])
    return store.agent("desk", model=script, tools=[accountant], **options), accountant


async def kinds(store: Any) -> list[str]:
    return [entry.kind.value for entry in await store.thread("t").entries()]


async def test_an_approval_of_an_inner_agent_is_asked_once_on_the_outer_thread(store: Any) -> None:
    desk, accountant = both(store)
    waits = await desk.run("I want my money", thread="t")
    (pause,) = await store.pauses()
    assert (pause.thread, pause.ask, waits.pauses, RAN) == ("t", "Refund 5 EUR?", [pause], [])
    assert (await desk.run("I want my money", thread="t")).pauses == [pause]
    await store.decide(pause, approved=True, by="ann")
    done = await desk.resume("t")
    assert (done.text, RAN, await store.pauses()) == ("Done.", [5], [])
    assert (desk.spec.model.calls, accountant.spec.model.calls) == (2, 2)
    assert [each["content"] for each in done.messages if each["role"] == "tool"] == ["5 EUR are on their way"]
    inner = (await store.thread("t").load())["agents"]["accountant"]["messages"]
    assert [each["role"] for each in inner] == ["user", "assistant", "tool", "assistant"]
    assert (await kinds(store)).count("pause.opened") == 1
    assert [thread.id for thread in await store.threads()] == ["t"]


async def test_what_an_inner_agent_is_denied_is_told_to_it(store: Any) -> None:
    desk, accountant = both(store)
    waits = await desk.run("go", thread="t")
    await store.decide(waits.pauses[0], approved=False, by="ann", answer="too much")
    assert (await desk.resume("t")).text == "Done."
    assert "denied by ann: too much" in accountant.spec.model.requests[1][-1]["content"]
    assert RAN == []


async def test_an_inner_agent_that_dies_goes_on_where_it_was(store: Any) -> None:
    died: list[bool] = []

    @tool(repeatable=True)
    def die() -> str:
        died.append(True)
        if len(died) == 1:
            raise Killed
        return "alive"

    model = ScriptedModel([("look", {"city": "Rome"}), ("die", {}), "fine"])
    inner = store.agent("inner", model=model, tools=[look, die])
    outer = store.agent("outer", model=ScriptedModel([("inner", {"prompt": "go"}), "done"]), tools=[inner])
    with pytest.raises(Killed):
        await outer.run("go", thread="t")
    assert (await outer.run("go", thread="t")).text == "done"
    assert (RAN, len(died), model.calls) == (["Rome"], 2, 3)


async def test_an_inner_agent_that_is_asked_twice_at_once_has_two_conversations(store: Any) -> None:
    model = ScriptedModel(["one", "two"])
    inner = store.agent("inner", model=model)
    twice = [("inner", {"prompt": "a"}), ("inner", {"prompt": "b"})]
    outer = store.agent("outer", model=ScriptedModel([twice, "done"]), tools=[inner])
    assert (await outer.run("go", thread="t")).text == "done"
    assert sorted(each["content"] for request in model.requests for each in request) == ["a", "b"]


async def test_agents_are_nested_more_than_once(store: Any) -> None:
    desk, _ = both(store)
    boss = store.agent("boss", model=ScriptedModel([("desk", {"prompt": "go"}), "all done"]), tools=[desk])
    waits = await boss.run("go", thread="t")
    await store.decide(waits.pauses[0], approved=True, by="ann")
    assert ((await boss.resume("t")).text, RAN) == ("all done", [5])


async def test_a_handler_asks_an_agent_inside_its_run(store: Any) -> None:
    _, accountant = both(store)

    async def code(run: Any) -> Any:
        return await accountant.answer_in(run, "pay 5 back", name="refunds")

    store.handler("billing")(code)
    await store.start("billing", thread="t")
    await store.recover()
    (pause,) = await store.pauses("t")
    await store.decide(pause, approved=True, by="ann")
    (info,) = await store.recover()
    assert (info.result, RAN) == ("5 EUR are on their way", [5])
    assert len((await store.thread("t").load())["agents"]["refunds"]["messages"]) == 4


async def test_a_workflow_asks_an_agent_inside_its_run(store: Any, tmp_path: Path) -> None:
    _, accountant = both(store)
    file = tmp_path / "refund.yaml"
    file.write_text("workflow:\n  name: refund\nsteps:\n  - name: pay\n    agent: accountant\n    input: pay 5 back\n")
    executor = WorkflowExecutor(agents={"accountant": accountant}, store=store)
    waits = await executor.run(workflow=file, inputs={})
    (pause,) = await store.pauses()
    assert (RAN, pause.ask, pause.thread) == ([], "Refund 5 EUR?", waits.thread)
    await store.decide(pause, approved=True, by="ann")
    done = await executor.run(workflow=file, inputs={}, thread=waits.thread)
    assert (done.output, RAN, accountant.spec.model.calls) == ("5 EUR are on their way", [5], 2)


async def test_an_inner_agent_is_told_of_by_its_description(store: Any) -> None:
    desk, _ = both(store)
    (schema,) = desk.spec.schemas
    assert (schema.name, schema.description, list(schema.parameters["properties"])) == (
        *("accountant", "Pays money back.", ["prompt"]),
    )
    with pytest.raises(InvalidInputError, match=r"agent\.run"):
        desk.spec.tools["accountant"]("go")


def test_synchronous_agents_ask_each_other() -> None:
    with sync.Perdure.open("memory://") as store:
        desk, _ = both(store)
        waits = desk.run("go", thread="t")
        assert (waits.pauses[0].ask, RAN) == ("Refund 5 EUR?", [])
        store.decide(waits.pauses[0], approved=True, by="ann")
        assert (desk.resume("t").text, RAN) == ("Done.", [5])
        model = ScriptedModel(["hello"])
        other = store.agent("other", model=model)
        with store.thread("u").run() as run:
            assert other.answer_in(run, "hi", name="x") == "hello"
