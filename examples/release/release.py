"""A release as a workflow: notes by a model, a build that is retried, a test matrix, an approval, a fallback.

    python release.py start SERVICE     run until somebody has to approve
    python release.py approve NAME      approve as NAME, and go on
    python release.py deny NAME         deny as NAME
    python release.py show              how far each step came

Runs without a key. With OPENAI_API_KEY set, a model writes the notes.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path

from perdure import OpenAICompatible, Perdure, ScriptedModel
from perdure.errors import StepDeniedError
from perdure.workflows import WorkflowExecutor, as_text, load_workflow

WORKFLOW = load_workflow(Path(__file__).with_name("workflow.yaml"))
THREAD = "release"
ATTEMPTS = Path("build-attempts")


async def write_notes(prompt: str) -> str:
    scripted = ScriptedModel(["Faster start-up, and a fix for retries."])
    model = OpenAICompatible("gpt-4o-mini") if os.environ.get("OPENAI_API_KEY") else scripted
    reply = await model.reply([{"role": "user", "content": prompt}], tools=[], settings={})
    return reply.text


def build(service: str) -> str:
    ATTEMPTS.write_text(ATTEMPTS.read_text() + "x" if ATTEMPTS.exists() else "x")
    if len(ATTEMPTS.read_text()) == 1:
        raise ConnectionError("the builder did not answer")
    return f"{service}:1.4"


def run_tests(image: str, python: str) -> str:
    return f"{image} on {python}: passed"


def deploy(image: str) -> str:
    if os.environ.get("DEPLOY_FAILS"):
        raise RuntimeError("the canary is too slow")
    return f"{image} is live"


def roll_back(image: str, why: str) -> str:
    return f"{image} was rolled back: {why}"


def executor(store: Perdure) -> WorkflowExecutor:
    return WorkflowExecutor({"Writer": write_notes}, tools=[build, run_tests, deploy, roll_back], store=store)


async def main(command: str, argument: str = "") -> None:
    async with Perdure.open("sqlite:///release.db") as store:
        runner = executor(store)
        if command == "show":
            print(as_text(WORKFLOW, await runner.progress(WORKFLOW, THREAD)))
            return
        if command in ("approve", "deny"):
            (pause,) = await store.pauses(THREAD)
            await store.decide(pause, approved=command == "approve", by=argument)
        inputs = {"service": argument} if command == "start" else (await store.runs())[0].input["inputs"]
        try:
            result = await runner.run(WORKFLOW, inputs, thread=THREAD)
        except StepDeniedError as exc:
            print(exc)
            return
        print(result.output["deployed"] if result else f"{result.status}: {result.pauses[0].ask}")


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in ("start", "approve", "deny", "show"):
        sys.exit(__doc__)
    asyncio.run(main(*sys.argv[1:3]))
