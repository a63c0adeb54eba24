"""Agents for synchronous code."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from perdure.sync.driver import Driver
from perdure.sync.run import Run, run_of
from perdure.sync.running import Running, Ticket, held_thread

if TYPE_CHECKING:
    from perdure.app.agent import Agent as AsyncAgent
    from perdure.app.agent import AgentResult
    from perdure.app.users import UserArg
    from perdure.memory.agents import AgentMemory, Recall
    from perdure.runtime.agents.loop import AgentLoop
    from perdure.runtime.agents.model import Model
    from perdure.runtime.agents.nested import Askable
    from perdure.runtime.options import Retry
    from perdure.sync.memory import MemoryManager
    from perdure.sync.thread import Thread


class Agent:
    """`perdure.Agent` for synchronous code: its tools are plain functions, one after the other."""

    def __init__(self, agent: AsyncAgent, drive: Driver) -> None:
        self._agent = agent
        self._drive = drive

    def __repr__(self) -> str:
        return repr(self._agent)

    @property
    def name(self) -> str:
        """The name that its runs are found by."""
        return self._agent.name

    @property
    def loop(self) -> AgentLoop:
        """The handler of its runs, with which other agents ask it."""
        return self._agent.loop

    def answer_in(self, run: Run, prompt: Any, *, name: str) -> str:
        """Answer a prompt inside the run of somebody else, such as that of a handler. See `perdure.Agent.answer_in`."""
        inner = run_of(run)
        return self._drive(self._agent.answer_in(inner, prompt, name=name))

    def run(self, prompt: Any, *, thread: Thread | str, user: UserArg = None, key: str | None = None) -> AgentResult:
        """Go on with the conversation of a thread here, and return the answer, or what the run waits for."""
        return self._drive(self._agent.run(prompt, thread=held_thread(thread), user=user, key=key))

    def resume(self, thread: Thread | str, *, user: UserArg = None) -> AgentResult:
        """Go on with the unfinished run of a thread here, such as after a decision."""
        return self._drive(self._agent.resume(held_thread(thread), user=user))

    def start(
        self,
        prompt: Any,
        *,
        thread: Thread | str,
        user: UserArg = None,
        key: str | None = None,
        at: datetime | None = None,
    ) -> Ticket:
        """Record that the agent is to be run; `recover()`, `resume()` or a worker runs it."""
        ticket = self._drive(self._agent.start(prompt, thread=held_thread(thread), user=user, key=key, at=at))
        return Ticket(ticket, self._drive)


class Agents(Running):
    """Registers agents as handlers of their names."""

    def agent(
        self,
        name: str,
        *,
        model: Model | None = None,
        tools: Sequence[Callable[..., Any] | Askable] = (),
        instructions: str | None = None,
        description: str | None = None,
        max_turns: int | None = None,
        retry: Retry | int | None = None,
        settings: Mapping[str, Any] | None = None,
        memory: AgentMemory | MemoryManager | bool | None = None,
    ) -> Agent:
        """Register an agent: a model that may call plain functions until it has an answer. See `perdure.Perdure.agent`.

        The model needs a method `reply_now`; `ScriptedModel` and `OpenAICompatible` have one. Raises
        `InvalidInputError` for a model or a tool that can only be awaited.
        """
        from perdure.app.agent import Agent as AsyncAgent
        from perdure.app.agent import spec_of
        from perdure.app.store import parts_of
        from perdure.runtime.agents.loop import check_in_place

        spec = spec_of(
            name, model=model, tools=tools, instructions=instructions, max_turns=max_turns, timeout=None,
            settings=settings, defaults=parts_of(self._store).agent, description=description,
            memory=self._recall(memory),
        )  # fmt: skip
        check_in_place(spec)
        face = lambda run: Run(run, self._run)  # noqa: E731
        return Agent(AsyncAgent(self._store, parts_of(self._store), spec, retry, face), self._run)

    def _recall(self, memory: AgentMemory | MemoryManager | bool | None) -> Recall | None:
        if memory is None:
            return None
        from perdure.memory.agents import recall_of
        from perdure.sync.memory import MemoryManager

        return recall_of(self._store, memory.inner if isinstance(memory, MemoryManager) else memory)
