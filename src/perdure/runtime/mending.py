"""Closing what a crash left open in a conversation, before a run goes on with it."""

from __future__ import annotations

from typing import Any

from perdure.core import history
from perdure.core.codec import decode
from perdure.core.entries import EntryKind
from perdure.core.runs import Current
from perdure.runtime.journal import Journal

_PATH = "messages"


async def mend(journal: Journal, left_behind: Current | None) -> None:
    """Close tool calls without a result in the messages of the state, and tell of it by an entry.

    The newest call is left open for the run that made it: it has its result in the log, or asks about it. When that
    run was left behind, nobody will give it one.
    """
    if not journal.state_version:
        return
    head = await journal.engine.head(journal.key)
    state: Any = None if head.document.root is None else decode(head.document.close())
    messages: Any = state.get(_PATH) if isinstance(state, dict) else None
    if not isinstance(messages, list) or not messages:
        return
    own = len(messages) if left_behind is not None else _newest_turn(messages)
    mended = history.mended(messages[:own])
    if mended.open_calls:
        closed = [{"call_id": each.call_id, "name": each.name} for each in mended.open_calls]
        entry = journal.entry(EntryKind.HISTORY_REPAIRED, {"closed": closed})
        request = journal.request().with_entries(entry)
        await journal.engine.save(journal.key, {**state, _PATH: [*mended.messages, *messages[own:]]}, None, request)


def _newest_turn(messages: list[Any]) -> int:
    """Where the newest message begins that is not a mere result, if it makes calls that are still open."""
    open_at = {orphan.at for orphan in history.orphans(messages)}
    at = len(messages) - 1
    while at > 0 and at not in open_at and history.is_result(messages[at]):
        at -= 1
    return at if at in open_at else len(messages)
