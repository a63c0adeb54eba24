"""Several agents behind one door, saved as they change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import EllipsisType
from typing import Any

from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.message import Message
from perdure.flowagent.agent import FINISHED, StandardAgent
from perdure.flowagent.binding import binding_of
from perdure.flowagent.manager import CheckpointManager


class Orchestrator:
    """Hands messages to the agents of their user.

    Every agent gets the checkpoint manager. With `auto_checkpoint` each is saved whenever its state changed: when it
    has taken a message in, before a hook runs, when a hook has ended or raised, and for every status it goes through.
    """

    def __init__(
        self,
        agents: Iterable[StandardAgent | EllipsisType] = (),
        *,
        checkpoint_manager: CheckpointManager | None = None,
        auto_checkpoint: bool = False,
    ) -> None:
        if auto_checkpoint and checkpoint_manager is None:
            raise InvalidInputError("auto_checkpoint=True needs a checkpoint_manager to save with")
        self.checkpoint_manager = checkpoint_manager
        self.auto_checkpoint = auto_checkpoint
        self._agents: dict[tuple[str, str], StandardAgent] = {}
        for agent in agents:
            if not isinstance(agent, EllipsisType):  # flowagent's own page says `agents=[...]`
                self.add(agent)

    @property
    def agents(self) -> list[StandardAgent]:
        """The agents, in the order they were added."""
        return list(self._agents.values())

    def add(self, agent: StandardAgent) -> None:
        """Take an agent in, such as a restored one; it takes the place of one with the same user and id."""
        if not isinstance(agent, StandardAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"an agent must be a StandardAgent, not {agent!r}")
        key = (agent.user_id, agent.agent_id)
        replaced = self._agents.get(key)
        if replaced is not None and replaced is not agent:
            binding_of(replaced).watcher = None  # both would be saved as the same agent
        self._agents[key] = agent
        agent.checkpoint_manager = self.checkpoint_manager
        manager = self.checkpoint_manager
        binding_of(agent).watcher = manager.save_changes if manager is not None and self.auto_checkpoint else None

    async def handle_message(self, user_id: str, message: Message | str | Mapping[str, Any]) -> Any:
        """Let the user's agent reply, and return its answer.

        That is the first of them that has not finished, or else the first. Raises `NotFoundError` when there is none.
        """
        return await self._agent_of(user_id).reply(message)

    def _agent_of(self, user_id: str) -> StandardAgent:
        theirs = [agent for agent in self._agents.values() if agent.user_id == user_id]
        if not theirs:
            raise NotFoundError(f"an agent of user {user_id!r}", "add one to the orchestrator")
        return next((agent for agent in theirs if agent.status not in FINISHED), theirs[0])
