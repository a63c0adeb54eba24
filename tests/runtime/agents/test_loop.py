"""An agent asks its model, runs its tools and answers; what it did stays done."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from perdure import Approvals, EntryKind, Message, Perdure, Reply, ScriptedModel, Usage, sync, tool
from perdure.core.ports import Silence
from perdure.errors import (
    InvalidAnswerError,
    InvalidInputError,
    KeyReusedError,
    ModelError,
    RunFailedError,
    TurnLimitError,
    UnfinishedRunError,
)
from perdure.testing.clock import ManualClock
from tests.checkpoints.places import PLACES, opened
from tests.runtime.scenes import Killed

RAN: list[Any] = []
MARK = object()


@tool(repeatable=True)
async def look(city: str) -> dict[str, str]:
    """Look up the weather of a city."""
    RAN.append(("look", city))
    return {"city": city, "sky": "blue"}


@tool(require_approval=True, approval_prompt="Refund {amount} EUR?")
async def refund(amount: int) -> str:
    RAN.append(("refund", amount))
    return f"refunded {amount}"


@tool
def send(to: str) -> str:
    RAN.append(("send", to))
    return "sent"


class AwaitedTool:
    """An object to call, and to await."""

    async def __call__(self, city: str) -> str:
        return city


@pytest.fixture(autouse=True)
def clean() -> None:
    RAN.clear()


@pytest.fixture(params=["memory", "sqlite"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Any]:
    async with opened(PLACES[request.param](tmp_path), "async", clock=ManualClock()) as made:
        yield made


def agent(store: Any, *script: Any, **options: Any) -> Any:
    return store.agent("helper", model=ScriptedModel(script), tools=[look, refund, send], **options)


async def said(store: Any, thread: str = "t") -> list[tuple[str, str]]:
    return [(each["role"], each["content"]) for each in (await store.thread(thread).load())["messages"]]


async def test_tools_are_run_until_the_model_answers(store: Any) -> None:
    done = await agent(store, ("look", {"city": "Rome"}), "It is fine.").run("weather?", thread="t")
    assert (done.text, str(done), bool(done), done.status, done.pauses) == (
        *("It is fine.", "It is fine.", True, "finished", []),
    )
    told = [("user", "weather?"), ("assistant", ""), ("tool", '{"city":"Rome","sky":"blue"}'),
            ("assistant", "It is fine.")]  # fmt: skip
    assert await said(store) == told
    assert [each["role"] for each in await store.thread("t").messages()] == [role for role, _ in told]
    assert (done.run.agent, done.run.result, done.messages[0]["content"]) == ("helper", "It is fine.", "weather?")


async def test_a_second_prompt_goes_on_with_the_conversation(store: Any) -> None:
    one = agent(store, "Hello.", "I said hello.")
    await one.run("hi", thread="t")
    assert (await one.run("what did you say?", thread="t")).text == "I said hello."
    assert [each["content"] for each in one.spec.model.requests[-1]] == ["hi", "Hello.", "what did you say?"]


async def test_the_model_sees_instructions_tools_and_settings_and_they_can_be_looked_up(store: Any) -> None:
    """S4.4: what a model saw can be shown exactly."""
    await agent(store, "ok", instructions="Be kind.", settings={"temperature": 0}).run("hi", thread="t")
    seen = await store.thread("t").seen()
    assert seen.messages == [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "hi"}]
    assert (seen.settings["temperature"], [each["name"] for each in seen.settings["tools"]]) == (
        *(0, ["look", "refund", "send"]),
    )


async def test_tools_that_are_asked_for_at_once_run_at_once_and_answer_in_order(store: Any) -> None:
    both = asyncio.Barrier(2)

    async def meet(name: str) -> str:
        async with asyncio.timeout(20):
            await both.wait()
        return name

    model = ScriptedModel([[("meet", {"name": "a"}), ("meet", {"name": "b"})], "done"])
    done = await store.agent("meeting", model=model, tools=[meet]).run("go", thread="t")
    assert [each["content"] for each in done.messages if each["role"] == "tool"] == ["a", "b"]


async def test_plain_functions_do_not_hold_up_the_loop(store: Any) -> None:
    loop = asyncio.get_running_loop()
    answered = asyncio.Event()

    def block() -> str:
        asyncio.run_coroutine_threadsafe(answered.wait(), loop).result(20)
        return "free"

    async def answer() -> str:
        answered.set()
        return "set"

    model = ScriptedModel([[("block", {}), ("answer", {})], "done"])
    done = await store.agent("busy", model=model, tools=[block, answer]).run("go", thread="t")
    assert [each["content"] for each in done.messages if each["role"] == "tool"] == ["free", "set"]


async def test_a_plain_tool_that_raises_stop_iteration_is_told_to_the_model(store: Any) -> None:
    def first() -> str:
        return next(iter(()))

    one = store.agent("first", model=ScriptedModel([("first", {}), "done"]), tools=[first])
    async with asyncio.timeout(20):
        done = await one.run("go", thread="t")
    assert [each["content"] for each in done.messages if each["role"] == "tool"] == [
        "error: RuntimeError: first raised StopIteration"
    ]


async def test_a_tool_that_needs_approval_waits_and_its_siblings_are_done_once(store: Any) -> None:
    """S4.3, S4.21, S4.22, S4.25: the run waits with a checkpoint, and goes on when somebody approved."""
    both = [("look", {"city": "Rome"}), ("refund", {"amount": 5}), ("send", {"to": "ann"})]
    one = agent(store, both, "done")
    waits = await one.run("go", thread="t")
    assert (waits.status, bool(waits), [each.ask for each in waits.pauses]) == (
        *("input_required", False, ["Refund 5 EUR?"]),
    )
    assert sorted(RAN) == [("look", "Rome"), ("send", "ann")]
    assert [each.kind for each in await store.thread("t").history()] == ["pause"]
    await store.decide(waits.pauses[0], approved=True, by="ann")
    assert ((await one.resume("t")).text, RAN[2:]) == ("done", [("refund", 5)])
    assert one.spec.model.calls == 2


async def test_two_approvals_at_once_keep_their_own_arguments(store: Any) -> None:
    one = agent(store, [("refund", {"amount": 1}), ("refund", {"amount": 2})], "done")
    waits = await one.run("go", thread="t")
    assert [each.args for each in waits.pauses] == [{"amount": 1}, {"amount": 2}]
    await store.decide(waits.pauses[1], approved=True, by="ann")
    assert ((await one.resume("t")).status, RAN) == ("input_required", [("refund", 2)])
    await store.decide(waits.pauses[0], approved=False, by="bob")
    assert (await one.resume("t")).text == "done"
    assert RAN == [("refund", 2)]


async def test_an_approver_may_edit_the_arguments(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 500}), "done")
    waits = await one.run("go", thread="t")
    await store.decide(waits.pauses[0], approved=True, by="ann", args={"amount": 50})
    await one.run("go", thread="t")  # the same prompt is the same turn
    assert (RAN, (await said(store))[2]) == ([("refund", 50)], ("tool", "refunded 50"))


async def test_an_approver_sees_the_arguments_that_the_model_left_to_their_defaults(store: Any) -> None:
    """What is approved is what runs."""

    @tool(approval_prompt="Pay {amount} {currency}?")
    async def pay(amount: int, currency: str = "EUR", on: date = date(2026, 11, 1), by: Any = MARK) -> None:
        RAN.append((amount, currency, on, by is MARK))

    one = store.agent("payer", model=ScriptedModel([("pay", {"amount": 5}), "done"]), tools=[pay])
    (pause,) = (await one.run("go", thread="t")).pauses
    assert (pause.ask, pause.args["currency"], pause.args["on"]) == ("Pay 5 EUR?", "EUR", "2026-11-01")
    await store.decide(pause, approved=True, by="ann")
    await one.resume("t")
    assert [(5, "EUR", date(2026, 11, 1), True)] == RAN


async def test_a_denied_tool_is_not_run_and_the_model_is_told_by_whom_and_why(store: Any) -> None:
    """S4.26: the run goes on without the tool."""
    one = agent(store, ("refund", {"amount": 5}), "Then not.")
    waits = await one.run("go", thread="t")
    await store.decide(waits.pauses[0], approved=False, by="ann", answer="too much")
    assert ((await one.resume("t")).text, RAN) == ("Then not.", [])
    assert (await said(store))[2] == ("tool", "denied: refund was not run: denied by ann: too much")


async def test_bad_arguments_are_told_to_the_model_and_nobody_is_asked_about_them(store: Any) -> None:
    script = [("refund", {"amount": "much"}), ("refund", "no object"), ("reboot", {}), ("look", {}), "sorry"]
    done = await agent(store, *script).run("go", thread="t")
    told = [each for each in done.messages if each["role"] == "tool"]
    assert (done.text, RAN, all(each["is_error"] for each in told)) == ("sorry", [], True)
    assert [each["content"] for each in told] == [
        "error: bad arguments: Expected `int`, got `str` - at `$.amount`",
        "error: bad arguments: the arguments must be a JSON object, not 'no object'",
        "error: there is no tool 'reboot'; there are: look, refund, send",
        "error: bad arguments: Object missing required field `city`",
    ]


async def test_arguments_that_an_approver_spoils_are_refused_before_anything_runs(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 5}), "done")
    waits = await one.run("go", thread="t")
    with pytest.raises(InvalidAnswerError, match="amount"):
        await store.decide(waits.pauses[0], approved=True, by="ann", args={"amount": "five"})
    await store.decide(waits.pauses[0], approved=True, by="ann", args={"amount": 4})
    assert ((await one.resume("t")).text, RAN) == ("done", [("refund", 4)])


async def test_what_a_tool_raises_is_told_to_the_model_the_same_after_a_crash(store: Any) -> None:
    tries: list[int] = []

    async def flaky() -> str:
        tries.append(1)
        raise OSError(f"failure {len(tries)}")

    class Dying(ScriptedModel):
        async def reply(self, messages: Any, **given: Any) -> Reply:
            if len(messages) == 3 and not self.calls > 1:
                self.calls += 1
                raise Killed
            return await super().reply(messages, **given)

    one = store.agent("flaky", model=Dying([("flaky", {}), "done"]), tools=[flaky])
    with pytest.raises(Killed):
        await one.run("go", thread="t")
    done = await one.run("go", thread="t")
    assert (done.text, len(tries), done.messages[2]["content"]) == ("done", 1, "error: OSError: failure 1")


async def test_a_tool_whose_result_cannot_be_kept_ran_and_the_model_is_told_so(store: Any) -> None:
    @tool
    async def pay() -> Any:
        RAN.append("pay")
        return {"receipt": object()}

    one = store.agent("payer", model=ScriptedModel([("pay", {}), "done"]), tools=[pay])
    done = await one.run("go", thread="t")
    (told,) = [each for each in done.messages if each["role"] == "tool"]
    assert (told["content"], RAN) == ("ran; its result could not be kept: dict", ["pay"])


async def test_tools_are_tried_again_and_timed_out_as_they_ask_for(store: Any) -> None:
    tries: list[int] = []

    @tool(retry=3)
    async def third() -> str:
        tries.append(1)
        if len(tries) < 3:
            raise OSError("no")
        return "yes"

    @tool(timeout=0.01)
    async def slow() -> None:
        await asyncio.sleep(60)

    model = ScriptedModel([[("third", {}), ("slow", {})], "done"])
    done = await store.agent("patient", model=model, tools=[third, slow]).run("go", thread="t")
    assert [each["content"] for each in done.messages[2:4]] == ["yes", "error: TimeoutError: no answer within 0.01 s"]


async def test_an_agent_that_never_answers_stops_after_its_turns(store: Any) -> None:
    one = agent(store, ScriptedModel.loop(("look", {"city": "Rome"})), max_turns=3)
    with pytest.raises(TurnLimitError, match="3 turns"):
        await one.run("go", thread="t")
    assert (one.spec.model.calls, [each.status for each in await store.runs()]) == (3, ["dead"])


async def test_a_prompt_raises_while_another_one_waits(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 5}), "done")
    await one.run("go", thread="t")
    with pytest.raises(UnfinishedRunError, match=r"or give it up: store.cancel\(thread\)$"):
        await one.run("something else", thread="t")


async def test_the_same_key_is_the_same_run(store: Any) -> None:
    one = agent(store, "first", "second")
    assert [(await one.run("go", thread="t", key="k")).text for _ in range(2)] == ["first", "first"]
    assert one.spec.model.calls == 1


async def test_a_key_with_another_prompt_is_refused(store: Any) -> None:
    one = agent(store, "first", "second")
    await one.run("go", thread="t", key="k")
    with pytest.raises(KeyReusedError):
        await one.run("something else", thread="t", key="k")


async def test_a_failing_model_leaves_a_run_that_goes_on(store: Any) -> None:
    one = agent(store, ("look", {"city": "Rome"}), ModelError("the model", "overloaded"), "done")
    with pytest.raises(ModelError, match="overloaded"):
        await one.run("go", thread="t")
    assert ((await one.run("go", thread="t")).text, RAN) == ("done", [("look", "Rome")])


async def test_agents_are_started_and_recovered_like_handlers(store: Any) -> None:
    """S4.18: what was pending is taken up."""
    ticket = await agent(store, ("look", {"city": "Rome"}), "done").start("go", thread="t")
    assert [(each.agent, each.result) for each in await store.recover()] == [("helper", "done")]
    assert await ticket.result() == "done"


async def test_a_run_survives_changed_instructions_tools_and_settings(store: Any, tmp_path: Path) -> None:
    """S4.24: the program may be upgraded while a person decides."""
    url = f"sqlite:///{tmp_path}/upgraded.db"
    async with Perdure.open(url) as old:
        waits = await agent(old, ("look", {"city": "Rome"}), ("refund", {"amount": 5}), "done").run("go", thread="t")
    async with Perdure.open(url) as new:
        await new.decide(waits.pauses[0], approved=True, by="ann")
        model = ScriptedModel([("x", {}), ("y", {}), "new"])
        upgraded = new.agent(
            "helper", model=model, tools=[tool(name="look")(send.function), refund, send], instructions="Be brief.",
            settings={"temperature": 1},
        )  # fmt: skip
        assert (await upgraded.resume("t")).text == "new"
    assert (model.calls, RAN) == (1, [("look", "Rome"), ("refund", 5)])


async def test_what_others_say_meanwhile_is_heard_and_results_stay_with_their_calls(store: Any) -> None:
    @tool
    async def interrupt() -> str:
        await store.thread("t").append("messages", Message(role="user", content="and quickly"))
        return "ok"

    model = ScriptedModel([("interrupt", {}), "done"])
    await store.agent("polite", model=model, tools=[interrupt]).run("go", thread="t")
    assert [(each["role"], each["content"]) for each in model.requests[1]] == [
        ("user", "go"), ("assistant", ""), ("tool", "ok"), ("user", "and quickly"),
    ]  # fmt: skip


async def test_what_others_say_while_somebody_decides_takes_no_result_from_the_model(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 5}), "done")
    waits = await one.run("go", thread="t")
    await store.thread("t").append("messages", {"role": "user", "content": "any news?"})
    await store.decide(waits.pauses[0], approved=True, by="ann")
    assert (await one.resume("t")).text == "done"
    seen = [("user", "go"), ("assistant", ""), ("tool", "refunded 5"), ("user", "any news?")]
    assert [(each["role"], each["content"]) for each in one.spec.model.requests[1]] == seen
    assert [content for role, content in await said(store) if role == "tool"] == ["refunded 5"]


async def test_calls_of_a_run_that_was_cancelled_are_closed_when_the_next_one_begins(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 5}), "done")
    await one.run("go", thread="t")
    await store.cancel("t")
    await one.run("never mind", thread="t")
    assert [role for role, _ in await said(store)] == ["user", "assistant", "tool", "user", "assistant"]


async def test_a_run_is_done_again_with_an_edited_message_on_a_fork(store: Any) -> None:
    one = agent(store, ("look", {"city": "Rome"}), "fine", "fine again")
    await one.run("go", thread="t")
    entries = [each for each in await store.thread("t").entries() if each.kind is EntryKind.STATE_UPDATED]
    (info,) = await store.thread("t").rerun(f"@{entries[2].version}", set={"instead": 1}, to="again")
    assert (info.result, one.spec.model.calls, RAN) == ("fine", 3, [("look", "Rome")])


async def test_tokens_are_counted_with_the_messages(store: Any) -> None:
    reply = Reply(text="hi", usage=Usage(input_tokens=3, output_tokens=4, total_tokens=7))
    await store.agent("counted", model=ScriptedModel([reply]), tools=[]).run("go", thread="t")
    assert (await store.thread("t").analytics()).tokens == 7


async def test_agents_of_two_users_do_not_meet(store: Any) -> None:
    one = agent(store, "first")
    assert (await one.run("go", thread="t", user="ann")).text == "first"
    assert (await one.run("go", thread="t", user="bob")).text == "first"
    assert one.spec.model.requests[0] == one.spec.model.requests[1]


async def test_what_cannot_be_an_agent_is_refused(store: Any) -> None:
    for wrong in ({"model": object()}, {"max_turns": 0}, {"tools": look}, {"tools": [look, look]}, {"timeout": 0}):
        with pytest.raises(InvalidInputError):
            store.agent("wrong", **{"model": ScriptedModel(["x"]), **wrong})
    one = agent(store, "x")
    with pytest.raises(InvalidInputError, match="already"):
        agent(store, "y")
    with pytest.raises(InvalidInputError, match="prompt"):
        await one.run("", thread="t")
    await store.thread("list").save(["no", "mapping"])
    with pytest.raises(Exception, match="messages"):
        await one.run("go", thread="list")


async def test_a_model_that_answers_nonsense_is_named(store: Any) -> None:
    class Wrong:
        async def reply(self, messages: Any, **given: Any) -> Any:
            return "text"

    one = store.agent("wrong", model=Wrong(), retry=1)
    ticket = await one.start("go", thread="t")
    await store.recover()
    with pytest.raises(RunFailedError, match="it answered str, not a Reply"):
        await ticket.result()


@pytest.fixture
def in_place() -> Iterator[Any]:
    with sync.Perdure.open("memory://") as made:
        yield made


def test_synchronous_code_has_agents_too(in_place: Any) -> None:
    @tool(require_approval=True)
    def pay(amount: int, run: Any, idempotency_key: str) -> str:
        RAN.append((type(run), bool(idempotency_key)))
        return f"paid {run.step('fee', lambda: amount + 1)}"

    model = ScriptedModel([[("send", {"to": "ann"}), ("pay", {"amount": 5})], "done", "more"])
    one = in_place.agent("helper", model=model, tools=[send, pay])
    waits = one.run("go", thread="t")
    assert (waits.status, RAN) == ("input_required", [("send", "ann")])
    in_place.decide(waits.pauses[0], approved=True, by="ann")
    assert (one.resume("t").text, RAN[1:]) == ("done", [(sync.Run, True)])
    assert in_place.thread("t").load()["messages"][3]["content"] == "paid 6"
    ticket = one.start("again", thread="t")
    assert ([each.result for each in in_place.recover()], ticket.result()) == (["more"], "more")


def test_a_model_that_can_only_be_awaited_is_refused_in_synchronous_code(in_place: Any) -> None:
    class Awaited:
        async def reply(self, messages: Any, **given: Any) -> Reply:
            return Reply(text="x")

    with pytest.raises(InvalidInputError, match="reply_now"):
        in_place.agent("helper", model=Awaited())


@pytest.mark.parametrize("function", [look, look.function, functools.partial(look.function), AwaitedTool()])
def test_a_tool_that_can_only_be_awaited_is_refused_in_synchronous_code(in_place: Any, function: Any) -> None:
    with pytest.raises(InvalidInputError, match=r"tool '\w+' is asynchronous.*plain function"):
        in_place.agent("helper", model=ScriptedModel(["x"]), tools=[function])
    assert in_place._store._parts.running.handlers.names == []


def test_a_tool_whose_result_turns_out_to_be_awaitable_fails_the_run(in_place: Any) -> None:
    def sly(city: str) -> Any:
        return look.function(city)

    model = ScriptedModel([("sly", {"city": "Rome"}), "never asked"])
    one = in_place.agent("helper", model=model, tools=[sly])
    with pytest.raises(InvalidInputError, match="plain functions"):
        one.run("go", thread="t")
    assert (in_place.runs()[0].status, RAN) == ("failed", [])


async def test_pruning_while_somebody_decides_takes_nothing_from_the_run(store: Any) -> None:
    """S4.2: it may take days."""
    one = agent(store, ("look", {"city": "Rome"}), ("refund", {"amount": 5}), "done")
    waits = await one.run("go", thread="t")
    await store.thread("t").prune(1)
    await store.decide(waits.pauses[0], approved=True, by="ann")
    assert ((await one.resume("t")).text, RAN) == ("done", [("look", "Rome"), ("refund", 5)])


async def test_agents_serve_a_worker(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 5}), "done")
    async with store.worker():
        ticket = await one.start("go", thread="t")
        while not (pauses := await store.pauses("t")):
            await asyncio.sleep(0.01)
        await store.decide(pauses[0], approved=True, by="ann")
        assert await ticket.result(timeout=30) == "done"


async def test_a_whole_number_is_approved_and_run_as_an_int(store: Any) -> None:
    one = agent(store, ("refund", {"amount": 5.0}), "done")
    waits = await one.run("go", thread="t")
    assert (waits.pauses[0].args, type(waits.pauses[0].args["amount"])) == ({"amount": 5}, int)
    await store.decide(waits.pauses[0], approved=True, by="ann")
    assert ((await one.resume("t")).text, RAN) == ("done", [("refund", 5)])


async def test_why_shows_what_repeatable_tools_were_given(store: Any) -> None:
    await agent(store, ("look", {"city": "Rome"}), "fine").run("go", thread="t")
    assert "done: look(city='Rome'), key" in str(await store.why("t"))


async def test_a_state_without_a_conversation_is_named(store: Any) -> None:
    await store.thread("t").save({"messages": "none yet"})
    with pytest.raises(InvalidInputError, match=r"the state of thread 't' has no list 'messages'.*another thread"):
        await agent(store, "hello").run("go", thread="t")


async def test_a_name_with_a_typo_in_the_operators_list_is_told_of(tmp_path: Path) -> None:
    told: list[Any] = []

    class Telemetry(Silence):
        def log(self, level: str, message: str, /, **fields: object) -> None:
            told.append((level, fields))

    listed = Approvals(require_approval_for=("refnud", "elsewhere", "look*"), trusted_operations=("send",))
    async with Perdure.open(f"sqlite:///{tmp_path}/s.db", approvals=listed, telemetry=Telemetry()) as store:
        agent(store)
    assert told == [("warning", {"agent": "helper", "name": "refnud", "did_you_mean": "refund"})]
