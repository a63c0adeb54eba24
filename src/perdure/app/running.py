"""The part of a store that is about runs: handlers, starting, resuming, recovering, asking, answering."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from perdure.app.deciding import Deciding
from perdure.app.handle import Handle, traces_of
from perdure.core.checkpoint import check_limit
from perdure.core.errors import SAY_WHOSE, HandlerUnknownError, InvalidInputError, NotFoundError, UnknownHandlerWarning
from perdure.core.identity import ThreadKey, check_id, check_label
from perdure.core.runs import RUN_STATUSES
from perdure.core.times import moment_or_none

if TYPE_CHECKING:
    from perdure.app.rerunning import Changed
    from perdure.app.thread import Thread
    from perdure.app.users import UserArg
    from perdure.runtime.infos import RunInfo
    from perdure.runtime.options import Retry
    from perdure.runtime.recovery import Recovery, Tried
    from perdure.runtime.starting import Ticket
    from perdure.runtime.why import Why
    from perdure.runtime.worker import Worker

H = TypeVar("H", bound=Callable[..., Any])


class Running(Deciding):
    """Starts runs, finds them again, and tells what became of them."""

    def handler(self, name: str, *, retry: Retry | int | None = None) -> Callable[[H], H]:
        """Register a function as the handler of a name: `@store.handler("release")`.

        It is called with a run. Runs of handlers can be resumed by any process that registers the name. When one
        raises, it is tried again by `retry` (5 times, waiting 1 s, 2 s … at most 5 minutes), then it is dead: it stays,
        with its reason, until somebody resumes or cancels it.
        """
        from perdure.runtime.executing import RETRIES
        from perdure.runtime.options import Retry

        if isinstance(retry, int):
            retry = Retry(attempts=retry, wait=RETRIES.wait, longest=RETRIES.longest)
        checked, policy = check_id(name, "the name of a handler"), retry or RETRIES

        def register(function: H) -> H:
            self._parts.running.handlers.add(checked, function, policy)
            return function

        return register

    async def start(
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
        """Record that a handler is to be run, now or `at` a time. A worker, `recover()` or `resume()` runs it.

        The same `key` again is the same run. Raises `UnfinishedRunError` when the thread has another one. Where this
        process registered handlers and none of this name, it warns (`UnknownHandlerWarning`) with the nearest name; a
        process that only starts runs registers none, and is not warned. With `strict=True` a name that is not
        registered here raises `HandlerUnknownError`, and nothing is recorded.
        """
        from perdure.runtime.starting import start

        where = await self._key(thread, user)
        actor, _ = traces_of(self._named(thread, user))
        when = moment_or_none(at, "at", InvalidInputError)
        checked, handler = None if key is None else check_id(key, "the key"), check_id(name, "the name of a handler")
        self._check_known(handler, strict=strict)
        return await start(
            self._parts.running, where, handler, input, checked, when,
            self._parts.users.shown, actor,
        )  # fmt: skip

    def _check_known(self, name: str, *, strict: bool) -> None:
        """Warn of a handler that is not registered in a process that has handlers, or refuse it if that is wanted."""
        known = self._parts.running.handlers.names
        if name in known or not (known or strict):
            return
        from perdure.core.vocabulary import nearest

        near = nearest(name, known)
        if strict:
            raise HandlerUnknownError(name, near)
        warning = UnknownHandlerWarning(name, near)
        self._parts.telemetry.log("warning", str(warning))
        warnings.warn(warning, stacklevel=3)

    async def resume(
        self,
        thread: Thread | str,
        input: Any = None,
        *,
        user: UserArg = None,
        changed: Changed = "refuse",
        take_over: bool = False,
    ) -> RunInfo:
        """Go on with the unfinished run of a thread here, and return how far it came.

        A new `input` takes the place of the old one. With `changed="accept"`, code that asks for something else than
        the log recorded is let. With `take_over`, the run is taken from an owner that seems alive. What the handler
        raises is recorded, and raised. A run that somebody else works on is waited for, as long as a lease lasts; if
        it ends meanwhile, its result is returned. Raises `NotFoundError`, `LeaseHeldError`, `HandlerMissingError`.
        """
        from perdure.runtime.opening import Wanted, accepts

        accept = accepts(changed)
        key = await self._key(thread, user)
        running = self._parts.running
        if take_over:
            await running.take_away(key)
        given = running.encoded(input)
        ask = Wanted(only_resume=True, joins=True, input=given, given=given is not None, accept=accept)
        run = await running.executor.run(key, ask, running.runtime.leases.ttl)
        return await running.info(key, self._parts.users.shown, run.id)

    async def recover(self, *, concurrency: int = 10) -> list[RunInfo]:
        """Take up every run of a registered handler that is due: cut off by a crash, queued, or waiting no longer.

        They are found by an index. Returns what became of each; what a run raised is in its `error`.
        """
        recovery = self._parts.running.recovery(self._namespace)
        return await self._recovered(recovery, _at_least_one(concurrency))

    async def _recovered(self, recovery: Recovery, concurrency: int) -> list[RunInfo]:
        await self._parts.ready()
        tried = await (recovery.in_turn() if self._parts.mode == "sync" else recovery.sweep(concurrency))
        told, shown = self._parts.running.info, self._parts.users.shown
        return [await told(each.row.key, shown) for each in tried if _was_ours(each)]

    def _recovering(self, name: str | None, traceback: bool | None) -> Callable[[], Coroutine[Any, Any, list[RunInfo]]]:
        """`recover()` again and again by one who serves since now: what becomes due meanwhile is taken up."""
        recovery = self._serving(name, traceback)

        async def serve() -> list[RunInfo]:
            done = await self._recovered(recovery, 1)
            await recovery.look_for_strangers()
            return done

        return serve

    def _serving(self, name: str | None, traceback: bool | None) -> Recovery:
        from perdure.runtime.options import check_traceback
        from perdure.runtime.worker_log import WorkerLog

        checked = None if name is None else check_id(name, "the name of a worker")
        return self._parts.running.recovery(
            self._namespace, worker=checked, traceback=check_traceback(traceback), log=WorkerLog()
        )  # fmt: skip

    def worker(
        self, *, concurrency: int = 10, grace: float = 30.0, name: str | None = None, traceback: bool | None = None
    ) -> Worker:
        """A worker that takes up runs of the registered handlers as they become due: `await store.worker().run()`.

        On SIGTERM it takes up nothing more and lets runs end for `grace` seconds; the rest is given back. Entries of
        its runs have `name` and the process as their actor. The logger `"perdure.worker"` gets one line for each run
        that it takes up and that leaves it. With `traceback=False` failures are recorded without theirs.
        """
        from perdure.runtime.worker import Worker

        if self._parts.mode == "sync":
            raise InvalidInputError("a worker serves an event loop: open the store with perdure.Perdure")
        running = self._parts.running
        return Worker(
            running.runtime, self._serving(name, traceback), self._namespace,
            concurrency=_at_least_one(concurrency), grace=grace,
        )  # fmt: skip

    async def runs(
        self,
        limit: int = 50,
        *,
        status: str | None = None,
        agent: str | None = None,
        since: datetime | None = None,
        user: UserArg = None,
    ) -> list[RunInfo]:
        """The newest run of each thread, of the threads that changed last first."""
        await self._parts.ready()
        from perdure.core.vocabulary import one_of

        when = moment_or_none(since, "since")
        word = None if status is None else one_of(status, RUN_STATUSES, "status")
        return await self._parts.running.listed(
            self._namespace, self._whose(user), check_limit(limit), word,
            check_label(agent, "agent"), when, self._parts.users.shown,
        )  # fmt: skip

    async def stalled(self, after: timedelta, *, user: UserArg = None) -> list[RunInfo]:
        """Runs that somebody works on and whose log did not grow for so long: they hang, or a step takes long.

        They are found by an index, whether their lease is renewed or ran out.
        """
        await self._parts.ready()
        if not isinstance(after, timedelta) or after < timedelta(0):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"after must be a timedelta from 0 on, not {after!r}")
        running, shown = self._parts.running, self._parts.users.shown
        return await running.stalled(self._namespace, self._whose(user), after.total_seconds(), shown)

    async def cancel(self, thread: Thread | str, *, user: UserArg = None, reason: str = "") -> RunInfo:
        """End the unfinished run of a thread; an owner that works on it is refused from then on and stops."""
        key = await self._key(thread, user)
        return await self._parts.running.cancel(key, check_label(reason, "reason") or "", self._parts.users.shown)

    async def signal(
        self, thread: Thread | str, name: str, value: Any = None, *, user: UserArg = None, key: str | None = None
    ) -> None:
        """Send a value to the run of a thread; `await run.signal(name)` gets it."""
        where = await self._key(thread, user)
        await self._parts.running.signal(where, check_id(name, "the signal name"), value, key)

    async def why(self, thread: Thread | str, *, user: UserArg = None) -> Why:
        """What happened to a thread: what failed and where, what it did outside so far, and what to type next."""
        from perdure.runtime.why import explain

        key = await self._key(thread, user)
        row = await self._parts.storage.thread(key)
        if row is None:
            raise NotFoundError(f"thread {key.id!r}", "" if key.user else SAY_WHOSE)
        return await explain(self._parts.running.runtime, row, self._parts.users.shown(row.key.user))


def _at_least_one(concurrency: int) -> int:
    if type(concurrency) is not int or concurrency < 1:
        raise InvalidInputError(f"concurrency must be an int from 1 on, not {concurrency!r}")
    return concurrency


def _was_ours(tried: Tried) -> bool:
    from perdure.core.errors import LeaseHeldError, LeaseLostError

    return not isinstance(tried.error, (LeaseHeldError, LeaseLostError, NotFoundError))


async def key_in(store: Running, thread: Thread | str, user: UserArg) -> ThreadKey:
    """Which thread a caller of a store means; for the faces that are built on it."""
    return await store._key(thread, user)  # pyright: ignore[reportPrivateUsage]


def handle_of(store: Running, thread: Thread | str, user: UserArg) -> Handle:
    """The handle on a thread that a caller names; for the faces that are built on it."""
    return store._named(thread, user)  # pyright: ignore[reportPrivateUsage]
