"""The conversation of a thread and its directory line, for synchronous code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Unpack

from perdure.app.analytics import Analytics, Topics
from perdure.app.asking import Filters, MessageLine
from perdure.app.handle import Fresh, LastRead
from perdure.app.talking import Place
from perdure.app.thread import Thread as AsyncThread
from perdure.app.users import UserId
from perdure.core.history import Orphan
from perdure.sync.driver import Driver


class Talking:
    """The part of a thread that is about what was said, and about how it is found."""

    def __init__(self, thread: AsyncThread, run: Driver) -> None:
        self._thread = thread
        self._run = run

    @property
    def id(self) -> str:
        """The id of the thread."""
        return self._thread.id

    @property
    def user(self) -> UserId | None:
        """Whose thread it is, once that is known."""
        return self._thread.user

    @property
    def last_read(self) -> LastRead | None:
        """Where the last `load` of the newest state, or list of `messages`, came from, and how old it was."""
        return self._thread.last_read

    def __repr__(self) -> str:
        return repr(self._thread)

    def messages(
        self,
        limit: int | None = None,
        search: str | None = None,
        *,
        before: Place = None,
        after: Place = None,
        fresh: Fresh = "storage",
        max_age: float | None = None,
        **filters: Unpack[Filters],
    ) -> list[Any]:
        """Return what was said in this thread, oldest first; with `limit`, the newest that many."""
        return self._run(
            self._thread.messages(limit, search, before=before, after=after, fresh=fresh, max_age=max_age, **filters)
        )

    def message_lines(
        self,
        limit: int | None = None,
        search: str | None = None,
        *,
        before: Place = None,
        after: Place = None,
        **filters: Unpack[Filters],
    ) -> list[MessageLine]:
        """Like `messages`, each with its number, id, role and time."""
        return self._run(self._thread.message_lines(limit, search, before=before, after=after, **filters))

    def message(self, message_id: str) -> Any:
        """Return the message of an id; raise `NotFoundError` when there is none."""
        return self._run(self._thread.message(message_id))

    def add_messages(self, *messages: object, key: str | None = None) -> int:
        """Add messages to the conversation, all in one write, and return the version of the last one."""
        return self._run(self._thread.add_messages(*messages, key=key))

    def delete_message(self, message_id: str) -> bool:
        """Take a message back: it is listed and found no more, and its content is removed from the log."""
        return self._run(self._thread.delete_message(message_id))

    def analytics(self, *, topics: Topics | None = None, **filters: Unpack[Filters]) -> Analytics:
        """The messages in numbers: by role, tool calls, errors, tokens, durations; counted by the storage."""
        return self._run(self._thread.analytics(topics=topics, **filters))

    def repair_history(self) -> list[Orphan]:
        """Close tool calls that have no result, so that a model accepts the history again; return what was open."""
        return self._run(self._thread.repair_history())

    def change(
        self,
        *,
        name: str | None = None,
        tags: Iterable[str] | None = None,
        status: str | None = None,
        agent: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Change what the directory says of the thread, made when there is none, and return the version."""
        return self._run(self._thread.change(name=name, tags=tags, status=status, agent=agent, metadata=metadata))

    def rename(self, name: str) -> int:
        """Give the thread another name."""
        return self._run(self._thread.rename(name))
