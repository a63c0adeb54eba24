"""The part of a store that is about questions: which are open, and answering them."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from perdure.app.directory import Directory
from perdure.app.handle import Handle, key_of
from perdure.core.checkpoint import check_limit
from perdure.core.errors import InvalidInputError
from perdure.core.identity import check_id

if TYPE_CHECKING:
    from perdure.app.thread import Thread
    from perdure.app.users import UserArg
    from perdure.runtime.decisions import Decision, Pause


class Deciding(Directory):
    """Lists questions and keeps answers."""

    async def pauses(
        self, thread: Thread | str | None = None, *, user: UserArg = None, limit: int = 100
    ) -> list[Pause]:
        """The questions that wait for somebody: of all threads, a user's, or one."""
        await self._parts.ready()
        answers, shown = self._parts.running.answers, self._parts.users.shown
        if thread is None:
            return await answers.open(self._namespace, self._whose(user), shown, check_limit(limit))
        row = await self._parts.storage.thread(await key_of(self._named(thread, user)))
        return [] if row is None else await answers.of(row, shown(row.key.user))

    async def decide(
        self,
        pause: Pause | str,
        *,
        approved: bool,
        by: str,
        args: Any = None,
        answer: Any = None,
        version: int | None = None,
    ) -> Decision:
        """Answer a pause; a worker goes on with the run at once, or `resume(thread)` does.

        `args` are the arguments as you edited them, `version` is that of the pause you saw. A second decision raises
        `PauseClosedError`, which names the first.
        """
        return await self._decided(_id_of(pause), approved, check_id(by, "by"), args, answer, version)

    async def link(self, pause: Pause | str, *, by: str, expires: timedelta = timedelta(days=7)) -> str:
        """A signed token with which `by` may decide about a pause once, until it expires, without an account.

        Put it into an address of your own, such as one for a phone: whoever has it decides in the name of `by`.
        """
        await self._parts.ready()
        return await self._parts.running.links.make(self._namespace, _id_of(pause), check_id(by, "by"), expires)

    async def linked(self, token: str) -> Pause:
        """The question that a token leads to. Raises `LinkInvalidError`, `LinkExpiredError`, `PauseClosedError`.

        Only show it: programs that look for viruses follow links too. The decision is a request of its own.
        """
        await self._parts.ready()
        running = self._parts.running
        link = await running.links.read(token)
        return await running.answers.asked(self._namespace, link.pause, self._parts.users.shown)

    async def decide_by_link(self, token: str, *, approved: bool, args: Any = None, answer: Any = None) -> Decision:
        """Answer the pause that a token leads to, in the name of whom it was made for.

        Raises as `decide` does, and `LinkInvalidError`, `LinkExpiredError`.
        """
        await self._parts.ready()
        link = await self._parts.running.links.read(token)
        return await self._decided(link.pause, approved, link.by or "a link", args, answer, link.version)

    async def _decided(
        self, pause: str, approved: bool, by: str, args: Any, answer: Any, version: int | None
    ) -> Decision:
        from perdure.runtime.answering import Answer

        await self._parts.ready()
        if type(approved) is not bool:
            raise InvalidInputError(f"approved must be True or False, not {approved!r}")
        given = Answer(pause, approved, by, args, answer, version)
        return await self._parts.running.answers.decide(self._namespace, given)

    def _named(self, thread: Thread | str, user: UserArg) -> Handle:
        if isinstance(thread, Handle):
            return thread
        return self.thread(thread, user=user)  # type: ignore[attr-defined]


def _id_of(pause: Any) -> str:
    found = getattr(pause, "id", pause)
    if not isinstance(found, str):
        raise InvalidInputError(f"{pause!r} is not a pause, nor the id of one; store.pauses() lists them")
    return found
