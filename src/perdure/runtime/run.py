"""A run as its code holds it: steps and tools, pauses, the state, and values that must not change on resuming."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from perdure.core.approvers import check_approvals, check_who
from perdure.core.calls import Call, key_digest, shown
from perdure.core.codec import decode
from perdure.core.entries import Entry
from perdure.core.errors import InvalidInputError, RunDivergedError, RunFinishedError
from perdure.core.identity import check_id
from perdure.core.model_calls import Requests
from perdure.core.pauses import Opened
from perdure.core.reminders import reminders_of
from perdure.core.runs import WAITING, Current
from perdure.core.times import to_datetime
from perdure.runtime.calling import Asked, call_step, call_tool
from perdure.runtime.expecting import Deadline, arguments, expected, until, words
from perdure.runtime.journal import Journal
from perdure.runtime.leases import SECOND
from perdure.runtime.options import DEFAULTS, Options, Policy, Retry, options_of
from perdure.runtime.pausing import Question, pause
from perdure.runtime.records import NOTHING, Recorded
from perdure.runtime.scope import SCOPE, Scope
from perdure.runtime.triggering import Triggering
from perdure.runtime.unwinding import Unwinding
from perdure.runtime.writing import Writing

if TYPE_CHECKING:
    from perdure.runtime.decisions import Decision
    from perdure.runtime.rerunning import Elsewhere
    from perdure.runtime.runtime import Runtime


class Bound:
    """A run with options for the calls that are made through it."""

    def __init__(self, run: Run, options: Options) -> None:
        self._run = run
        self._options = options

    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Like `run.step`, with these options."""
        return await call_step(self._run, self._options, Asked(name, fn, args, named))

    async def tool(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Like `run.tool`, with these options."""
        return await call_tool(self._run, self._options, Asked(name, fn, args, named))


class Run(Writing):
    """One execution in a thread. What it did is in the log; what it does again after a crash is read from there."""

    def __init__(
        self, runtime: Runtime, journal: Journal, current: Current, *, resumed: bool, over: bool, accept: bool = False,
        handled: bool = False, traceback: bool | None = None,
    ) -> None:  # fmt: skip
        self.runtime = runtime
        self.journal = journal
        self.current = current
        self.resumed = resumed
        self.over = over  # it ended earlier: everything is read from the log
        self.accept = accept  # code that asks for something else is let
        self.handled = handled  # a handler can be called again at any time
        self.keeps_tracebacks = runtime.keeps_tracebacks if traceback is None else traceback
        self.attempt = 1  # how many times it was tried without getting on
        self.paused = False
        self.questions: list[Opened] = []  # that it waits for
        self.result: Any = decode(bytes(current.end.value)) if over and current.end else None
        self.under_way: set[Scope] = set()
        self.waiting: list[Scope] = []  # where the code lets go
        self.timers: list[int] = []  # … and when it wants to be woken, if by nothing else
        self.calls_as = current.started.run  # whose calls these are: a rerun finds those of the run it does again
        self.elsewhere: Elsewhere | None = None
        self.requests = Requests()
        self.triggering = Triggering(self)
        self._top = Scope(self)
        self._seen: int | None = None

    @property
    def id(self) -> str:
        """The id of the run."""
        return self.current.started.run

    @property
    def key(self) -> str | None:
        """The key it was started with."""
        return self.current.started.key

    @property
    def input(self) -> Any:
        """What it was given; a copy each time."""
        return decode(bytes(self.current.started.input))

    @property
    def idempotency_key(self) -> str | None:
        """The key of the tool or step that is being run: the same at every attempt. Hand it on to the other side."""
        scope = self.scope
        return self.effect_key(scope.call_id) if scope.call_id else None

    def effect_key(self, call_id: bytes) -> str:
        """The key that a call hands on; one that is done again on a fork has another, or nothing would happen."""
        return shown(call_id) if self.elsewhere is None else shown(key_digest([self.id, call_id]))

    @property
    def scope(self) -> Scope:
        """Where the code is that calls."""
        scope = SCOPE.get()
        return scope if scope is not None and scope.run is self else self._top

    async def step(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Call a function and record what it returns; after a crash the record is returned instead.

        A step is found again by its name and arguments. It may be run more than once when the process dies in it: what
        has effects outside is a `tool`.
        """
        return await call_step(self, DEFAULTS, Asked(name, fn, args, named))

    async def tool(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> Any:
        """Call a function with effects outside: that it starts is recorded first, what it returned afterwards.

        If the process dies in between, it may have run or not: then somebody is asked (or by `options(unverified=…)`
        the code is told, or it fails); it is never run again silently. A parameter `idempotency_key` is filled in.
        """
        return await call_tool(self, DEFAULTS, Asked(name, fn, args, named))

    def options(
        self,
        *,
        retry: Retry | int | None = None,
        timeout: float | timedelta | None = None,
        key: object = None,
        returns: Callable[..., Any] | None = None,
        repeatable: bool = False,
        unverified: Policy = "ask",
        require_approval: bool = False,
        approval_prompt: str | None = None,
        who: str | Sequence[str] | None = None,
        approvals: int = 1,
        remind: timedelta | float | None = None,
        escalate: Mapping[str, Any] | None = None,
        blocking: bool = False,
        traceback: bool | None = None,
    ) -> Bound:
        """Say how the next step or tool is run: `await run.options(retry=3, timeout=20).step("fetch", fetch, url)`.

        `key` finds it again instead of its arguments, `returns` is the type to give back, a `repeatable` tool is run
        again without asking, `unverified` is what to do about one that may have run: "ask", "tell" or "fail". A plain
        function that is `blocking` is called in a thread of its own, so that the event loop and the lease go on. With
        `require_approval` a person is asked before a tool runs, in the words of `approval_prompt` ("Run: {command}?"),
        and only those whom `who` names may decide; with `approvals=2` two different people have to approve.
        `remind` and `escalate` are those of `run.pause`. With `traceback=False` a failure is recorded without its
        traceback.
        """
        given = options_of(
            retry=retry, timeout=timeout, key=key, returns=returns, repeatable=repeatable, unverified=unverified,
            blocking=blocking, require_approval=require_approval, approval_prompt=approval_prompt, who=who,
            traceback=traceback,
            approvals=approvals, remind=remind, escalate=escalate,
        )  # fmt: skip
        return Bound(self, given)

    async def pause(
        self,
        name: str,
        *,
        ask: str,
        args: Mapping[str, Any] | None = None,
        expects: Any = None,
        who: str | Sequence[str] | None = None,
        deadline: Deadline | None = None,
        approvals: int = 1,
        remind: timedelta | float | None = None,
        escalate: Mapping[str, Any] | None = None,
    ) -> Decision:
        """Ask a person, and let go of the thread until somebody decided; then the run goes on with the decision.

        `expects` is the answer that is asked for beside yes or no: a list of choices, `str` for a text, a type or a
        JSON schema for a form, `Any` for a result from elsewhere. `who` may answer: names of people, `group:NAME` for
        a group, and `not:NAME` or `not:starter` for those who must not. With `approvals=2` two different people have to
        approve, and one denial denies. People are told again every `remind`; with
        `escalate={"after": timedelta(hours=4), "to": ["boss"]}` the boss may decide too from then on, and people are
        told. When nobody did until the `deadline`, it is
        denied. The code is left by an exception that no `except Exception` catches, and entered again after the
        decision; raises `PauseChangedError` when it asks something else by then.
        """
        answer, now = expected(expects), self.runtime.clock.now()
        latest = until(deadline, now) or self.runtime.patience(now)
        people = check_who(who)
        question = Question(
            name, words(ask), arguments(args), answer, people, latest, approvals=check_approvals(approvals, people),
            reminders=reminders_of(remind, escalate),
        )  # fmt: skip
        return await pause(self, question)

    async def sleep(self, seconds: float | timedelta) -> None:
        """Wait, through restarts too: the time counts from the first call. A handler lets go of its thread for it."""
        wanted = seconds.total_seconds() if isinstance(seconds, timedelta) else float(seconds)
        if not wanted >= 0:
            raise InvalidInputError(f"sleep takes seconds from 0 on, or a timedelta, not {seconds!r}")
        until = await self.step("sleep", lambda: self.runtime.clock.now() + int(wanted * SECOND))
        left = (until - self.runtime.clock.now()) / SECOND
        if left > self.journal.held.ttl and self.handled:
            self.timers.append(until)  # whatever lets go first
            await self.runtime.settled(self, self.scope)
            raise Unwinding(WAITING, until)
        if left > 0:
            await self.runtime.work.pause(left)

    async def now(self) -> datetime:
        """The time, the same one after resuming."""
        return to_datetime(await self.step("now", self.runtime.clock.now))

    async def random(self) -> float:
        """A number from 0 up to 1, the same one after resuming."""
        return await self.step("random", lambda: int.from_bytes(self.runtime.randomness.bytes(7), "big") / (1 << 56))

    async def uuid(self) -> UUID:
        """A random UUID, the same one after resuming."""
        return await self.step("uuid", lambda: UUID(bytes=self.runtime.randomness.bytes(16), version=4))

    async def signal(self, name: str) -> Any:
        """The value of the next signal of this name that was sent to the run; wait for it if need be."""
        wanted = check_id(name, "the signal name")
        call = self.scope.call("signal", key_digest(wanted))
        try:
            return await self.runtime.signals.wait(self, wanted, call.nth)
        finally:
            self.scope.settle()

    async def model(
        self, fn: Callable[..., Any], messages: Sequence[Any], /, *, name: str = "model", **settings: Any
    ) -> Any:
        """Ask a model: `fn(messages, **settings)`. The answer is recorded, and by `thread.seen` what the model saw."""
        from perdure.runtime.models import call_model

        return await call_model(self, fn, messages, name, settings)

    def stream(self, name: str, fn: Callable[..., Any], /, *args: Any, **named: Any) -> AsyncIterator[Any]:
        """Give what an iterator gives, item by item: `async for item in run.stream("draft", write, topic):`.

        Items are recorded as they come, and `thread.streamed()` reads them from outside. After a crash the whole
        stream is made again as the next attempt; one that came to its end is read from the log.
        """
        from perdure.runtime.streaming import stream

        return stream(self, Asked(name, fn, args, named))

    async def keyed(self, idem_key: str) -> Entry | None:
        """The entry that stands under a key, in this thread or in the one that it does again."""
        with self.journal.at_work:
            entry = await self.journal.storage.keyed(self.journal.key, idem_key)
            return await self.elsewhere.keyed(idem_key) if entry is None and self.elsewhere else entry

    async def find(self, call: Call, scope: Scope) -> Recorded:
        """What the log has of a call. Raises when it has something else in that place, or is over without it."""
        if not self.resumed and not call.parent:
            return NOTHING
        found = self.journal.at_hand(call)
        if found is None:
            with self.journal.at_work:
                found = await self.journal.find(call)
        if found is not None:
            return found
        if self.over:
            raise RunFinishedError(self.id, str(call))
        other = None if self.accept or scope.free else self.journal.expected(call)
        if other is not None:
            raise RunDivergedError(self.id, str(other), str(call))
        return NOTHING
