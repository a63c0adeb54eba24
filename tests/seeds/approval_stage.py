"""The stage of Hector's approval: a server with an agent that deploys, which is stopped, upgraded and started again.

    python -m tests.seeds.approval_stage WHAT CONFIG FOLDER RELEASE

The second release of the program has one more parameter of the tool, and one more field in the state. What is done
outside is written into a file in the folder: `did` reads it.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import perdure
from perdure import Perdure, ScriptedModel

ROOT = Path(__file__).parents[2]
SCRIPT = [("deploy_production", {"service": "api", "tag": "1.4"}), "Deployed."]
PROMPT = "Approve {service} {tag}?"
TRIES = 6000


def config_in(folder: Path, url: str, *, hook: str = "", checkpoint: str = "strategy: event", **recovery: bool) -> Path:
    """A config.yaml in Hector's words."""
    lines = ["storage:", f"  sessions: {url}", "  checkpoint:", f"    {checkpoint}", "    recovery:"]
    given = {"auto_resume": True, **recovery}
    lines += [f"      {name}: {str(value).lower()}" for name, value in given.items()]
    lines += ["notifications:", f"  - url: {hook}"] if hook else []
    path = folder / f"config-{'-'.join(str(value) for value in given.values())}.yaml"
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def did(folder: Path) -> list[Any]:
    """What was done outside, by all processes."""
    path = folder / "did"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def does(folder: Path, *what: Any) -> None:
    with (folder / "did").open("a") as file:
        file.write(json.dumps(what) + "\n")


def first_release(folder: Path) -> tuple[Any, Any]:
    """The plan in the state, and the tool."""

    @perdure.register
    @dataclass
    class Plan:
        service: str

    @perdure.tool(require_approval=True, approval_prompt=PROMPT)
    async def deploy_production(service: str, tag: str, run: Any) -> str:
        plan = (await run.load())["plan"]
        does(folder, "first", service, tag, plan.service)
        return "done"

    return Plan("api"), deploy_production


def second_release(folder: Path) -> tuple[Any, Any]:
    """The same, a year on: a region for the tool, and an owner in the plan."""

    @dataclass
    class Plan:
        service: str
        owner: str

    perdure.register(Plan, version=2, upcast={1: lambda fields: {**fields, "owner": "ops"}})

    @perdure.tool(require_approval=True, approval_prompt="Really {service} {tag} in {region}?")
    async def deploy_production(service: str, tag: str, run: Any, region: str = "eu") -> str:
        plan = (await run.load())["plan"]
        does(folder, "second", service, tag, region, plan.service, plan.owner)
        return "done"

    return Plan("api", "dev"), deploy_production


def registered(store: Any, folder: Path, release: str) -> tuple[Any, Any]:
    """The agent and the plan, and handlers beside it; two of them do not survive their first release."""
    plan, tool = first_release(folder) if release == "first" else second_release(folder)
    store.handler("short")(lambda run: run.step("short", lambda: does(folder, "short")))

    @store.handler("long")
    async def long(run: Any) -> str:
        await run.step("plan", lambda: does(folder, "plan"))
        if release == "first":
            os.kill(os.getpid(), signal.SIGKILL)
        return await run.step("end", lambda: does(folder, "end")) or "ended"

    @store.handler("beside")
    async def beside(run: Any) -> None:
        async def work() -> None:
            does(folder, "plan")
            while release == "first":
                if await store.pauses():  # the question stands, and this is under way
                    os.kill(os.getpid(), signal.SIGKILL)
                await asyncio.sleep(0.01)

        await asyncio.gather(run.pause("go", ask="Go?"), run.step("work", work))

    return store.agent("deployer", model=ScriptedModel(SCRIPT), tools=[tool]), plan


async def serve(store: Any, agent: Any, plan: Any) -> None:
    """A server: it serves until it is stopped."""
    await store.worker(grace=5).run()


async def ask(store: Any, agent: Any, plan: Any) -> None:
    """A server that is given something to do."""
    await store.thread("t").update(set={"plan": plan})
    await agent.start("Deploy it.", thread="t")
    await serve(store, agent, plan)


async def long(store: Any, agent: Any, plan: Any) -> None:
    """A server that does not survive what it is given to do."""
    await store.start("long", thread="t")
    await serve(store, agent, plan)


async def beside(store: Any, agent: Any, plan: Any) -> None:
    """The same, while it waits for somebody too."""
    await store.start("beside", thread="t")
    await serve(store, agent, plan)


async def recover(store: Any, agent: Any, plan: Any) -> None:
    """A program that takes up what is due when it starts."""
    await store.recover()


async def resume(store: Any, agent: Any, plan: Any) -> None:
    """Somebody goes on with the thread by hand."""
    await store.resume("t")


async def look(store: Any, agent: Any, plan: Any) -> None:
    """A start that takes up what it may, in both ways, and something new that shows it is done with looking."""
    await store.recover()
    async with store.worker():
        await (await store.start("short", thread="new")).result(timeout=60)


JOBS = {each.__name__: each for each in (ask, serve, long, beside, recover, resume, look)}


async def main(what: str, config: str, folder: str, release: str) -> None:
    async with Perdure.from_config(config) as store:
        agent, plan = registered(store, Path(folder), release)
        await JOBS[what](store, agent, plan)


@contextmanager
def process(what: str, config: Path, folder: Path, release: str = "first") -> Iterator[subprocess.Popen[bytes]]:
    """A process that lives until somebody stops it, at the latest at the end."""
    child = subprocess.Popen(_command(what, config, folder, release), cwd=ROOT)
    try:
        yield child
    finally:
        if child.poll() is None:
            child.kill()
        child.wait()


def done(what: str, config: Path, folder: Path, release: str = "second") -> int:
    """A process that comes to its end by itself: its exit code."""
    return subprocess.run(_command(what, config, folder, release), cwd=ROOT, check=False, timeout=120).returncode


def _command(*words: Any) -> list[str]:
    return [sys.executable, "-m", "tests.seeds.approval_stage", *(str(each) for each in words)]


def perdure_command(*words: str) -> int:
    """The command line, in a process of its own."""
    command = [sys.executable, "-m", "perdure.cli.main", *words]
    return subprocess.run(command, cwd=ROOT, check=False, capture_output=True, timeout=120).returncode


def until(holds: Any) -> Any:
    """What a question gives, as soon as that is something."""
    for _ in range(TRIES):
        if found := holds():
            return found
        time.sleep(0.01)
    raise AssertionError("it did not come to pass")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
