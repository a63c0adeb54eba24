"""The part of a store that makes agents."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.app.running import Running

if TYPE_CHECKING:
    from perdure.app.agent import Agent
    from perdure.runtime.agents.model import Model
    from perdure.runtime.options import Retry


class Agents(Running):
    """Registers agents as handlers of their names."""

    def agent(
        self,
        name: str,
        *,
        model: Model,
        tools: Sequence[Callable[..., Any]] = (),
        instructions: str | None = None,
        max_turns: int = 20,
        timeout: float | timedelta | None = None,
        retry: Retry | int | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> Agent:
        """Register an agent: a model that may call tools until it has an answer. `await agent.run(prompt, thread=…)`.

        It is the handler of its name: a worker, `recover()` and `resume()` go on with its runs wherever the name is
        registered. `instructions` come first in what the model sees, `settings` are handed to it. After `max_turns`
        answers without a final one a run raises `TurnLimitError`. `timeout` is for one answer of the model, `retry` for
        runs that raise, as with `handler`.
        """
        from perdure.app.agent import Agent, spec_of

        spec = spec_of(
            name, model=model, tools=tools, instructions=instructions, max_turns=max_turns, timeout=timeout,
            settings=settings,
        )  # fmt: skip
        return Agent(self, self._parts, spec, retry)
