"""Saving agents, and bringing them back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import timedelta
from typing import Any

import msgspec

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.core.checkpoint import Checkpoint, check_limit
from perdure.core.codec import encode
from perdure.core.digest import digest_of
from perdure.core.errors import InvalidInputError, NotFoundError
from perdure.core.ids import IdMaker
from perdure.core.message import Message
from perdure.core.ports import Clock
from perdure.core.times import to_datetime
from perdure.flowagent.agent import StandardAgent, check_agent
from perdure.flowagent.binding import Base, Binding, binding_of
from perdure.flowagent.calling import settled
from perdure.flowagent.capture import bring_back, draft_of
from perdure.flowagent.classes import class_of
from perdure.flowagent.comparing import CheckpointDiff, difference
from perdure.flowagent.events import Handler, Handlers
from perdure.flowagent.storage import CheckpointStorage, as_checkpoint
from perdure.flowagent.tree import CheckpointTree

Factory = Callable[..., Any]
MANUAL, ROUTINE = "manual", "routine"


class CheckpointManager:
    """Saves agents to a storage and restores them.

    `factories` maps the name of an agent's class to a callable that makes one from `agent_id` and `user_id`, for
    agents that cannot be made without their `__init__`. A `clock` of your own tells the time.
    """

    def __init__(
        self,
        storage: CheckpointStorage,
        *,
        factories: Mapping[str, Factory] | None = None,
        clock: Clock | None = None,
    ) -> None:
        if not isinstance(storage, CheckpointStorage):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"storage must be a CheckpointStorage, not {storage!r}")
        self.storage = storage
        self._factories = dict(factories or {})
        self._clock: Clock = clock or storage.clock or SystemClock()
        self._ids = IdMaker(self._clock, SystemRandomness())
        self._handlers = Handlers()

    def on(self, event: str) -> Callable[[Handler], Handler]:
        """Add a handler: of "checkpoint_saved", called with the checkpoint, or of "checkpoint_restored", called with
        the checkpoint and the agent.

        Plain functions and coroutines will do. They run after the commit, and one that raises is logged: it never
        harms what was saved.
        """
        return self._handlers.on(event)

    async def save(self, agent: StandardAgent, metadata: Mapping[str, Any] | None = None) -> str:
        """Save an agent as it is, and return the id of the checkpoint.

        After `restore` of an old point the save goes on from there: what came later stays in the list, and is not what
        the agent builds on. Raises `UnsupportedValueError` naming the field that cannot be kept.
        """
        check_agent(agent)
        binding = binding_of(agent)
        async with binding.lock:
            passed = await self._save_passed(agent, binding)
            saved = await self._save(binding, draft_of(agent, kind=MANUAL, metadata=metadata))
        await self._tell_saved([*passed, saved])
        return saved.id

    async def save_changes(self, agent: StandardAgent) -> None:
        """Save an agent if it is not as it was saved last, every status it went through since included."""
        binding = binding_of(agent)
        async with binding.lock:
            saved = await self._save_passed(agent, binding)
            draft = draft_of(agent, kind=ROUTINE)
            if _print_of(draft) != binding.saved:
                saved.append(await self._save(binding, draft))
        await self._tell_saved(saved)

    async def restore(self, checkpoint_id: str, user_id: str | None = None) -> Any:
        """Give back the agent as it was at a checkpoint, with its history, ready to reply.

        Name the user whenever the id came from one: a checkpoint of another user is then absent. The agent is made
        without `__init__`, unless there is a factory for its class. Raises `NotFoundError` when there is no such
        checkpoint, or no class of that name in this process.
        """
        point = await self._load(checkpoint_id, user_id)
        agent = await self._made(point)
        bring_back(agent, point)
        binding = binding_of(agent)
        binding.base, binding.restored = Base(point.id, point.version), True
        agent.checkpoint_manager = self
        await settled(agent.on_restored())
        await self._handlers.tell("checkpoint_restored", point, agent)
        return agent

    async def list_by_user(self, user_id: str, limit: int = 50, offset: int = 0) -> list[Checkpoint]:
        """Checkpoints of a user, newest first. Their states are not loaded."""
        found = await self.storage.list_by_user(user_id, check_limit(limit), check_limit(offset, "offset"))
        return list(map(as_checkpoint, found))

    async def compare(self, old_id: str, new_id: str, user_id: str | None = None) -> CheckpointDiff:
        """How two checkpoints differ: `changed_fields`, `old_status`, `new_status` and all `differences`.

        Where a user is named, checkpoints of others are absent. Raises `NotFoundError`.
        """
        return difference(await self._load(old_id, user_id), await self._load(new_id, user_id))

    async def tree(self, user_id: str, agent_id: str | None = None, *, limit: int = 1000) -> CheckpointTree:
        """The newest checkpoints of a user, or of one agent, as a tree by their parents."""
        found = await self.list_by_user(user_id, limit=limit)
        return CheckpointTree(each for each in found if agent_id is None or each.agent_id == agent_id)

    async def replay_from(
        self,
        checkpoint_id: str,
        new_message: Message | str | Mapping[str, Any],
        branch_label: str | None = None,
        *,
        user_id: str | None = None,
    ) -> Any:
        """Restore the agent of a checkpoint, give it another message, and save what became of it as a branch.

        Returns the agent; its `history` ends with its answer. Nothing of the other branch is lost: `tree` shows both,
        and the checkpoint of the new one has the label in its metadata, under `branch`. What tools did outside before
        stays done.
        """
        agent = await self.restore(checkpoint_id, user_id)
        await agent.reply(new_message)
        label = {} if branch_label is None else {"branch": branch_label}
        await self.save(agent, metadata={**label, "replayed_from": checkpoint_id})
        return agent

    async def clear_user_history(self, user_id: str) -> int:
        """Delete all checkpoints of a user, and return how many."""
        return await self.storage.delete_by_user(user_id)

    async def cleanup_old_checkpoints(self, max_age_days: float = 30) -> int:
        """Delete the checkpoints of all users that are older, and return how many."""
        if isinstance(max_age_days, bool) or not isinstance(max_age_days, int | float) or not max_age_days >= 0:  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"max_age_days must be a number from 0 on, not {max_age_days!r}")
        return await self.storage.delete_older_than(to_datetime(self._clock.now()) - timedelta(days=max_age_days))

    async def announce(self, checkpoint: Checkpoint) -> None:
        """Call the handlers of "checkpoint_saved" for a checkpoint that something else saved, such as a workflow."""
        await self._tell_saved([checkpoint])

    async def _load(self, checkpoint_id: str, user_id: str | None) -> Checkpoint:
        one = self.storage.load(checkpoint_id) if user_id is None else self.storage.load_of(checkpoint_id, user_id)
        found = await one
        if found is None:
            raise NotFoundError(f"checkpoint {checkpoint_id!r}", "list_by_user shows those of a user")
        return as_checkpoint(found)

    async def _made(self, point: Checkpoint) -> StandardAgent:
        factory = self._factories.get(point.agent_type or "")
        if factory is None:
            cls = class_of(point)
            return cls.__new__(cls)
        agent = await settled(factory(agent_id=point.agent_id, user_id=point.user_id))
        check_agent(agent)
        return agent

    async def _save_passed(self, agent: StandardAgent, binding: Binding) -> list[Checkpoint]:
        """Save the statuses that the agent went through; one it is still in is saved with what came of it."""
        saved: list[Checkpoint] = []
        passed = binding.passed
        while passed:
            following = passed[1].status if len(passed) > 1 else agent.status
            if passed[0].status != following:
                saved.append(await self._save(binding, passed[0]))
            del passed[0]  # only now: a storage that is away for a moment loses nothing
        return saved

    async def _save(self, binding: Binding, draft: Checkpoint) -> Checkpoint:
        base = binding.base
        self._ids.follow(base.id if base else None)
        stamped = msgspec.structs.replace(
            draft,
            id=self._ids.checkpoint(),
            timestamp=to_datetime(self._clock.now()),
            parent_checkpoint_id=base.id if base else None,
        )
        saved = await self.storage.keep(stamped, base)
        binding.base = Base(saved.id, saved.version)
        if binding.watcher is not None:
            binding.saved = _print_of(draft)
        return saved

    async def _tell_saved(self, saved: list[Checkpoint]) -> None:
        for point in saved:
            await self._handlers.tell("checkpoint_saved", point)


def _print_of(draft: Checkpoint) -> bytes:
    """A digest of what the agent was; when and why it was saved is not part of it."""
    names = ("status", "collected_fields", "required_fields", "context_summary", "history", "attributes")
    return digest_of(encode({name: getattr(draft, name) for name in names}))
