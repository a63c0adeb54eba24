"""A release workflow with every kind of step, and a world outside in which its agents and tools leave their marks."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

from perdure import Message, Perdure, StandardAgent
from perdure.workflows import WorkflowExecutor

RELEASE = """
workflow:
  name: release
  checkpoint: true
inputs:
  service: text
  cities: {type: list, default: [Paris, Rome, Oslo]}
steps:
  - name: plan
    agent: Planner
    input: "release {{ inputs.service }}"
  - name: build
    tool: build
    args: {service: "{{ inputs.service }}", steps: "{{ steps.plan.output.steps }}"}
    retry: {times: 3, delay: 0.01, on: [ConnectionError]}
  - name: tests
    parallel:
      - name: unit
        tool: unit
      - name: lint
        agent: Linter
        input: "{{ steps.build.output }}"
  - name: notify
    foreach: "{{ inputs.cities }}"
    limit: 2
    tool: notify
    args: {city: "{{ item }}"}
  - name: never
    when: "{{ steps.tests.output.lint }} == 'dirty'"
    agent: Linter
  - name: settle
    wait: 0.01
  - name: approve
    approval: {ask: "Deploy {{ inputs.service }}?", args: {env: prod}, who: [ann]}
  - name: canary
    tool: canary
    on_error:
      fallback:
        tool: rollback
        args: {why: "{{ error.message }}"}
  - name: deploy
    tool: deploy
    args: {env: "{{ steps.approve.output.args.env }}", by: "{{ steps.approve.output.by }}"}
  - name: report
    agent: Reporter
    input: {deployed: "{{ steps.deploy.output }}", notified: "{{ steps.notify.output }}"}
output: {report: "{{ steps.report.output }}", canary: "{{ steps.canary.output }}"}
"""


class World:
    """Marks that agents and tools leave outside of the store: a file that a killed process cannot take back."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "marks"

    def mark(self, name: str, **about: Any) -> None:
        line = json.dumps({"name": name, **about}) + "\n"
        fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(fd, line.encode())
        os.close(fd)

    def marks(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.path.read_text().splitlines()] if self.path.exists() else []

    def counts(self) -> Counter[str]:
        return Counter(each["name"] for each in self.marks())


def executor(store: Perdure, world: World, **options: Any) -> WorkflowExecutor:
    """An executor with the agents and tools of the release."""

    class Planner(StandardAgent):
        async def on_running(self, msg: Message) -> dict[str, Any]:
            world.mark("Planner")
            return {"steps": 3, "about": msg.content}

    async def linter(given: Any) -> str:
        world.mark("Linter")
        return f"clean {given}"

    async def reporter(given: dict[str, Any]) -> str:
        world.mark("Reporter")
        return f"{given['deployed']}; told {', '.join(given['notified'])}"

    def build(service: str, steps: int) -> str:
        world.mark("build")
        if world.counts()["build"] < 2:
            raise ConnectionError("no route")
        return f"{service}-{steps}"

    def unit() -> int:
        world.mark("unit")
        return 12

    def notify(city: str) -> str:
        world.mark(f"notify {city}")
        return city.upper()

    def canary() -> None:
        world.mark("canary")
        raise RuntimeError("too slow")

    def rollback(why: str) -> str:
        world.mark("rollback")
        return f"rolled back: {why}"

    def deploy(env: str, by: str) -> str:
        world.mark("deploy")
        return f"deployed to {env} by {by}"

    agents = {"Planner": Planner, "Linter": linter, "Reporter": reporter}
    return WorkflowExecutor(agents, tools=[build, unit, notify, canary, rollback, deploy], store=store, **options)


OUTPUT = {
    "report": "deployed to prod by ann; told PARIS, ROME, OSLO",
    "canary": "rolled back: too slow",
}
MARKS = Counter({
    "Planner": 1, "build": 2, "unit": 1, "Linter": 1, "notify Paris": 1, "notify Rome": 1, "notify Oslo": 1,
    "canary": 1, "rollback": 1, "deploy": 1, "Reporter": 1,
})  # fmt: skip


async def answered(store: Perdure, thread: str, world: World) -> int:
    """Answer the questions of a thread as a person would who looks at the world; return how many."""
    pauses = await store.pauses(thread)
    for pause in pauses:
        if not pause.name.startswith("unverified"):
            await store.decide(pause, approved=True, by="ann")
            continue
        name = pause.name.split()[1]
        city = (pause.args or {}).get("city")
        least = 1 if name == "build" else 0  # the first build fails
        ran = world.counts()[f"{name} {city}" if city else name] > least
        result = {
            "build": "api-3",
            "unit": 12,
            "deploy": "deployed to prod by ann",
            "rollback": "rolled back: too slow",
        }.get(name, str(city or "").upper())
        await store.decide(pause, approved=not ran, by="ann", answer=result if ran else None)
    return len(pauses)
