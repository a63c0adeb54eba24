"""What a request handler gets: a store of one user, and the questions that are addressed to one approver.

Neither object can be asked about anybody else. What belongs to others looks absent, whichever way it is named.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from perdure.app.deciding import check_approved, check_scope, id_of
from perdure.core.approvers import Approver
from perdure.core.checkpoint import check_limit
from perdure.core.errors import LinkInvalidError
from perdure.runtime.answering import Answer, View

if TYPE_CHECKING:
    from perdure.app.analytics import Analytics, Topics
    from perdure.app.asking import Filters, MessageLine
    from perdure.app.copying import Copied
    from perdure.app.erasure import Progress as ForgetProgress
    from perdure.app.exporting import Exported
    from perdure.app.maintenance import PruneReport
    from perdure.app.naming import ThreadInfo
    from perdure.app.parts import Parts
    from perdure.app.rerunning import Changed
    from perdure.app.store import Perdure
    from perdure.app.thread import Thread
    from perdure.app.usage import Progress as UsageProgress
    from perdure.app.users import UserId
    from perdure.core.comparison import Comparison, Comparisons
    from perdure.core.erasure import Forgotten
    from perdure.core.links import Link
    from perdure.core.retention_policy import Retention
    from perdure.core.usage import UsageBy, UsageReport
    from perdure.core.verification import Report
    from perdure.runtime.allowances import Allowance
    from perdure.runtime.answering import Scope
    from perdure.runtime.decisions import Decision, Pause
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.starting import Ticket
    from perdure.runtime.why import Why


class UserScope:
    """The threads of one user and nothing else. Made by `store.scope(user=…)`; the store stays open beside it.

    Its methods are those of `Perdure`, without `user`. `decide` decides as this user.
    """

    def __init__(self, store: Perdure, user: UserId) -> None:
        self._store = store
        self._user = user

    def __repr__(self) -> str:
        return f"UserScope(user={self._user!r})"

    @property
    def namespace(self) -> str:
        """The namespace of the threads."""
        return self._store.namespace

    @property
    def user(self) -> UserId:
        """Whose threads these are."""
        return self._user

    def thread(
        self,
        id: str,
        *,
        agent: str | None = None,
        name: str | None = None,
        tags: Iterable[str] = (),
        actor: str | None = None,
        task: str | None = None,
    ) -> Thread:
        """A handle on a thread of this user, which is made by its first write."""
        return self._store.thread(id, user=self._user, agent=agent, name=name, tags=tags, actor=actor, task=task)

    async def threads(
        self,
        limit: int = 50,
        *,
        agent: str | None = None,
        status: str | None = None,
        tag: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        search: str | None = None,
        offset: int = 0,
    ) -> list[ThreadInfo]:
        """List the user's threads, newest first, never their states."""
        return await self._store.threads(
            limit, user=self._user, agent=agent, status=status, tag=tag, metadata=metadata, search=search, offset=offset
        )

    async def search(self, text: str, *, limit: int = 50, **filters: Unpack[Filters]) -> list[MessageLine]:
        """Find the user's messages that hold all words of `text`; newest first."""
        return await self._store.search(text, user=self._user, limit=limit, **filters)

    async def analytics(self, *, topics: Topics | None = None, **filters: Unpack[Filters]) -> Analytics:
        """The user's messages in numbers."""
        return await self._store.analytics(user=self._user, topics=topics, **filters)

    async def usage(
        self,
        by: UsageBy = "model",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        prices: Mapping[str, Any] | None = None,
        progress: UsageProgress | None = None,
    ) -> UsageReport:
        """What models of the user's threads cost. See `perdure.Perdure.usage`."""
        return await self._store.usage(
            by, since=since, until=until, user=self._user, prices=prices, progress=progress
        )  # fmt: skip

    async def start(
        self,
        name: str,
        input: Any = None,
        *,
        thread: Thread | str,
        key: str | None = None,
        at: datetime | None = None,
        strict: bool = False,
    ) -> Ticket:
        """Record that a handler is to be run in a thread of this user."""
        return await self._store.start(name, input, thread=thread, user=self._user, key=key, at=at, strict=strict)

    async def resume(
        self, thread: Thread | str, input: Any = None, *, changed: Changed = "refuse", take_over: bool = False
    ) -> RunInfo:
        """Go on with the unfinished run of a thread here, and return how far it came."""
        return await self._store.resume(thread, input, user=self._user, changed=changed, take_over=take_over)

    async def runs(
        self, limit: int = 50, *, status: str | None = None, agent: str | None = None, since: datetime | None = None
    ) -> list[RunInfo]:
        """The newest run of each thread of this user."""
        return await self._store.runs(limit, status=status, agent=agent, since=since, user=self._user)

    async def cancel(self, thread: Thread | str, *, reason: str = "") -> RunInfo:
        """End the unfinished run of a thread."""
        return await self._store.cancel(thread, user=self._user, reason=reason)

    async def signal(self, thread: Thread | str, name: str, value: Any = None, *, key: str | None = None) -> None:
        """Send a value to the run of a thread."""
        await self._store.signal(thread, name, value, user=self._user, key=key)

    async def why(self, thread: Thread | str) -> Why:
        """What happened to a thread."""
        return await self._store.why(thread, user=self._user)

    async def pauses(self, thread: Thread | str | None = None, *, limit: int = 100) -> list[Pause]:
        """The open questions of the user's threads, or of one of them."""
        return await self._store.pauses(thread, user=self._user, limit=limit)

    async def decide(
        self,
        pause: Pause | str,
        *,
        approved: bool,
        args: Any = None,
        answer: Any = None,
        version: int | None = None,
        scope: Scope = "call",
    ) -> Decision:
        """Answer a question of one of the user's threads, as this user."""
        return await self._store.decide(
            pause, approved=approved, by=str(self._user), args=args, answer=answer, version=version, scope=scope,
            user=self._user,
        )  # fmt: skip

    async def allow(
        self,
        tool: str | Callable[..., Any],
        *,
        arguments: Mapping[str, Any] | None = None,
        expires: timedelta | datetime | None = None,
        count: int | None = None,
    ) -> str:
        """Approve calls of a tool in this user's threads in advance, as this user. See `Perdure.allow`."""
        return await self._store.allow(
            tool, by=str(self._user), arguments=arguments, expires=expires, count=count, user=self._user
        )

    async def allowed(self, *, ended: bool = False) -> list[Allowance]:
        """The allowances for this user's threads alone."""
        return await self._store.allowed(user=self._user, ended=ended)

    async def revoke(self, allowance: Allowance | str) -> Allowance:
        """End an allowance for this user's threads; others look absent."""
        return await self._store.revoke(allowance, by=str(self._user), user=self._user)

    async def compare(self, *points: object) -> Comparison | Comparisons:
        """Compare 2 to 4 points of the user's threads, the others with the first."""
        return await self._store.compare(*points, user=self._user)  # pyright: ignore[reportCallIssue, reportArgumentType, reportUnknownVariableType]

    async def export(self, thread: Thread | str, path: str | os.PathLike[str], *, forks: bool = False) -> Exported:
        """Write a thread of this user into one file."""
        return await self._store.export(thread, path, forks=forks, user=self._user)

    async def import_(
        self, path: str | os.PathLike[str], *, to: str | None = None, overwrite: bool = False
    ) -> list[Copied]:
        """Add the threads of an export to those of this user. They arrive quarantined: an operator trusts them."""
        return await self._store.import_(path, user=self._user, to=to, overwrite=overwrite)

    async def prune(self, policy: Retention | None = None, dry_run: bool = False) -> PruneReport:
        """Drop what a policy does not keep of the user's threads."""
        return await self._store.prune(policy, dry_run, user=self._user)

    async def verify(self, *, restore: bool = False) -> Report:
        """Check the user's threads."""
        return await self._store.verify(restore=restore, user=self._user)

    async def forget(
        self, dry_run: bool = True, *, force: bool = False, progress: ForgetProgress | None = None
    ) -> Forgotten:
        """Erase everything of this user, and of nobody else; without `dry_run=False`, only say what there is."""
        from perdure.app.erasure import forget
        from perdure.app.store import parts_of

        return await forget(
            parts_of(self._store), self.namespace, self._user, dry_run=dry_run, force=force, progress=progress,
            scoped=True,
        )  # fmt: skip


class ApproverScope:
    """The questions that one person may answer, and nothing else. Made by `store.scope(approver=…, groups=[…])`.

    They are those addressed to this person, to one of their groups, or to everybody, whoever owns the thread; never
    those that `who=` says this person must not answer. Each decision is made in the name of this person.
    """

    def __init__(self, parts: Parts, namespace: str, approver: Approver) -> None:
        self._parts = parts
        self._approver = approver
        self._view = View(namespace, None, approver, "pauses() lists those that you may answer")

    def __repr__(self) -> str:
        return f"ApproverScope(approver={self._approver.name!r}, groups={list(self._approver.groups)!r})"

    @property
    def namespace(self) -> str:
        """The namespace of the threads."""
        return self._view.namespace

    @property
    def approver(self) -> str:
        """Who decides."""
        return self._approver.name

    @property
    def groups(self) -> Sequence[str]:
        """The groups this person is in."""
        return self._approver.groups

    async def pauses(self, *, limit: int = 100) -> list[Pause]:
        """The open questions for this person."""
        await self._parts.ready()
        return await self._parts.running.answers.open(self._view, self._parts.users.shown, check_limit(limit))

    async def pause(self, pause: Pause | str) -> Pause:
        """An open question by its id; raise `NotFoundError`, `PauseClosedError`."""
        await self._parts.ready()
        return await self._parts.running.answers.asked(self._view, id_of(pause), self._parts.users.shown)

    async def decide(
        self,
        pause: Pause | str,
        *,
        approved: bool,
        args: Any = None,
        answer: Any = None,
        version: int | None = None,
        scope: Scope = "call",
    ) -> Decision:
        """Answer a question as this person. See `Perdure.decide`."""
        given = Answer(
            id_of(pause), check_approved(approved), self._approver, args, answer, version, check_scope(scope)
        )
        await self._parts.ready()
        return await self._parts.running.answers.decide(self._view, given)

    async def link(self, pause: Pause | str, *, expires: timedelta = timedelta(days=7)) -> str:
        """A signed token with which this person may decide about a question once. See `Perdure.link`."""
        await self._parts.ready()
        return await self._parts.running.links.make(self._view, id_of(pause), self._approver, expires)

    async def linked(self, token: str) -> Pause:
        """The question that a token of this person leads to. See `Perdure.linked`."""
        return await self.pause((await self._read(token)).pause)

    async def decide_by_link(self, token: str, *, approved: bool, args: Any = None, answer: Any = None) -> Decision:
        """Answer the question that a token of this person leads to. See `Perdure.decide_by_link`."""
        link = await self._read(token)
        return await self.decide(link.pause, approved=approved, args=args, answer=answer, version=link.version)

    async def _read(self, token: str) -> Link:
        await self._parts.ready()
        link = await self._parts.running.links.read(token)
        if link.by != self._approver.name:
            raise LinkInvalidError("is for another person")
        return link
