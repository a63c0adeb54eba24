"""What an agent has of a memory: the block in its instructions, and what it remembers of its runs."""

from __future__ import annotations

import hashlib
from typing import Any, NamedTuple

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.message import texts
from perdure.memory.context import PLACE, fill
from perdure.memory.facts import MAX_TEXT_CHARACTERS
from perdure.memory.manager import MemoryManager, Store
from perdure.runtime.agents.memory import Finished


class AgentMemory(msgspec.Struct, frozen=True, kw_only=True):
    """How an agent uses the memory of the user whose thread it works on. Threads of nobody have none."""

    recall: bool = True  # fill `{memory}` in its instructions
    max_tokens: int = 500  # of the block
    recall_limit: int = 20  # facts in the block
    store_on_complete: bool = False  # remember each answer as an outcome
    extract: bool = False  # remember what the user states in the prompt
    manager: MemoryManager | None = None  # with an embedder, a model or patterns of your own; its user does not count

    def __post_init__(self) -> None:
        for name in ("max_tokens", "recall_limit"):
            if type(getattr(self, name)) is not int or getattr(self, name) < 0:
                raise InvalidInputError(f"{name} must be an int from 0 on, not {getattr(self, name)!r}")


def recall_of(store: Store, memory: object) -> Recall | None:
    """What an agent was told about memory, ready to be used; raise `InvalidInputError` for what is nothing of that."""
    if memory is None or memory is False:
        return None
    if memory is True:
        memory = AgentMemory()
    if isinstance(memory, MemoryManager):
        memory = AgentMemory(manager=memory)
    if not isinstance(memory, AgentMemory):
        raise InvalidInputError(f"memory must be True, a MemoryManager or an AgentMemory, not {memory!r}")
    return Recall(memory.manager or MemoryManager(store), memory)


class Recall(NamedTuple):
    """The memory of an agent: always that of the user whose thread it works on, whoever the manager was made for."""

    manager: MemoryManager
    options: AgentMemory

    async def instructions(self, user: str, instructions: str, prompt: Any) -> str:
        """The instructions with what is remembered of a user in the place of `{memory}`."""
        if PLACE not in instructions or not self.options.recall:
            return instructions
        if not user:
            return fill(instructions, "")
        options = self.options
        memory = self._of(user)
        return fill(
            instructions, await memory.build_context(_text(prompt), options.max_tokens, limit=options.recall_limit)
        )

    async def finish(self, done: Finished) -> None:
        """Remember what a run came to, once, however often its end is reached."""
        if not done.user:
            return
        memory, source = self._of(done.user), (done.thread, done.version)
        prompt = _text(done.prompt)
        if self.options.extract and prompt:
            await memory.add_with_extraction(prompt, source=source)
        if self.options.store_on_complete and done.text.strip():
            text = f"{prompt[:200]} → {done.text.strip()}" if prompt else done.text.strip()
            await memory.add_text(
                text[:MAX_TEXT_CHARACTERS], kind="outcome", source=source, author=done.agent, agent=done.agent,
                id="fact_" + hashlib.sha256(f"outcome {done.run} {done.agent} {prompt}".encode()).hexdigest()[:26],
            )  # fmt: skip

    def _of(self, user: str) -> MemoryManager:
        return self.manager.for_key(user)


def _text(prompt: Any) -> str:
    content = prompt.get("content", "") if isinstance(prompt, dict) and "role" in prompt else prompt
    return "\n".join(texts(content)).strip()
