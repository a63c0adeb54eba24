"""Orchestrator: hands each message of a user to one of several agents, and saves the agents as they change."""

from __future__ import annotations

import asyncio
import copy
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import EllipsisType
from typing import Any
from weakref import WeakValueDictionary

from perdure.core.checkpoint import Checkpoint
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.identity import check_id
from perdure.core.message import Message
from perdure.flowagent.agent import FINISHED, StandardAgent, as_message, check_agent
from perdure.flowagent.binding import ATTRIBUTE, binding_of
from perdure.flowagent.calling import settled
from perdure.flowagent.manager import CheckpointManager

Router = Callable[[Message, Sequence[StandardAgent]], Any]
AgentSource = StandardAgent | type[StandardAgent]
_NEWEST_LOOKED_AT = 200  # checkpoints of a user, when the user's agents are brought back after a restart

_log = logging.getLogger("perdure.flowagent")


class Orchestrator:
    """Hands messages to agents: one agent at a time has the conversation of a user, until it is finished.

    `agents` are objects, or classes of which each user gets an object. An object without a user serves everybody: each
    user gets a copy. Who gets a new conversation is decided by `router(message, agents)`, a function that returns an
    agent, its class name, its id, or None, or a `ModelRouter`; without one, or when it returns None, it is the first
    agent whose `can_handle(message)` is true.

    Every agent gets the checkpoint manager. With `auto_checkpoint` each is saved whenever its state changed: when it
    has taken a message in, before a hook runs, when a hook has ended or raised, and for every status it goes through;
    after a restart the user's unfinished agent is restored and goes on.
    """

    def __init__(
        self,
        agents: Iterable[AgentSource | EllipsisType] = (),
        *,
        checkpoint_manager: CheckpointManager | None = None,
        auto_checkpoint: bool = False,
        router: Router | None = None,
    ) -> None:
        if auto_checkpoint and checkpoint_manager is None:
            raise InvalidInputError("auto_checkpoint=True needs a checkpoint_manager to save with")
        if router is not None and not callable(router):
            raise InvalidInputError(f"router must be a function of a message and a list of agents, not {router!r}")
        self.checkpoint_manager = checkpoint_manager
        self.auto_checkpoint = auto_checkpoint
        self._router = router
        self._agents: dict[tuple[str, str], StandardAgent] = {}
        self._shared: list[AgentSource] = []  # of which every user gets one of their own
        self._active: dict[str, StandardAgent] = {}
        self._finished: dict[str, StandardAgent] = {}  # by an earlier process, the newest of each user
        self._restored: set[str] = set()  # users whose agents of an earlier process were looked for
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        for agent in agents:
            if not isinstance(agent, EllipsisType):  # flowagent's own page says `agents=[...]`
                self.add(agent)

    @property
    def agents(self) -> list[StandardAgent]:
        """The agents that exist, in the order they were added or made."""
        return list(self._agents.values())

    def active(self, user_id: str) -> StandardAgent | None:
        """The agent that has the conversation of a user, None between conversations."""
        agent = self._active.get(user_id)
        return None if agent is None or agent.status in FINISHED else agent

    def add(self, agent: AgentSource) -> None:
        """Take an agent in, such as a restored one; it takes the place of one with the same user and id."""
        if isinstance(agent, type):
            if not issubclass(agent, StandardAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise InvalidInputError(f"an agent must be a StandardAgent, not {agent!r}")
            self._shared.append(agent)
            return
        check_agent(agent)
        if not agent.user_id:
            self._shared.append(agent)
        self._take_in(agent)

    def _take_in(self, agent: StandardAgent) -> None:
        key = (agent.user_id, agent.agent_id)
        replaced = self._agents.get(key)
        if replaced is not None and replaced is not agent:
            binding_of(replaced).watcher = None  # both would be saved as the same agent
            if self._active.get(agent.user_id) is replaced:
                self._active[agent.user_id] = agent
        self._agents[key] = agent
        agent.checkpoint_manager = self.checkpoint_manager
        manager = self.checkpoint_manager
        binding_of(agent).watcher = manager.save_changes if manager is not None and self.auto_checkpoint else None

    async def handle_message(self, user_id: str, message: Message | str | Mapping[str, Any]) -> Any:
        """Let the agent of the user's conversation reply, and return its answer.

        Messages of one user are handled one after the other, those of several users at the same time. A message with
        an `id` that the agent has answered already is not handled again: its answer is returned, so that a caller who
        does not know whether a message arrived can send it once more. Raises `NotFoundError` when no agent can handle
        the message.
        """
        user = check_id(user_id, "user_id")
        given = as_message(message)
        lock = self._locks.setdefault(user, asyncio.Lock())
        async with lock:
            await self._bring_back(user)
            earlier = self._answered_by(user, given)
            if earlier is not None:
                return await earlier.reply(given)
            agent = self.active(user) or await self._chosen(user, given)
            self._active[user] = agent
            return await agent.reply(given)

    async def _bring_back(self, user: str) -> None:
        """Restore what the user's agents were when an earlier process saved them."""
        manager = self.checkpoint_manager
        if manager is None or not self.auto_checkpoint or user in self._restored:
            return
        newest: dict[str, Checkpoint] = {}
        for point in await manager.list_by_user(user, limit=_NEWEST_LOOKED_AT):
            if self._is_ours(point.agent_type) and point.agent_id:
                newest.setdefault(point.agent_id, point)
        for agent_id, point in reversed(newest.items()):  # the newest last: it has the conversation
            if (user, agent_id) in self._agents and self._agents[user, agent_id].history:
                continue  # this process has spoken with it already
            agent = await manager.restore(point.id, user_id=user)
            if point.status in FINISHED:
                self._finished[user] = agent  # its last message may be sent once more
            else:
                self._take_in(agent)
                self._active[user] = agent
        self._restored.add(user)

    def _is_ours(self, agent_type: str | None) -> bool:
        names = {each.__name__ if isinstance(each, type) else type(each).__name__ for each in self._shared}
        return agent_type in names | {type(each).__name__ for each in self._agents.values()}

    def _answered_by(self, user: str, message: Message) -> StandardAgent | None:
        """The agent that took this very message in earlier."""
        if message.id is None:
            return None
        theirs = [agent for (owner, _), agent in self._agents.items() if owner == user]
        finished = self._finished.get(user)
        known = [*theirs, finished] if finished is not None else theirs
        return next((agent for agent in known if agent.has_taken(message)), None)

    async def _chosen(self, user: str, message: Message) -> StandardAgent:
        """Who gets a new conversation."""
        candidates = self._candidates(user)
        if not candidates:
            raise NotFoundError(f"an agent of user {user!r}", "add one to the orchestrator")
        agent = await self._routed(message, candidates)
        if agent is None:
            for each in candidates:
                if await settled(each.can_handle(message)):
                    agent = each
                    break
        if agent is None:
            names = ", ".join(type(each).__name__ for each in candidates)
            raise NotFoundError(f"an agent that can handle this message of user {user!r}", f"asked were {names}")
        self._take_in(agent)
        return agent

    def _candidates(self, user: str) -> list[StandardAgent]:
        """The user's unfinished agents, and a new one of each kind that serves everybody."""
        theirs = [agent for (owner, _), agent in self._agents.items() if owner == user]
        open_ones = [agent for agent in theirs if agent.status not in FINISHED]
        kinds = {type(agent) for agent in open_ones}
        fresh = [made for each in self._shared if (made := self._new(each, user)) and type(made) not in kinds]
        return [*open_ones, *fresh] or theirs

    def _new(self, source: AgentSource, user: str) -> StandardAgent:
        if isinstance(source, type):
            return source(user_id=user)
        agent = copy.copy(source)  # attributes that are resources, such as clients, are shared
        vars(agent).pop(ATTRIBUTE, None)
        agent.agent_id = StandardAgent().agent_id
        agent.user_id = user
        agent.history, agent.collected_fields = list(source.history), dict(source.collected_fields)
        return agent

    async def _routed(self, message: Message, candidates: Sequence[StandardAgent]) -> StandardAgent | None:
        if self._router is None:
            return None
        choice = await settled(self._router(message, candidates))
        if choice is None or isinstance(choice, StandardAgent):
            return choice
        for agent in candidates:
            if choice in (agent.agent_id, type(agent).__name__, type(agent)):
                return agent
        names = ", ".join(type(each).__name__ for each in candidates)
        raise NotFoundError(f"agent {choice!r}, which the router named", f"there are {names}")
