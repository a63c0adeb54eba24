"""The part of a store that is about questions: which are open, and answering them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from perdure.app.directory import Directory
from perdure.app.handle import Handle, key_of
from perdure.core.checkpoint import check_limit
from perdure.core.errors import SAY_WHOSE, InvalidInputError, NotFoundError, short_repr
from perdure.core.identity import ANY_USER, ThreadKey

if TYPE_CHECKING:
    from perdure.app.thread import Thread
    from perdure.app.users import UserArg
    from perdure.core.approvers import Approver
    from perdure.runtime.allowances import Allowance
    from perdure.runtime.answering import Scope, View
    from perdure.runtime.decisions import Decision, Pause


class Deciding(Directory):
    """Lists questions and keeps answers."""

    async def pauses(
        self, thread: Thread | str | None = None, *, user: UserArg = None, limit: int = 100
    ) -> list[Pause]:
        """The questions that wait for somebody: of all threads, a user's, or one."""
        from perdure.runtime.answering import View

        await self._parts.ready()
        answers, shown = self._parts.running.answers, self._parts.users.shown
        if thread is None:
            return await answers.open(View(self._namespace, self._whose(user)), shown, check_limit(limit))
        row = await self._parts.storage.thread(await self._key(thread, user))
        return [] if row is None else await answers.of(row, shown(row.key.user))

    async def decide(
        self,
        pause: Pause | str,
        *,
        approved: bool,
        by: str,
        groups: Sequence[str] = (),
        args: Any = None,
        answer: Any = None,
        version: int | None = None,
        scope: Scope = "call",
        user: UserArg = None,
    ) -> Decision:
        """Answer a pause; a worker goes on with the run at once, or `resume(thread)` does.

        `by` says who decides, and `groups` the groups they are in. `args` are the arguments as you edited them,
        `version` is that of the pause you saw. The id of a pause means one of nobody's threads unless `user` names the
        owner of the thread; a `Pause` says itself whose it is. With `scope="run"` the tool is not asked about again in
        this run; `allowed()` lists that, and `revoke` ends it. A second decision raises `PauseClosedError`, which names
        the first.
        """
        from perdure.core.approvers import approver_of

        decides = approver_of(by, groups)
        view = self._view(pause, user)
        return await self._decided(view, id_of(pause), approved, decides, args, answer, version, scope)

    async def allow(
        self,
        tool: str | Callable[..., Any],
        *,
        by: str,
        groups: Sequence[str] = (),
        arguments: Mapping[str, Any] | None = None,
        expires: timedelta | datetime | None = None,
        count: int | None = None,
        user: UserArg = None,
    ) -> str:
        """Approve calls of a tool in advance, and return the id of the allowance.

        It holds for calls whose `arguments` fit: a value, a text with `*` for any characters, or a JSON schema such
        as `{"maximum": 100}`; others are asked about. It ends when it `expires`, after `count` calls, or when it is
        revoked. With a `user` it holds for their threads alone. A tool that is given itself, not by name, must still
        have the same schema. It counts only where `by` may decide, and never where two people have to approve.
        """
        from perdure.core.allowances import check_arguments, check_tool
        from perdure.core.approvers import approver_of
        from perdure.runtime.allowances import allowance_of

        owner, (name, schema) = approver_of(by, groups), check_tool(tool)
        await self._parts.ready()
        runtime = self._parts.running.runtime
        made = allowance_of(
            f"alw_{runtime.engine.ids.sortable()}", name, owner, check_arguments(arguments), now=runtime.clock.now(),
            expires=expires, count=count, user=self._whose(user), schema=schema,
        )  # fmt: skip
        return await runtime.allowances.make(self._namespace, made)

    async def allowed(self, *, user: UserArg = None, ended: bool = False) -> list[Allowance]:
        """The allowances that can be used, of all users or of one; with `ended` also those that were."""
        await self._parts.ready()
        allowances, shown = self._parts.running.runtime.allowances, self._parts.users.shown
        return await allowances.listed(self._namespace, self._whose(user), shown, ended=ended)

    async def revoke(self, allowance: Allowance | str, *, by: str, user: UserArg = None) -> Allowance:
        """End an allowance: from now on somebody is asked again. Raises `NotFoundError`."""
        from perdure.core.approvers import check_approver

        person = check_approver(by)
        await self._parts.ready()
        allowances, shown = self._parts.running.runtime.allowances, self._parts.users.shown
        return await allowances.revoke(self._namespace, self._whose(user), id_of(allowance), person, shown)

    async def link(
        self,
        pause: Pause | str,
        *,
        by: str,
        groups: Sequence[str] = (),
        expires: timedelta = timedelta(days=7),
        user: UserArg = None,
    ) -> str:
        """A signed token with which `by` may decide about a pause once, until it expires, without an account.

        Put it into an address of your own, such as one for a phone: whoever has it decides in the name of `by`.
        """
        from perdure.core.approvers import approver_of

        decides = approver_of(by, groups)
        await self._parts.ready()
        return await self._parts.running.links.make(self._view(pause, user), id_of(pause), decides, expires)

    async def linked(self, token: str) -> Pause:
        """The question that a token leads to. Raises `LinkInvalidError`, `LinkExpiredError`, `PauseClosedError`.

        Only show it: programs that look for viruses follow links too. The decision is a request of its own.
        """
        from perdure.runtime.answering import View

        await self._parts.ready()
        running = self._parts.running
        link = await running.links.read(token)
        return await running.answers.asked(View(self._namespace), link.pause, self._parts.users.shown)

    async def decide_by_link(self, token: str, *, approved: bool, args: Any = None, answer: Any = None) -> Decision:
        """Answer the pause that a token leads to, in the name of whom it was made for.

        Raises as `decide` does, and `LinkInvalidError`, `LinkExpiredError`.
        """
        from perdure.core.approvers import Approver
        from perdure.runtime.answering import View

        await self._parts.ready()
        link = await self._parts.running.links.read(token)
        decides = Approver(link.by or "a link", link.groups)
        view = View(self._namespace)
        return await self._decided(view, link.pause, approved, decides, args, answer, link.version)

    async def _decided(
        self, view: View, pause: str, approved: bool, by: Approver, args: Any, answer: Any, version: int | None,
        scope: Scope = "call",
    ) -> Decision:  # fmt: skip
        from perdure.runtime.answering import Answer

        await self._parts.ready()
        given = Answer(pause, check_approved(approved), by, args, answer, version, check_scope(scope))
        return await self._parts.running.answers.decide(view, given)

    def _view(self, pause: object, user: UserArg) -> View:
        """Whose pauses a caller means: those of the user who is named, else of the pause's own, else nobody's."""
        from perdure.runtime.answering import View
        from perdure.runtime.decisions import Pause

        if user is None and isinstance(pause, Pause):
            user = pause.user
        elif user is None:
            return View(self._namespace, "", advice=f"store.pauses() lists those that are open; {SAY_WHOSE}")
        return View(self._namespace, None if user is ANY_USER else self._parts.users.key(user))

    async def _key(self, thread: Thread | str, user: UserArg) -> ThreadKey:
        """Which thread a caller means. A handle says itself whose it is; with `user`, another's is absent."""
        key = await key_of(self._named(thread, user))
        if user is None or user is ANY_USER:
            return key
        if (key.namespace, key.user) != (self._namespace, self._parts.users.key(user)):
            raise NotFoundError(f"thread {key.id!r}")
        return key

    def _named(self, thread: Thread | str, user: UserArg) -> Handle:
        if isinstance(thread, Handle):
            return thread
        return self.thread(thread, user=user)  # type: ignore[attr-defined]


def check_approved(approved: object) -> bool:
    """Return a decision; "no" is true to Python, and must not approve anything."""
    if type(approved) is not bool:
        raise InvalidInputError(f"approved must be True or False, not {approved!r}")
    return approved


def check_scope(scope: Any) -> Any:
    """Return how far a decision reaches."""
    if scope not in ("call", "run"):
        raise InvalidInputError(f'scope must be "call" or "run", not {scope!r}; store.allow() is for more')
    return scope


def id_of(pause: Any) -> str:
    """The id of a pause, given itself or by its id."""
    found = getattr(pause, "id", pause)
    if not isinstance(found, str):
        raise InvalidInputError(f"{short_repr(pause)} is not a pause, nor the id of one; store.pauses() lists them")
    return found
