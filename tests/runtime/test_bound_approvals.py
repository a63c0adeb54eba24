"""A decision is about exactly one call: whatever else would run by then is not run, and is asked about again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Raw

import perdure
from perdure import ScriptedModel
from perdure.app.handle import key_of
from perdure.app.store import parts_of
from perdure.checkpoints.requests import Request
from perdure.core.approvals import Approvals
from perdure.core.calls import shown
from perdure.core.codec import encode
from perdure.core.digest import body_of
from perdure.core.entries import EntryKind
from perdure.core.errors import ToolDeniedError
from perdure.core.pauses import Decided, decided_key, decode_decided, decode_opened
from perdure.core.payload import encode_body
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]

RAN: list[Any] = []


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def deploy(env: str, count: int = 1) -> str:
    RAN.append((env, count))
    return f"{count} in {env}"


def wider(env: str | int, count: int = 1) -> str:
    RAN.append((env, count))
    return "wider"


def narrower(env: str, count: int) -> str:
    RAN.append((env, count))
    return "narrower"


def other_default(env: str, count: int = 100) -> str:
    RAN.append((env, count))
    return "other default"


def more(env: str, count: int = 1, force: bool = True) -> str:
    RAN.append((env, count, force))
    return "more"


def swapped(env: str, target: str = "everything") -> str:
    RAN.append((env, target))
    return "swapped"


def catch_all(*args: Any, **named: Any) -> str:
    RAN.append((args, named))
    return "catch all"


def optional(env: str | None = None, count: int = 1) -> str:
    RAN.append((env, count))
    return "optional"


def tool(function: Callable[..., Any], **options: Any) -> Any:
    return perdure.tool(**{"require_approval": True, "name": "deploy", **options})(function)


def call(function: Any, name: str = "deploy", **options: Any) -> Any:
    given = options.pop("args", {"env": "prod"})

    async def code(run: Any) -> Any:
        return await run.options(**{"require_approval": True, **options}).tool(name, function, **given)

    return code


ASKED = call(tool(deploy))
CHANGES = {
    "a wider schema": call(tool(wider)),
    "a narrower schema": call(tool(narrower)),
    "another default": call(tool(other_default)),
    "one argument more": call(tool(more)),
    "another tool under the name": call(tool(swapped)),
    "an argument that is optional by now": call(tool(optional)),
    "a plain function that takes anything": call(catch_all),
    "a tool without approval and with another schema": call(perdure.tool(name="deploy")(more), require_approval=False),
    "others may decide": call(tool(deploy, who="boss")),
    "others may decide, of the call": call(tool(deploy), who=["boss"]),
    "somebody who must not decide": call(tool(deploy, who=["not:ann"])),
    "two who have to approve": call(tool(deploy, approvals=2)),
}


async def approve(store: Any, **decision: Any) -> Any:
    (pause,) = await store.pauses()
    return await store.decide(pause, **{"approved": True, "by": "ann", **decision})


@pytest.mark.parametrize("change", CHANGES)
async def test_what_changed_since_it_was_approved_is_asked_about_again(store: Any, change: str) -> None:
    await block(store, ASKED)
    await approve(store)
    await block(store, CHANGES[change])
    (pause,) = await store.pauses()
    assert (RAN, bool(pause.changed), pause.status) == ([], True, "open")
    assert (await kinds(store)).count("tool.started") == 0
    if "may decide" not in change and "must" not in change and "have to" not in change:
        await approve(store, args={"env": "prod", "count": 3} if "narrower" in change else None)
        await block(store, CHANGES[change])
        assert len(RAN) == 1


@pytest.mark.parametrize("change", CHANGES)
async def test_arguments_that_were_edited_are_bound_too(store: Any, change: str) -> None:
    await block(store, ASKED)
    await approve(store, args={"env": "test"})
    await block(store, CHANGES[change])
    assert (RAN, len(await store.pauses())) == ([], 1)


@pytest.mark.parametrize(
    "now",
    [
        call(tool(deploy), name="release"),
        call(tool(deploy), args={"env": "live"}),
        call(tool(deploy), args={"env": "prod", "count": 2}),
    ],
)
async def test_another_call_than_the_approved_one_does_not_run(store: Any, now: Any) -> None:
    await block(store, ASKED)
    await approve(store)
    await block(store, now)
    assert (RAN, len(await store.pauses())) == ([], 1)


async def test_the_same_key_with_other_arguments_is_asked_about_again(store: Any) -> None:
    await block(store, call(tool(deploy), key="k"))
    await approve(store)
    await block(store, call(tool(deploy), key="k", args={"env": "live"}))
    (pause,) = await store.pauses()
    assert (RAN, pause.args["env"], pause.changed) == ([], "live", ("args.env was 'prod', now 'live'",))


async def test_accepting_changed_code_does_not_accept_a_changed_tool(store: Any) -> None:
    await block(store, ASKED)
    await approve(store)
    await block(store, call(tool(more)), changed="accept")
    assert (RAN, len(await store.pauses())) == ([], 1)


async def test_an_operator_who_asks_for_less_does_not_let_a_changed_tool_run(store: Any) -> None:
    parts_of(store).running.runtime.approvals = Approvals(require_approval_for=("deploy",))
    await block(store, call(deploy, require_approval=False))
    await approve(store)
    parts_of(store).running.runtime.approvals = Approvals()
    await block(store, call(swapped, require_approval=False))
    assert (RAN, len(await store.pauses())) == ([], 1)


async def test_a_second_equal_call_needs_its_own_approval(store: Any) -> None:
    async def twice(run: Any) -> Any:
        return [await run.tool("deploy", tool(deploy), env="prod") for _ in range(2)]

    await block(store, twice)
    await approve(store)
    await block(store, twice)
    assert (len(RAN), len(await store.pauses())) == (1, 1)


async def test_the_next_run_and_another_thread_need_their_own_approval(store: Any) -> None:
    await block(store, ASKED)
    await approve(store)
    await block(store, ASKED)
    RAN.clear()
    await block(store, ASKED)
    await block(store, ASKED, thread="u")
    assert (RAN, len(await store.pauses())) == ([], 2)


@pytest.mark.parametrize("forged", ["of another call", "of another thread", "with other arguments", "without a digest"])
async def test_a_decision_that_was_put_under_another_question_does_not_count(store: Any, forged: str) -> None:
    async def both(run: Any) -> Any:
        await run.options(require_approval=True).tool("read", tool(deploy, name="read"), env="test")

    await block(store, both, thread="u")
    await approve(store)
    await block(store, ASKED)
    opened, decided = await _entry(store, "t", "pause.opened"), await _entry(store, "u", "pause.decided")
    question, foreign = decode_opened(opened), decode_decided(decided)
    args = Raw(encode({"env": "everywhere"}))
    made = {
        "of another call": foreign,
        "of another thread": foreign,
        "with other arguments": Decided(question.pause, True, "ann", True, args, digest=question.digest),
        "without a digest": Decided(question.pause, True, "ann"),
    }[forged]
    engine, key = parts_of(store).engine, await key_of(store.thread("t"))
    entry = engine.entry(EntryKind.PAUSE_DECIDED, encode_body(made), "ann")
    await engine.speak(key, [entry], Request(key=decided_key(shown(question.call.id))))
    await block(store, ASKED)
    assert (RAN, bool((await store.pauses("t"))[-1].changed)) == ([], True)


async def test_an_approved_tool_that_is_tried_again_gets_the_approved_arguments(store: Any) -> None:
    given: list[Any] = []

    @perdure.tool(require_approval=True, retry=2)
    async def clean(paths: list[str]) -> str:
        given.append(list(paths))
        paths.append("/")  # what a tool does to its arguments nobody approved
        if len(given) == 1:
            raise OSError
        return "cleaned"

    paths = ["/tmp/a"]

    async def code(run: Any) -> Any:
        return await run.tool("clean", clean, paths=list(paths))

    await block(store, code)
    await approve(store)
    assert (await block(store, code), given) == ("cleaned", [["/tmp/a"], ["/tmp/a"]])


async def test_what_is_approved_after_a_crash_is_bound_too(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        return await run.options(key="k").tool("deploy", jobs.job("deploy", "done", dies=[1]), env="prod")

    async def changed(run: Any) -> Any:
        return await run.options(key="k").tool("deploy", jobs.job("deploy", "done"), env="live")

    await dies(block(store, code))
    await block(store, code)
    await approve(store)
    await block(store, changed)
    (pause,) = await store.pauses()
    assert (jobs.count("deploy"), pause.args) == (1, {"env": "live"})


@pytest.mark.parametrize("now", [wider, other_default, more, swapped])
async def test_an_agents_tool_that_changed_is_asked_about_again(store: Any, now: Any) -> None:
    def agent(function: Any) -> Any:
        parts_of(store).running.handlers._known.clear()
        model = ScriptedModel([("deploy", {"env": "prod"}), "done"])
        return store.agent("helper", model=model, tools=[tool(function)])

    await agent(deploy).run("go", thread="t")
    await approve(store)
    changed = agent(now)
    waits = await changed.resume("t")
    assert (waits.status, RAN) == ("input_required", [])
    assert waits.pauses[0].changed
    await approve(store)
    assert (bool(await changed.resume("t")), len(RAN)) == (True, 1)


async def test_a_denial_holds_whatever_changed(store: Any) -> None:
    await block(store, ASKED)
    await approve(store, approved=False)
    with pytest.raises(ToolDeniedError):
        await block(store, call(tool(more)))
    assert RAN == []


async def _entry(store: Any, thread: str, kind: str) -> bytes:
    entries = await store.thread(thread).entries()
    found = next(each for each in entries if each.kind.value == kind)
    key = await key_of(store.thread(thread))
    (entry,) = await parts_of(store).storage.entries(key, after=found.version - 1, limit=1)
    return body_of(thread, entry)
