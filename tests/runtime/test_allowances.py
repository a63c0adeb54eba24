"""Allowances: calls of a tool that somebody approved in advance, for arguments, a time, a number and a user."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import perdure
from perdure import ScriptedModel, sync
from perdure.app.handle import key_of
from perdure.app.store import parts_of
from perdure.core.digest import body_of
from perdure.core.pauses import decode_decided
from perdure.errors import InvalidInputError, NotFoundError
from tests.checkpoints.places import PLACES, opened
from tests.runtime.allowance_child import register
from tests.runtime.scenes import block, clock, dies, jobs, store

__all__ = ["clock", "jobs", "store"]

ROOT = Path(__file__).parents[2]
RAN: list[Any] = []


@perdure.tool(require_approval=True)
def deploy(env: str, count: int = 1) -> str:
    RAN.append((env, count))
    return f"{count} in {env}"


@perdure.tool(require_approval=True, name="deploy")
def wider(env: str, count: int = 1, force: bool = True) -> str:
    RAN.append((env, count, force))
    return "forced"


@pytest.fixture(autouse=True)
def nothing_ran() -> None:
    RAN.clear()


def call(tool: Any = deploy, **args: Any) -> Any:
    async def code(run: Any) -> Any:
        return await run.tool("deploy", tool, **{"env": "test", **args})

    return code


async def runs(store: Any, code: Any, thread: str = "t", **options: Any) -> bool:
    """Whether a tool ran without a question; what waits is cancelled."""
    before = len(RAN)
    user = options.pop("user", None)
    async with store.thread(thread, user=user).run() as run:
        await code(run)
    if run.paused:
        await store.cancel(thread, user=user)
    return len(RAN) > before


async def whole(store: Any, version: int) -> Any:
    """An entry with its payload."""
    key = await key_of(store.thread("t"))
    return (await parts_of(store).storage.entries(key, after=version - 1, limit=1))[0]


async def test_what_was_allowed_runs_and_the_log_says_by_whom(store: Any) -> None:
    allowance = await store.allow("deploy", by="ann", arguments={"env": "test"})
    assert await block(store, call()) == "1 in test"
    assert not await runs(store, call(env="prod"))
    (entry, *_) = [each for each in await store.thread("t").entries() if each.kind.value == "pause.decided"]
    (found,) = await store.allowed()
    assert (found.id, found.tool, found.by, found.arguments, found.used, bool(found)) == (
        *(allowance, "deploy", "ann", {"env": "test"}, 0, True),
    )
    decided = decode_decided(body_of("t", await whole(store, entry.version)))
    assert (entry.actor, decided.by, decided.allowance, decided.approved) == ("ann", "ann", allowance, True)


@pytest.mark.parametrize(
    ("arguments", "fits", "others"),
    [
        ({}, [{}, {"env": "prod"}], []),
        ({"env": "te*"}, [{"env": "test-1"}], [{"env": "prod"}, {"env": "a test"}]),
        ({"env": "[t]est*"}, [{"env": "[t]est1"}], [{"env": "test"}]),
        ({"count": {"maximum": 3}}, [{"count": 3}], [{"count": 4}]),
        ({"count": {"type": "integer"}}, [{"count": 3}], [{"count": True}, {"count": 1.0}]),
        ({"count": {"type": "integer", "minimum": 2}}, [{"count": 2}], [{"count": 1}]),
        ({"env": {"enum": ["test", "dev"]}}, [{"env": "dev"}], [{"env": "prod"}]),
        ({"count": 1}, [{}], [{"count": 2}]),
        ({"region": "eu"}, [], [{}]),
    ],
)
async def test_arguments_fit_by_value_pattern_or_schema(
    store: Any, arguments: Any, fits: list[Any], others: list[Any]
) -> None:
    await store.allow("deploy", by="ann", arguments=arguments)
    assert [await runs(store, call(**args)) for args in fits] == [True] * len(fits)
    assert [await runs(store, call(**args)) for args in others] == [False] * len(others)


async def test_an_allowance_ends_by_its_time_its_number_or_a_revocation(store: Any, clock: Any) -> None:
    late = await store.allow("deploy", by="ann", expires=timedelta(hours=1))
    assert await runs(store, call())
    clock.advance(timedelta(hours=1))
    assert not await runs(store, call())
    twice = await store.allow("deploy", by="ann", count=2)
    assert [await runs(store, call()) for _ in range(3)] == [True, True, False]
    ever = await store.allow("deploy", by="ann")
    assert await runs(store, call())
    revoked = await store.revoke(ever, by="bob")
    assert (revoked.status, revoked.revoked_by, bool(revoked)) == ("revoked", "bob", False)
    assert not await runs(store, call())
    assert await store.allowed() == []
    assert {each.id: (each.status, each.used) for each in await store.allowed(ended=True)} == {
        late: ("expired", 0), twice: ("used up", 2), ever: ("revoked", 0),
    }  # fmt: skip
    with pytest.raises(NotFoundError, match=r"store\.allowed"):
        await store.revoke("alw_nothing", by="bob")


async def test_an_allowance_of_a_tool_itself_ends_when_its_schema_changes(store: Any) -> None:
    await store.allow(deploy, by="ann")
    assert await runs(store, call())
    assert not await runs(store, call(wider))


async def test_an_allowance_counts_only_where_its_owner_may_decide(store: Any) -> None:
    async def code(run: Any) -> Any:
        return await run.options(who=["boss", "group:ops"]).tool("deploy", deploy, env="test")

    async def by_two(run: Any) -> Any:
        return await run.options(approvals=2).tool("deploy", deploy, env="test")

    await store.allow("deploy", by="ann")
    assert not await runs(store, code)
    await store.allow("deploy", by="ann", groups=["ops"])
    assert await runs(store, code)
    assert not await runs(store, by_two)


async def test_an_allowance_for_a_user_holds_for_nobody_else(store: Any) -> None:
    ann = store.scope(user="ann")
    made = await ann.allow("deploy")
    assert await runs(store, call(), user="ann")
    assert not await runs(store, call(), user="bob")
    assert not await runs(store, call())
    assert [each.id for each in await ann.allowed()] == [made]
    bob = store.scope(user="bob")
    assert await bob.allowed() == []
    with pytest.raises(NotFoundError):
        await bob.revoke(made)
    everybodys = await store.allow("deploy", by="boss")
    with pytest.raises(NotFoundError):
        await bob.revoke(everybodys)
    assert await runs(store, call(), user="bob")
    await ann.revoke(made)
    await store.revoke(everybodys, by="boss")
    assert not await runs(store, call(), user="ann")


async def test_approving_for_a_run_holds_for_that_run_and_the_same_tool(store: Any) -> None:
    def both(second: Any) -> Any:
        async def code(run: Any) -> Any:
            await run.tool("deploy", deploy, env="test")
            return await run.tool("deploy", second, env="prod")

        return code

    await block(store, both(deploy))
    (pause,) = await store.pauses()
    await store.decide(pause, approved=True, by="ann", scope="run")
    assert await block(store, both(deploy)) == "1 in prod"
    (allowance,) = await store.allowed()
    assert (allowance.by, allowance.run, allowance.tool) == ("ann", pause.run, "deploy")
    assert not await runs(store, call())  # another run
    await block(store, both(wider), thread="u")
    await store.decide((await store.pauses("u"))[0], approved=True, by="ann", scope="run")
    await block(store, both(wider), thread="u")
    assert len(await store.pauses("u")) == 1


async def test_a_revocation_between_the_decision_and_the_run_asks_somebody(store: Any, jobs: Any) -> None:
    """The process dies after the allowance was taken; it is revoked before the tool runs."""
    allowance = await store.allow("deploy", by="ann", count=1)

    async def dying(run: Any) -> Any:
        journal = run.journal
        wrote, count = journal.write, 0

        async def write(entries: Any, **given: Any) -> Any:
            nonlocal count
            done = await wrote(entries, **given)
            if any(each.kind.value == "pause.decided" for each in entries):
                await jobs.job("die", dies=[1])()
            return done

        journal.write = write
        return await run.tool("deploy", deploy, env="test")

    await dies(block(store, dying))
    await store.revoke(allowance, by="bob")
    assert await block(store, call()) is None
    (pause,) = await store.pauses()
    assert (RAN, pause.changed) == ([], (f"allowance {allowance} does not hold any more",))
    await store.decide(pause, approved=True, by="ann")
    assert await block(store, call()) == "1 in test"


async def test_what_died_after_taking_the_last_use_goes_on_with_it(store: Any, jobs: Any) -> None:
    await store.allow("deploy", by="ann", count=1)

    async def code(run: Any) -> Any:
        await run.tool("deploy", deploy, env="test")
        return await run.step("die", jobs.job("die", "done", dies=[1]))

    await dies(block(store, code))
    assert (await block(store, code), RAN) == ("done", [("test", 1)])
    assert [each.used for each in await store.allowed(ended=True)] == [1]


async def test_uses_are_counted_once_however_many_run_at_a_time(store: Any) -> None:
    await store.allow("deploy", by="ann", count=3)
    await asyncio.gather(*(block(store, call(), thread=f"t{at}") for at in range(8)))
    assert (len(RAN), len(await store.pauses())) == (3, 5)
    assert [each.used for each in await store.allowed(ended=True)] == [3]


async def test_an_agents_tool_runs_under_an_allowance(store: Any) -> None:
    await store.allow("deploy", by="ann", arguments={"env": "test", "count": 1})
    model = ScriptedModel([[("deploy", {"env": "test"}), ("deploy", {"env": "prod"})], "done"])
    waits = await store.agent("helper", model=model, tools=[deploy]).run("go", thread="t")
    assert (RAN, [each.args["env"] for each in waits.pauses]) == ([("test", 1)], ["prod"])


async def test_a_restored_backup_has_no_allowances(store: Any) -> None:
    """They may have been revoked, or used up, after the backup."""
    await store.allow("deploy", by="ann")
    await store.restored(by="ops")
    assert not await runs(store, call())
    assert [(each.status, each.revoked_by) for each in await store.allowed(ended=True)] == [("revoked", "ops")]


async def test_allowances_are_in_no_list_of_threads(store: Any) -> None:
    await store.allow("deploy", by="ann", user="ann")
    await store.allow("deploy", by="ann")
    assert (await store.threads(), await store.runs(), await store.recover()) == ([], [], [])


async def test_what_would_allow_more_than_it_says_is_refused(store: Any) -> None:
    for wrong in (
        {"count": 0}, {"count": True}, {"expires": timedelta(0)}, {"arguments": ["env"]},
        {"arguments": {"count": {"maximun": 3}}}, {"by": "group:ops"}, {"tool": ""}, {"tool": 5},
    ):  # fmt: skip
        given = {"by": "ann", **wrong}
        with pytest.raises(InvalidInputError):
            await store.allow(given.pop("tool", "deploy"), **given)
    await block(store, lambda run: run.pause("ship", ask="Ship?"))
    with pytest.raises(InvalidInputError, match="for tools"):
        await store.decide((await store.pauses())[0], approved=True, by="ann", scope="run")


async def test_uses_are_counted_once_through_kills(tmp_path: Path) -> None:
    """Two processes at a time work on six threads under an allowance of three calls, and are killed after a write."""
    url, effects = f"sqlite:///{tmp_path}/store.db", tmp_path / "effects"
    effects.touch()
    async with perdure.Perdure.open(url) as store:
        await store.allow("deploy", by="ann", count=3)
        for at in range(6):
            await store.start("deploying", f"t{at}", thread=f"t{at}")
        for pair in ((3, 4), (5, 6), (4, 7)):
            command = [sys.executable, "-m", "tests.runtime.allowance_child", url, str(effects)]
            children = [subprocess.Popen([*command, str(nth)], cwd=ROOT) for nth in pair]
            assert -signal.SIGKILL in [each.wait(60) for each in children]
        register(store, effects)
        for info in await store.runs():
            if info.status not in ("finished", "input_required"):
                await store.resume(info.thread)
        (allowance,) = await store.allowed(ended=True)
        ran = set(effects.read_text().split())
        assert (len(ran), allowance.used, len(await store.pauses()), allowance.status) == (3, 3, 3, "used up")
        assert {each.thread for each in await store.runs(status="finished")} == ran


def test_synchronous_code_has_allowances() -> None:
    with sync.Perdure.open("memory://") as store:
        made = store.allow("deploy", by="ann", count=1)
        with store.thread("t").run() as run:
            assert run.tool("deploy", deploy, env="test") == "1 in test"
        assert store.revoke(store.allowed(ended=True)[0], by="ann").id == made
        scope = store.scope(user="bob")
        scope.revoke(scope.allow(deploy))
        assert scope.allowed() == []


@pytest.mark.parametrize("place", ["file", "hot_sqlite", "postgres", "mysql"])
async def test_every_storage_keeps_and_counts_allowances(place: str, tmp_path: Path) -> None:
    async with opened(PLACES[place](tmp_path), "async") as store:
        made = await store.allow("deploy", by="ann", count=2)
        await asyncio.gather(*(block(store, call(), thread=f"t{at}") for at in range(4)))
        assert (len(RAN), len(await store.pauses())) == (2, 2)
        assert [(each.id, each.used, each.status) for each in await store.allowed(ended=True)] == [(made, 2, "used up")]
        await store.decide((await store.pauses())[0], approved=True, by="ann", scope="run")
        assert [each.run is None for each in await store.allowed()] == [False]
        assert (await store.verify()).ok
