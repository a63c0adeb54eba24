"""The scopes of a synchronous store: one user's threads, and one approver's questions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Unpack

from perdure.app import scope as app
from perdure.app.naming import ThreadInfo
from perdure.app.users import UserId
from perdure.sync.driver import Driver
from perdure.sync.running import Ticket, held_thread
from perdure.sync.thread import Thread, held

if TYPE_CHECKING:
    from perdure.app.analytics import Analytics, Topics
    from perdure.app.asking import Filters, MessageLine
    from perdure.app.copying import Copied
    from perdure.app.erasure import Progress as ForgetProgress
    from perdure.app.exporting import Exported
    from perdure.app.maintenance import PruneReport
    from perdure.app.rerunning import Changed
    from perdure.app.usage import Progress as UsageProgress
    from perdure.core.comparison import Comparison, Comparisons
    from perdure.core.erasure import Forgotten
    from perdure.core.retention_policy import Retention
    from perdure.core.usage import UsageBy, UsageReport
    from perdure.core.verification import Report
    from perdure.runtime.allowances import Allowance
    from perdure.runtime.answering import Scope
    from perdure.runtime.decisions import Decision, Pause
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.why import Why


class UserScope:
    """The threads of one user and nothing else, for synchronous code. Made by `store.scope(user=…)`."""

    def __init__(self, scope: app.UserScope, drive: Driver) -> None:
        self._scope = scope
        self._run = drive

    def __repr__(self) -> str:
        return repr(self._scope)

    @property
    def namespace(self) -> str:
        """The namespace of the threads."""
        return self._scope.namespace

    @property
    def user(self) -> UserId:
        """Whose threads these are."""
        return self._scope.user

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
        return Thread(self._scope.thread(id, agent=agent, name=name, tags=tags, actor=actor, task=task), self._run)

    def threads(
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
        return self._run(
            self._scope.threads(
                limit, agent=agent, status=status, tag=tag, metadata=metadata, search=search, offset=offset
            )
        )

    def search(self, text: str, *, limit: int = 50, **filters: Unpack[Filters]) -> list[MessageLine]:
        """Find the user's messages that hold all words of `text`; newest first."""
        return self._run(self._scope.search(text, limit=limit, **filters))

    def analytics(self, *, topics: Topics | None = None, **filters: Unpack[Filters]) -> Analytics:
        """The user's messages in numbers."""
        return self._run(self._scope.analytics(topics=topics, **filters))

    def usage(
        self,
        by: UsageBy = "model",
        *,
        since: datetime | None = None,
        until: datetime | None = None,
        prices: Mapping[str, Any] | None = None,
        progress: UsageProgress | None = None,
    ) -> UsageReport:
        """What models of the user's threads cost. See `perdure.Perdure.usage`."""
        asked = self._scope.usage(
            by, since=since, until=until, prices=prices, progress=progress
        )  # fmt: skip
        return self._run(asked)

    def start(
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
        return Ticket(
            self._run(self._scope.start(name, input, thread=held_thread(thread), key=key, at=at, strict=strict)),
            self._run,
        )

    def resume(
        self, thread: Thread | str, input: Any = None, *, changed: Changed = "refuse", take_over: bool = False
    ) -> RunInfo:
        """Go on with the unfinished run of a thread here, and return how far it came."""
        return self._run(self._scope.resume(held_thread(thread), input, changed=changed, take_over=take_over))

    def runs(
        self, limit: int = 50, *, status: str | None = None, agent: str | None = None, since: datetime | None = None
    ) -> list[RunInfo]:
        """The newest run of each thread of this user."""
        return self._run(self._scope.runs(limit, status=status, agent=agent, since=since))

    def cancel(self, thread: Thread | str, *, reason: str = "") -> RunInfo:
        """End the unfinished run of a thread."""
        return self._run(self._scope.cancel(held_thread(thread), reason=reason))

    def signal(self, thread: Thread | str, name: str, value: Any = None, *, key: str | None = None) -> None:
        """Send a value to the run of a thread."""
        self._run(self._scope.signal(held_thread(thread), name, value, key=key))

    def why(self, thread: Thread | str) -> Why:
        """What happened to a thread."""
        return self._run(self._scope.why(held_thread(thread)))

    def pauses(self, thread: Thread | str | None = None, *, limit: int = 100) -> list[Pause]:
        """The open questions of the user's threads, or of one of them."""
        return self._run(self._scope.pauses(None if thread is None else held_thread(thread), limit=limit))

    def decide(
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
        return self._run(
            self._scope.decide(pause, approved=approved, args=args, answer=answer, version=version, scope=scope)
        )

    def allow(
        self,
        tool: str | Callable[..., Any],
        *,
        arguments: Mapping[str, Any] | None = None,
        expires: timedelta | datetime | None = None,
        count: int | None = None,
    ) -> str:
        """Approve calls of a tool in this user's threads in advance, as this user. See `Perdure.allow`."""
        return self._run(self._scope.allow(tool, arguments=arguments, expires=expires, count=count))

    def allowed(self, *, ended: bool = False) -> list[Allowance]:
        """The allowances for this user's threads alone."""
        return self._run(self._scope.allowed(ended=ended))

    def revoke(self, allowance: Allowance | str) -> Allowance:
        """End an allowance for this user's threads; others look absent."""
        return self._run(self._scope.revoke(allowance))

    def compare(self, *points: object) -> Comparison | Comparisons:
        """Compare 2 to 4 points of the user's threads, the others with the first."""
        return self._run(self._scope.compare(*map(held, points)))

    def export(self, thread: Thread | str, path: str | os.PathLike[str], *, forks: bool = False) -> Exported:
        """Write a thread of this user into one file."""
        return self._run(self._scope.export(held_thread(thread), path, forks=forks))

    def import_(self, path: str | os.PathLike[str], *, to: str | None = None, overwrite: bool = False) -> list[Copied]:
        """Add the threads of an export to those of this user."""
        return self._run(self._scope.import_(path, to=to, overwrite=overwrite))

    def prune(self, policy: Retention | None = None, dry_run: bool = False) -> PruneReport:
        """Drop what a policy does not keep of the user's threads."""
        return self._run(self._scope.prune(policy, dry_run))

    def verify(self, *, restore: bool = False) -> Report:
        """Check the user's threads."""
        return self._run(self._scope.verify(restore=restore))

    def forget(self, dry_run: bool = True, *, force: bool = False, progress: ForgetProgress | None = None) -> Forgotten:
        """Erase everything of this user, and of nobody else; without `dry_run=False`, only say what there is."""
        return self._run(self._scope.forget(dry_run, force=force, progress=progress))


class ApproverScope:
    """The questions that one person may answer, for synchronous code. Made by `store.scope(approver=…)`."""

    def __init__(self, scope: app.ApproverScope, drive: Driver) -> None:
        self._scope = scope
        self._run = drive

    def __repr__(self) -> str:
        return repr(self._scope)

    @property
    def namespace(self) -> str:
        """The namespace of the threads."""
        return self._scope.namespace

    @property
    def approver(self) -> str:
        """Who decides."""
        return self._scope.approver

    @property
    def groups(self) -> Sequence[str]:
        """The groups this person is in."""
        return self._scope.groups

    def pauses(self, *, limit: int = 100) -> list[Pause]:
        """The open questions for this person."""
        return self._run(self._scope.pauses(limit=limit))

    def pause(self, pause: Pause | str) -> Pause:
        """An open question by its id; raise `NotFoundError`, `PauseClosedError`."""
        return self._run(self._scope.pause(pause))

    def decide(
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
        return self._run(
            self._scope.decide(pause, approved=approved, args=args, answer=answer, version=version, scope=scope)
        )

    def link(self, pause: Pause | str, *, expires: timedelta = timedelta(days=7)) -> str:
        """A signed token with which this person may decide about a question once. See `Perdure.link`."""
        return self._run(self._scope.link(pause, expires=expires))

    def linked(self, token: str) -> Pause:
        """The question that a token of this person leads to. See `Perdure.linked`."""
        return self._run(self._scope.linked(token))

    def decide_by_link(self, token: str, *, approved: bool, args: Any = None, answer: Any = None) -> Decision:
        """Answer the question that a token of this person leads to. See `Perdure.decide_by_link`."""
        return self._run(self._scope.decide_by_link(token, approved=approved, args=args, answer=answer))
