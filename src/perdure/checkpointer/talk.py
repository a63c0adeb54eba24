"""Messages: the chronicle of a thread."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from perdure.app.analytics import Analytics, Topics
from perdure.app.asking import Filters, MessageLine
from perdure.checkpointer.calling import operation, twin
from perdure.checkpointer.calls import Calls
from perdure.checkpointer.config import Config
from perdure.checkpointer.speech import as_message, as_messages
from perdure.core.checkpoint import check_limit
from perdure.core.message import Message


class Talk(Calls):
    """The part of a checkpointer that keeps messages."""

    @operation
    async def aput_messages(
        self, config: Config, messages: Sequence[Message], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Add messages, all in one transaction. One whose id is there already takes its place, or changes nothing."""
        place = self._place(config)
        said = as_messages(messages, {**place.run(), **(metadata or {})})
        if said:
            await self.thread(config).add_messages(*said)

    @operation
    async def alist_messages(
        self,
        config: Config,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        before: str | None = None,
        after: str | None = None,
        role: str | Iterable[str] | None = None,
        node: str | None = None,
        run_id: str | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[Message]:
        """List messages in the order they were said: all of them, or the newest `limit`.

        `search` finds those that hold all its words. To page back, give the id of the oldest message you have as
        `before`; to go on, the newest as `after`. `offset` leaves out the newest that many.
        """
        skipped = check_limit(offset or 0, "offset")
        asked: Filters = {
            "role": role, "node": node, "run": run_id, "since": since, "until": until, "metadata": metadata,
        }  # fmt: skip
        wanted = None if limit is None else check_limit(limit) + skipped
        lines = await self.thread(config).message_lines(wanted, search, before=before, after=after, **asked)
        kept = lines[skipped:] if after is not None else lines[: len(lines) - skipped]
        return [as_message(line.message) for line in kept]

    @operation
    async def aget_message(self, config: Config, message_id: str | int) -> Message:
        """The message of an id; raise `NotFoundError` when there is none."""
        return as_message(await self.thread(config).message(str(message_id)))

    @operation
    async def adelete_message(self, config: Config, message_id: str | int) -> bool:
        """Delete a message with its content; False when there is none. The state is not touched."""
        return await self.thread(config).delete_message(str(message_id))

    @operation
    async def asearch(self, config: Config, text: str, limit: int = 50) -> list[MessageLine]:
        """Find messages in all threads of the user that a config names, or of its thread's owner, newest first."""
        return await self.store.search(text, user=await self._listed_user(config), limit=limit)

    @operation
    async def aanalytics(self, config: Config, *, topics: Topics | None = None) -> Analytics:
        """The messages of a thread, or without a `thread_id` of all threads of a user, in numbers."""
        user = self._user(config)  # also refuses what is no config
        if config.get("thread_id") is None:
            return await self.store.analytics(user=user, topics=topics)
        return await self.thread(config).analytics(topics=topics)

    def put_messages_soon(
        self, config: Config, messages: Sequence[Message], metadata: Mapping[str, Any] | None = None
    ) -> None:
        """Add messages from where nobody can wait: they are written by a thread, in order, before a release ends."""
        place, kept = self._place(config), dict(config)  # the caller may fill the same dict with another thread
        said = as_messages(messages, {**place.run(), **(metadata or {})})
        self._stores.opened("sync")  # where that cannot be, the caller is told
        self._soon.put(place.thread_id, lambda: self._drive(self.aput_messages(kept, said)))

    put_messages = twin(aput_messages)
    list_messages = twin(alist_messages)
    get_message = twin(aget_message)
    delete_message = twin(adelete_message)
    search = twin(asearch)
    analytics = twin(aanalytics)
