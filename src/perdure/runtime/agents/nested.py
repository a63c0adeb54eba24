"""An agent as a tool of another agent: what it does is recorded in the run of the one that asks it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from perdure.core.errors import InvalidInputError
from perdure.runtime.agents.tool import Tool, tools_of
from perdure.runtime.run import Run


class NestedLoop(Protocol):
    """The part of an agent's loop that works inside the run of another."""

    @property
    def spec(self) -> Any: ...

    async def answer_in(self, run: Run, prompt: Any, *, name: str) -> str: ...


@runtime_checkable
class Askable(Protocol):
    """An agent, of asynchronous or of synchronous code."""

    @property
    def name(self) -> str: ...

    @property
    def loop(self) -> NestedLoop: ...


class AgentTool(Tool):
    """A tool that asks another agent. It may be called again after a crash: what the agent did is in the log."""

    def __init__(self, agent: Askable) -> None:
        def ask(prompt: str) -> str:
            raise InvalidInputError(f"agent {agent.name!r} is a tool of other agents; ask it yourself with agent.run()")

        ask.__doc__ = agent.loop.spec.description or f"Ask the agent {agent.name}, and return its answer."
        super().__init__(ask, name=agent.name, repeatable=True)
        self.agent = agent

    def ask_in(self, run: Run, prompt: str) -> Any:
        """Ask the agent inside a run."""
        work, answer = run.runtime.work, self.agent.loop.answer_in(run, prompt, name=self.name)
        return work.drive(answer) if work.in_place else answer


def tools_and_agents(given: object) -> Mapping[str, Tool]:
    """The tools of an agent by name; functions and other agents are tools too."""
    if isinstance(given, list | tuple):
        given = [AgentTool(each) if isinstance(each, Askable) else each for each in given]
    return tools_of(given)
