"""Closing what a crash left open in a conversation, before a run goes on with it."""

from __future__ import annotations

from typing import Any

from perdure.core import history
from perdure.core.document import Document
from perdure.core.entries import EntryKind
from perdure.core.errors import NotFoundError
from perdure.runtime.journal import Journal

_PATH = "messages"


async def mend(journal: Journal, began: int | None) -> None:
    """Close tool calls without a result in the messages of the state, and tell of it by an entry.

    Those that were made since version `began` are left to the run that began there and is resumed now: it has their
    results in the log, or asks about them. Without a version no run is left that would give them one.
    """
    if not journal.state_version:
        return
    state = _state((await journal.engine.head(journal.key)).document)
    messages = _messages(state)
    if not history.orphans(messages):
        return
    mended = history.mended(messages, None if began is None else await _open_at(journal, began))
    if mended.open_calls:
        closed = [{"call_id": each.call_id, "name": each.name} for each in mended.open_calls]
        entry = journal.entry(EntryKind.HISTORY_REPAIRED, {"closed": closed})
        request = journal.request().with_entries(entry)
        await journal.engine.save(journal.key, {**state, _PATH: mended.messages}, None, request)


async def _open_at(journal: Journal, version: int) -> set[str]:
    """The calls that were open at a version; none where nobody can tell any more, so that no result is lost."""
    try:
        state = _state(await journal.engine.at(journal.key, version))
    except NotFoundError:
        return set()
    return {each.call_id for each in history.orphans(_messages(state))}


def _state(document: Document) -> Any:
    return document.value()


def _messages(state: Any) -> list[Any]:
    messages = state.get(_PATH) if isinstance(state, dict) else None
    return messages if isinstance(messages, list) else []
