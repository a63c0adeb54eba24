"""What agents are given that are told nothing else: the model and the limits of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.runtime.agents.model import Model

MAX_TURNS = 20


class AgentDefaults(msgspec.Struct, frozen=True, kw_only=True):
    """The model of agents that name none, at a server of OpenAI's chat completions, and what else they are given."""

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    timeout: float | None = None  # seconds for one answer
    attempts: int | None = None
    instructions: str | None = None
    max_turns: int = MAX_TURNS
    settings: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        """Without the key."""
        shown = (f"{name}={getattr(self, name)!r}" for name in ("model", "instructions", "max_turns", "settings"))
        return f"AgentDefaults({', '.join(shown)})"

    def model_for(self, agent: str) -> Model:
        """The model of an agent that was given none; raise `InvalidInputError` where none is configured."""
        if self.model is None:
            raise InvalidInputError(f"agent {agent!r} has no model: give model=, or agent.model in the configuration")
        from perdure.runtime.agents.openai import OpenAICompatible

        given: dict[str, Any] = {
            "base_url": self.base_url, "api_key": self.api_key, "timeout": self.timeout, "attempts": self.attempts,
        }  # fmt: skip
        return OpenAICompatible(self.model, **{name: value for name, value in given.items() if value is not None})
