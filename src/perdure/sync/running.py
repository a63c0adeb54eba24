"""The part of a synchronous store that is about runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.sync.driver import Driver
from perdure.sync.run import Run
from perdure.sync.worker import Worker

if TYPE_CHECKING:
    from perdure.app import store as app
    from perdure.app.rerunning import Changed
    from perdure.app.users import UserArg
    from perdure.runtime.allowances import Allowance
    from perdure.runtime.answering import Scope
    from perdure.runtime.decisions import Decision, Pause
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.options import Retry
    from perdure.runtime.starting import Ticket as AsyncTicket
    from perdure.runtime.why import Why
    from perdure.sync.thread import Thread

H = TypeVar("H", bound=Callable[..., Any])


class Ticket:
    """A run that was started: what it is called, and what comes of it."""

    def __init__(self, ticket: AsyncTicket, drive: Driver) -> None:
        self._ticket = ticket
        self._drive = drive
        self.id = ticket.id
        self.thread = ticket.thread

    def __repr__(self) -> str:
        return repr(self._ticket)

    def info(self) -> RunInfo:
        """How far the run came."""
        return self._drive(self._ticket.info())

    def result(self, timeout: float | None = None) -> Any:
        """Wait for the run to end, and return its result."""
        return self._drive(self._ticket.result(timeout))


class Running:
    """Starts runs, finds them again, and tells what became of them. See `perdure.Perdure`."""

    _store: app.Perdure
    _run: Driver

    def handler(self, name: str, *, retry: Retry | int | None = None) -> Callable[[H], H]:
        """Register a plain function as the handler of a name: `@store.handler("release")`."""

        from perdure.runtime.work import check_plain

        def register(function: H) -> H:
            check_plain(function, f"handler {name!r}")
            self._store.handler(name, retry=retry)(lambda run: function(Run(run, self._run)))
            return function

        return register

    def start(
        self,
        name: str,
        input: Any = None,
        *,
        thread: Thread | str,
        user: UserArg = None,
        key: str | None = None,
        at: datetime | None = None,
        strict: bool = False,
    ) -> Ticket:
        """Record that a handler is to be run, now or `at` a time. `recover()` or `resume()` runs it, or a worker."""
        ticket = self._run(
            self._store.start(name, input, thread=held_thread(thread), user=user, key=key, at=at, strict=strict)
        )  # fmt: skip
        return Ticket(ticket, self._run)

    def resume(
        self,
        thread: Thread | str,
        input: Any = None,
        *,
        user: UserArg = None,
        changed: Changed = "refuse",
        take_over: bool = False,
    ) -> RunInfo:
        """Go on with the unfinished run of a thread here, and return how far it came."""
        where = held_thread(thread)
        return self._run(self._store.resume(where, input, user=user, changed=changed, take_over=take_over))

    def recover(self) -> list[RunInfo]:
        """Take up every run of a registered handler that is due, one after the other."""
        return self._run(self._store.recover())

    def worker(self, *, name: str | None = None, traceback: bool | None = None) -> Worker:
        """A worker that takes up runs of the registered handlers as they become due, one at a time."""
        recover = self._store._recovering(name, traceback)  # pyright: ignore[reportPrivateUsage]
        return Worker(lambda: self._run(recover()))

    def runs(
        self,
        limit: int = 50,
        *,
        status: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        user: UserArg = None,
    ) -> list[RunInfo]:
        """The newest run of each thread, of the threads that changed last first."""
        return self._run(self._store.runs(limit, status=status, agent=agent, since=since, user=user))

    def stalled(self, after: timedelta, *, user: UserArg = None) -> list[RunInfo]:
        """Runs that somebody works on and whose log did not grow for so long: they hang, or a step takes long."""
        return self._run(self._store.stalled(after, user=user))

    def cancel(self, thread: Thread | str, *, user: UserArg = None, reason: str = "") -> RunInfo:
        """End the unfinished run of a thread; an owner that works on it is refused from then on and stops."""
        return self._run(self._store.cancel(held_thread(thread), user=user, reason=reason))

    def signal(
        self, thread: Thread | str, name: str, value: Any = None, *, user: UserArg = None, key: str | None = None
    ) -> None:
        """Send a value to the run of a thread; `run.signal(name)` gets it."""
        self._run(self._store.signal(held_thread(thread), name, value, user=user, key=key))

    def pauses(self, thread: Thread | str | None = None, *, user: UserArg = None, limit: int = 100) -> list[Pause]:
        """The questions that wait for somebody: of all threads, a user's, or one."""
        return self._run(self._store.pauses(None if thread is None else held_thread(thread), user=user, limit=limit))

    def decide(
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
        """Answer a pause; a worker goes on with the run at once, or `resume(thread)` does."""
        return self._run(
            self._store.decide(
                pause, approved=approved, by=by, groups=groups, args=args, answer=answer, version=version, scope=scope,
                user=user,
            )
        )  # fmt: skip

    def allow(
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
        """Approve calls of a tool in advance. See `perdure.Perdure.allow`."""
        return self._run(
            self._store.allow(tool, by=by, groups=groups, arguments=arguments, expires=expires, count=count, user=user)
        )

    def allowed(self, *, user: UserArg = None, ended: bool = False) -> list[Allowance]:
        """The allowances that can be used, of all users or of one; with `ended` also those that were."""
        return self._run(self._store.allowed(user=user, ended=ended))

    def revoke(self, allowance: Allowance | str, *, by: str, user: UserArg = None) -> Allowance:
        """End an allowance: from now on somebody is asked again."""
        return self._run(self._store.revoke(allowance, by=by, user=user))

    def link(
        self,
        pause: Pause | str,
        *,
        by: str,
        groups: Sequence[str] = (),
        expires: timedelta = timedelta(days=7),
        user: UserArg = None,
    ) -> str:
        """A signed token with which `by` may decide about a pause once, until it expires, without an account."""
        return self._run(self._store.link(pause, by=by, groups=groups, expires=expires, user=user))

    def linked(self, token: str) -> Pause:
        """The question that a token leads to."""
        return self._run(self._store.linked(token))

    def decide_by_link(self, token: str, *, approved: bool, args: Any = None, answer: Any = None) -> Decision:
        """Answer the pause that a token leads to, in the name of whom it was made for."""
        return self._run(self._store.decide_by_link(token, approved=approved, args=args, answer=answer))

    def why(self, thread: Thread | str, *, user: UserArg = None) -> Why:
        """What happened to a thread: what failed and where, what it did outside so far, and what to type next."""
        return self._run(self._store.why(held_thread(thread), user=user))


def held_thread(thread: Thread | str) -> Any:
    """The thread inside a handle of this face."""
    return getattr(thread, "_thread", thread)  # what is neither is refused where a thread is looked for
