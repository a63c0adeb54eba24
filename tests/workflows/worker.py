"""A worker of the workflow that `test_workers` runs: `python -m tests.workflows.worker URL FOLDER`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from perdure import Perdure
from perdure.workflows import WorkflowExecutor, parse_workflow
from tests.workflows.scenes import World

ORDER = """
workflow: {name: order, checkpoint: true}
inputs: {id: text}
steps:
  - {name: check, agent: checker, input: "{{ inputs.id }}"}
  - name: parts
    foreach: [a, b, c]
    limit: 2
    tool: fetch
    args: {id: "{{ inputs.id }}", part: "{{ item }}"}
  - {name: rest, wait: 0.05}
  - {name: approve, approval: "Ship {{ inputs.id }}?"}
  - {name: ship, tool: ship, args: {id: "{{ inputs.id }}", parts: "{{ steps.parts.output }}"}}
"""


def executor(store: Perdure, world: World) -> WorkflowExecutor:
    async def checker(given: str) -> str:
        await asyncio.sleep(0.05)
        return f"{given} is fine"

    async def fetch(id: str, part: str) -> str:
        world.mark(f"{id} fetch {part}")
        await asyncio.sleep(0.05)
        return f"{id}{part}"

    async def ship(id: str, parts: list[str]) -> str:
        world.mark(f"{id} ship")
        return "+".join(parts)

    return WorkflowExecutor({"checker": checker}, tools=[fetch, ship], store=store)


async def main(url: str, folder: str) -> None:
    async with Perdure.open(url, lease_ttl=1.0) as store:
        executor(store, World(Path(folder))).register(parse_workflow(ORDER))
        await store.worker(concurrency=4).run()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:3]))
