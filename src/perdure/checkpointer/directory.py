"""Threads: titles, tags, participants, and who they belong to."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perdure.app.handle import key_of
from perdure.app.store import parts_of
from perdure.app.thread import Thread
from perdure.checkpointer.calling import operation, twin
from perdure.checkpointer.calls import Calls
from perdure.checkpointer.config import Config
from perdure.checkpointer.thread_info import ThreadInfo, kept_metadata, thread_info
from perdure.core.errors import InvalidInputError, NotFoundError


class Directory(Calls):
    """The part of a checkpointer that knows threads."""

    @operation
    async def aput_thread(self, config: Config, thread_info: ThreadInfo) -> None:
        """Name a thread, tag it, and keep whatever else is known of it; it is made when there is none.

        Metadata replaces what was there. Raises `InvalidInputError` when it is another thread's or user's.
        """
        place = self._place(config)
        if str(thread_info.thread_id) != place.thread_id:
            raise InvalidInputError(f"the thread info is of {thread_info.thread_id!r}, the config {place.thread_id!r}")
        thread = await self._whose(config, thread_info.user_id)
        found = await parts_of(self.store).storage.thread(await key_of(thread))
        await thread.change(
            name=thread_info.thread_name, tags=thread_info.tags, status=thread_info.status,
            metadata=kept_metadata(thread_info, 1 + (found.head if found else 0)),
        )  # fmt: skip

    async def _whose(self, config: Config, told: str | int | None) -> Thread:
        """The thread of a config, or, where there is none and the config names no user, that of the user told of it."""
        named, thread = self._user(config), self.thread(config)
        if told is None:
            return thread
        if named is None:
            found = await parts_of(self.store).storage.thread(await key_of(thread))
            named = told if found is None else thread.user
        if str(named) != str(told):
            raise InvalidInputError(f"the thread info is of user {told!r}, thread {thread.id!r} of {named!r}")
        return self.thread({**config, "user_id": told})

    @operation
    async def aget_thread(self, config: Config) -> ThreadInfo | None:
        """What is known of a thread; None when there is none."""
        try:
            return thread_info(await self.thread(config).info())
        except NotFoundError:
            return None

    @operation
    async def alist_threads(
        self,
        config: Config | None = None,
        search: str | None = None,
        offset: int | None = None,
        limit: int | None = None,
        *,
        tag: str | None = None,
        status: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> list[ThreadInfo]:
        """The threads of the user that a config names, or of its thread's owner, newest first; else of everybody.

        `search` is a text that a title or an id holds.
        """
        whose = await self._listed_user(config or {})
        found = await self.store.threads(
            50 if limit is None else limit, user=whose, search=search, offset=offset or 0, tag=tag,
            status=status, metadata=metadata,
        )  # fmt: skip
        return [thread_info(each) for each in found]

    @operation
    async def aclean_thread(self, config: Config) -> bool:
        """Delete a thread with everything that belongs to it; False when there was none."""
        await (await self._results(config)).delete()
        return await self.thread(config).delete()

    @operation
    async def awarm(self, user_ids: Iterable[str | int], threads: int = 3) -> int:
        """Bring the newest threads of users into Redis, and return how many are there now; 0 without Redis."""
        if not self._address("async")[1].get("hot"):
            return 0
        return await self.store.warm(list(user_ids), threads=threads)

    put_thread = twin(aput_thread)
    get_thread = twin(aget_thread)
    list_threads = twin(alist_threads)
    clean_thread = twin(aclean_thread)
    warm = twin(awarm)
