"""Mending conversations: tool calls without a result, and states that are lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from perdure.app.talking import repair_entry
from perdure.checkpointer.calling import operation, twin
from perdure.checkpointer.config import Config
from perdure.checkpointer.state import AgentState
from perdure.checkpointer.states import States
from perdure.checkpointer.talk import Talk
from perdure.core import history
from perdure.core.message import Message


class Mending(States, Talk):
    """The part of a checkpointer that puts histories right."""

    @operation
    async def arepair_history(self, config: Config) -> list[history.Orphan]:
        """Close tool calls that a crash left without a result, so that a model accepts the history again.

        A result that lies among the messages takes its place in the state's context. Any other call is answered right
        after it, there and in the messages, with a result that says that nobody knows whether the tool ran, and an
        entry `history.repaired` tells of it. Returns what nobody knows.
        """
        state = await self.aget_state(config)
        if state is None or not history.orphans(state.context):
            return []
        mended = history.mended(_with_results(state.context, await self.alist_messages(config, role="tool")))
        await self._mend(config, state, mended)
        return mended.open_calls

    @operation
    async def arepair_conversation(self, config: Config) -> AgentState:
        """Rebuild the state's context from the messages, open calls closed; other fields of the state stay."""
        messages = await self.alist_messages(config)
        state = await self.aget_state(config) or AgentState()
        await self._mend(config, state, history.mended(messages))
        return state

    async def _mend(self, config: Config, state: AgentState, mended: history.Mended) -> None:
        """Save a mended state with the results that were added and the entry that tells of them, in one write."""
        state.context = mended.messages
        told = [repair_entry(mended.open_calls, None)] if mended.open_calls else []
        await self._put(config, state, mended.results, None, told)

    repair_history = twin(arepair_history)
    repair_conversation = twin(arepair_conversation)


def _with_results(context: Sequence[Any], results: Sequence[Message]) -> list[Any]:
    """A context with the results that are known right after the calls that they answer."""
    known = {each.metadata.get("tool_call_id"): each for each in results}
    found: dict[int, list[Message]] = {}
    for orphan in history.orphans(context):
        if orphan.call_id in known:
            found.setdefault(orphan.at, []).append(known[orphan.call_id])
    return [each for at, message in enumerate(context) for each in (message, *found.get(at, ()))]
