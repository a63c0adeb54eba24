"""Tools that a person approves first."""

from __future__ import annotations

from typing import Any

import pytest

import perdure
from perdure.app.store import parts_of
from perdure.core.approvals import Approvals
from perdure.core.errors import InvalidInputError, NotAllowedError, ToolDeniedError
from tests.runtime.scenes import Jobs, block, clock, dies, jobs, kinds, store

__all__ = ["clock", "jobs", "store"]


def deploying(jobs: Jobs, **job: Any) -> Any:
    async def code(run: Any) -> Any:
        deploy = jobs.job("deploy", "done", **job)

        async def told(env: str) -> Any:
            jobs.ran.append(f"in {env}")
            return await deploy()

        return await run.options(approval_prompt="Deploy to {env}?").tool("deploy", told, env="prod")

    return code


async def answer(store: Any, **decision: Any) -> Any:
    (pause,) = await store.pauses()
    await store.decide(pause, by="ann", **decision)
    return pause


async def test_a_tool_waits_for_approval_and_runs_once(store: Any, jobs: Jobs) -> None:
    """S4.22, S4.25"""
    await block(store, deploying(jobs))
    assert (jobs.ran, (await store.thread("t").info()).status) == ([], "input_required")
    pause = await answer(store, approved=True)
    assert (pause.name, pause.ask, pause.args) == ("deploy", "Deploy to prod?", {"env": "prod"})
    assert await block(store, deploying(jobs)) == "done"
    assert jobs.ran == ["in prod", "deploy"]


async def test_a_tool_that_was_denied_does_not_run(store: Any, jobs: Jobs) -> None:
    """S4.26"""
    await block(store, deploying(jobs))
    await answer(store, approved=False, answer="not on Friday")
    with pytest.raises(ToolDeniedError, match="deploy was not run: denied by ann: not on Friday"):
        await block(store, deploying(jobs))
    assert (jobs.ran, (await kinds(store)).count("tool.started")) == ([], 0)


async def test_edited_arguments_are_those_that_run_also_after_a_crash(store: Any, jobs: Jobs) -> None:
    """B17"""
    await block(store, deploying(jobs))
    await answer(store, approved=True, args={"env": "test"})
    await dies(block(store, deploying(jobs, dies=[1])))
    await block(store, deploying(jobs))
    pause = await answer(store, approved=True)
    assert (pause.args, pause.ask.startswith("unverified: deploy may have run")) == ({"env": "test"}, True)
    assert await block(store, deploying(jobs)) == "done"
    assert jobs.ran == ["in test", "deploy"] * 2


async def test_an_operator_asks_for_approval_by_name_and_trusts_by_name(store: Any, jobs: Jobs) -> None:
    """N0"""

    async def code(run: Any) -> Any:
        free = await run.tool("read_file", jobs.job("read"))
        trusted = await run.options(require_approval=True).tool("list_files", jobs.job("list"))
        return [free, trusted, await run.tool("delete_file", jobs.job("delete"), "a.txt")]

    runtime = parts_of(store).running.runtime
    runtime.approvals = Approvals(require_approval_for=("delete_*",), trusted_operations=("list_files",))
    await block(store, code)
    assert jobs.ran == ["read", "list"]
    pause = await answer(store, approved=True)
    assert (pause.name, pause.args) == ("delete_file", {"args": ["a.txt"]})
    await block(store, code)
    assert jobs.ran == ["read", "list", "delete"]


async def test_a_tool_that_ran_before_approval_was_asked_for_is_not_asked_about(store: Any, jobs: Jobs) -> None:
    async def code(run: Any) -> Any:
        paid = await run.tool("charge", jobs.job("charge", "paid"))
        await run.step("die", jobs.job("die", dies=[1]))
        return paid

    await dies(block(store, code))
    parts_of(store).running.runtime.approvals = Approvals(require_approval_for=("charge",))
    assert await block(store, code) == "paid"
    assert (jobs.count("charge"), await store.pauses()) == (1, [])


async def test_what_nobody_approves_in_time_is_denied(store: Any, jobs: Jobs, clock: Any) -> None:
    """N0"""
    from datetime import timedelta

    parts_of(store).running.runtime.approvals = Approvals(timeout=300.0)
    await block(store, deploying(jobs))
    clock.advance(timedelta(seconds=300))
    with pytest.raises(ToolDeniedError, match="nobody approved it in time"):
        await block(store, deploying(jobs))
    assert jobs.ran == []


async def test_a_tool_brings_its_own_options_to_a_run(store: Any, jobs: Jobs) -> None:
    import perdure

    @perdure.tool(approval_prompt="Delete {path}?", repeatable=True)
    async def delete(path: str) -> str:
        return await jobs.job("delete", path, dies=[1])()

    async def code(run: Any) -> Any:
        return await run.options(timeout=60).tool("delete", delete, path="a.log")

    await block(store, code)
    pause = await answer(store, approved=True)
    assert pause.ask == "Delete a.log?"
    await dies(block(store, code))
    assert await block(store, code) == "a.log"
    assert jobs.count("delete") == 2


async def test_edited_arguments_have_to_fit_the_tool(store: Any, jobs: Jobs) -> None:
    """B17"""
    import perdure
    from perdure.core.errors import InvalidAnswerError

    @perdure.tool(require_approval=True)
    async def resize(size: int) -> int:
        return size

    await block(store, lambda run: run.tool("resize", resize, size=1))
    (pause,) = await store.pauses()
    with pytest.raises(InvalidAnswerError, match=r"args\.size"):
        await store.decide(pause, approved=True, by="ann", args={"size": "large"})
    await store.decide(pause, approved=True, by="ann", args={"size": 2})
    assert await block(store, lambda run: run.tool("resize", resize, size=1)) == 2


async def test_only_those_whom_a_tool_names_decide_about_it_also_after_a_crash(store: Any, jobs: Jobs) -> None:
    """B17"""

    async def code(run: Any) -> Any:
        return await run.options(who=["ann", "bob"]).tool("deploy", jobs.job("deploy", "done", dies=[1]))

    await block(store, code)
    with pytest.raises(NotAllowedError, match="mallory"):
        await store.decide((await store.pauses())[0], approved=True, by="mallory")
    await answer(store, approved=True)
    await dies(block(store, code))
    await block(store, code)
    with pytest.raises(NotAllowedError, match="mallory"):
        await store.decide((await store.pauses())[0], approved=False, by="mallory", answer="made up")
    await answer(store, approved=True)
    assert (await block(store, code), jobs.ran) == ("done", ["deploy", "deploy"])


async def test_whoever_approves_sees_what_is_left_to_the_defaults(store: Any, jobs: Jobs) -> None:
    async def deploy(env: str = "production", *, idempotency_key: str | None = None) -> str:
        return env

    def code(run: Any) -> Any:
        return run.options(approval_prompt="Deploy to {env}?").tool("deploy", deploy)

    await block(store, code)
    pause = await answer(store, approved=True)
    assert (pause.ask, pause.args) == ("Deploy to production?", {"env": "production"})
    assert await block(store, code) == "production"


async def test_a_tool_that_takes_other_arguments_by_now_is_asked_about_again(store: Any, jobs: Jobs) -> None:
    def code(tool: Any) -> Any:
        return lambda run: run.tool("deploy", tool, env="prod")

    @perdure.tool(require_approval=True)
    async def deploy(env: str) -> str:
        return await jobs.job("deploy", env)()

    @perdure.tool(require_approval=True, name="deploy")
    async def upgraded(env: str, region: str = "eu") -> str:
        return await jobs.job("deploy", env + region)()

    await block(store, code(deploy))
    await answer(store, approved=True)
    await block(store, code(upgraded))
    (pause,) = await store.pauses()
    assert jobs.ran == []
    assert pause.changed == ("argument region is new", "args.region is new")
    assert "argument region is new" in pause.ask
    await answer(store, approved=True)
    assert (await block(store, code(upgraded)), jobs.ran) == ("prodeu", ["deploy"])


def test_a_prompt_with_a_place_that_no_argument_fills_is_refused() -> None:
    def shell(command: str) -> str:
        return command

    for prompt in ("Execute: {comand}?", "{command} by {args.who}"):
        with pytest.raises(InvalidInputError, match=r"none of its arguments .command."):
            perdure.tool(approval_prompt=prompt)(shell)
    for prompt in ("Execute: {command}?", "{command.0} and {{comand}}", "Go on?"):
        perdure.tool(approval_prompt=prompt)(shell)


async def test_a_prompt_of_a_call_with_such_a_place_asks_nobody(store: Any, jobs: Jobs) -> None:
    async def shell(command: str) -> str:
        return await jobs.job(command)()

    with pytest.raises(InvalidInputError, match="comand"):
        await block(store, lambda run: run.options(approval_prompt="Run {comand}?").tool("shell", shell, command="ls"))
    assert (await store.pauses(), jobs.ran) == ([], [])
