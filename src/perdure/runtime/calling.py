"""Running steps and tools: look into the log first, then call, then record."""

from __future__ import annotations

from collections.abc import Callable
from reprlib import Repr
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import Raw

from perdure.core.approval_terms import Terms
from perdure.core.calls import (
    Call,
    Intent,
    Outcome,
    args_digest,
    failure_key,
    intent_key,
    key_digest,
    printable,
    result_key,
)
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import EffectUnverifiedError, InvalidInputError, UnsupportedValueError
from perdure.core.identity import check_id
from perdure.core.registry import register
from perdure.core.triggers import Moment
from perdure.runtime.approving import approved, bound_schema
from perdure.runtime.failures import failure_of, kept_traceback, told_again
from perdure.runtime.options import Options, returned, with_own
from perdure.runtime.pausing import ask_about
from perdure.runtime.records import Recorded
from perdure.runtime.scope import SCOPE, Scope
from perdure.runtime.unkept import Unkept, unkept
from perdure.runtime.work import takes

if TYPE_CHECKING:
    from perdure.runtime.decisions import Decision
    from perdure.runtime.rerunning import Elsewhere
    from perdure.runtime.run import Run

KEY = "idempotency_key"
PLACED = "args"  # what arguments without a name are called
_GIVEN = 80  # characters of arguments that are kept for people
_SMALL = 10**9
_SHORT = Repr()


def _short(value: Any) -> str:
    """As `reprlib` shows it, which takes longer over a number than finding its step in the log does."""
    small = -_SMALL < value < _SMALL if type(value) is int else type(value) is str and len(value) < _SHORT.maxstring
    return _SHORT.repr(value) if not small or len(text := repr(value)) > _SHORT.maxstring else text


class Asked(NamedTuple):
    """A call as the code makes it."""

    name: str
    fn: Callable[..., Any]
    args: tuple[Any, ...]
    named: dict[str, Any]
    approved: bytes = b""  # the arguments that somebody approved, encoded

    def fresh(self) -> Asked:
        """The same with arguments that no attempt before it can have changed, where somebody approved them."""
        if not self.approved:
            return self
        named = dict(decode(self.approved))
        placed = named.pop(PLACED, self.args) if self.args else ()
        return self._replace(args=tuple(placed), named=named)

    def given(self) -> str:
        """Its arguments, in short, for people."""
        text = ", ".join(map(_short, self.args))
        if self.named:
            named = [f"{name}={_short(each)}" for name, each in self.named.items()]
            text = ", ".join([text, *named] if text else named)
        return printable(text)[:_GIVEN]


class Unverified(msgspec.Struct, frozen=True, kw_only=True):
    """What a tool gives back that may have run before a crash, by the policy "tell"; it is false."""

    name: str
    key: str
    text: str

    def __bool__(self) -> bool:
        return False


register(Unverified, tag="perdure.unverified")


class Kinds(NamedTuple):
    """How a call is written down."""

    finished: EntryKind
    failed: EntryKind


_STEP = Kinds(EntryKind.STEP_FINISHED, EntryKind.STEP_FAILED)
_TOOL = Kinds(EntryKind.TOOL_FINISHED, EntryKind.TOOL_FAILED)


async def call_step(run: Run, options: Options, asked: Asked) -> Any:
    """Return what a step returned, now or earlier."""
    with made(run, options, asked) as (call, scope, at_hand):
        found = at_hand or await run.find(call, scope)
        if found.outcome is not None:
            return _value(found.outcome.value, options)
        if found.failure is not None:
            raise told_again(found.failure)
        return await _Attempts(run, scope, call, options, asked, _STEP, found.attempt).until_done()


async def call_tool(run: Run, options: Options, asked: Asked) -> Any:
    """Return what a tool returned, now or earlier; ask about one that may have run.

    Raises `UnsupportedValueError`, at every attempt, when it ran and its result cannot be kept.
    """
    value = await outcome_of_tool(run, options, asked)
    if isinstance(value, Unkept):
        raise value.error()
    return value


async def outcome_of_tool(run: Run, options: Options, asked: Asked) -> Any:
    """The same; an `Unkept` for a tool that ran and whose result cannot be kept."""
    options = with_own(options, asked.fn)
    with made(run, options, asked) as (call, scope, at_hand):
        found = at_hand or await run.find(call, scope)
        if found.outcome is not None:
            return _value(found.outcome.value, options)
        if found.failure is not None:
            raise told_again(found.failure)
        asked = await approved(run, scope, call, options, asked, begun=bool(found.attempt))
        attempts = _Attempts(run, scope, call, options, asked, _TOOL, found.attempt)
        if run.elsewhere is not None and run.elsewhere.effects != "real":
            return await _rerun(attempts, run.elsewhere)
        if found.intent is not None and not options.repeatable:
            return await _unverified(attempts, found.intent)
        return await attempts.until_done()


class made:  # used as a function
    """The call that is made, where, and what is at hand about it; it is over at the end."""

    def __init__(self, run: Run, options: Options, asked: Asked) -> None:
        if not callable(asked.fn):
            raise InvalidInputError(f"{asked.name!r} needs a function to call, not {asked.fn!r}")
        digest = args_digest(asked.args, asked.named) if options.key is None else key_digest(options.key)
        self._scope = run.scope
        given = "" if run.resumed else asked.given()  # nobody reads it where the result is at hand
        self._call = self._scope.call(check_id(asked.name, "the name of a step"), digest, given)
        self._found = run.journal.at_hand(self._call) if run.resumed else None
        if run.resumed and (self._found is None or self._found.outcome is None):
            self._call = msgspec.structs.replace(self._call, given=asked.given())

    def __enter__(self) -> tuple[Call, Scope, Recorded | None]:
        return self._call, self._scope, self._found

    def __exit__(self, *_: object) -> None:
        self._scope.settle()


async def _rerun(attempts: _Attempts, elsewhere: Elsewhere) -> Any:
    """A tool of a run that is done again: what it gave the first time, or a person says what becomes of it."""
    outcome = await elsewhere.outcome(attempts.call)
    if outcome is not None:
        return await attempts.record(decode(bytes(outcome.value)), by="the run before")
    decision = await attempts.ask_about(attempts.intent(), "rerun")
    if decision.approved:
        return await attempts.until_done()
    return await attempts.record(decision.answer, by=decision.by)


async def _unverified(attempts: _Attempts, intent: Intent) -> Any:
    """A tool that started before a crash, and of which nobody knows whether it ran."""
    call, policy = attempts.call, attempts.options.unverified
    name, key = call.name, attempts.run.effect_key(call.id)
    if policy == "fail":
        raise EffectUnverifiedError(name, key)
    if policy == "tell":
        text = f"unverified: {name} may have run, key {key}"
        return await attempts.record(Unverified(name=name, key=key, text=text))
    decision = await attempts.ask_about(intent, "unverified")
    if decision.approved:
        return await attempts.until_done()
    return await attempts.record(decision.answer, by=decision.by)


class _Attempts:
    """A call that has to be made."""

    def __init__(
        self, run: Run, scope: Scope, call: Call, options: Options, asked: Asked, kinds: Kinds, before: int
    ) -> None:  # fmt: skip
        self.run = run
        self.call = call
        self.options = options
        self.attempt = before + 1
        self._asked = asked
        self._kinds = kinds
        self._outer = scope
        self._id = call.id
        self._began = 0  # when this attempt did

    async def until_done(self) -> Any:
        """Call until it returns, as often as is allowed; record what came of it."""
        first = self.attempt
        while True:
            await self._announce()
            try:
                encoded = self._encoded(await self._called())
            except Exception as exc:
                if not await self._fails(exc, self.attempt - first + 1):
                    raise
                await self.run.runtime.work.pause(self.options.retry.wait_after(self.attempt - first + 1))
                self.attempt += 1
            else:
                return await self._recorded(encoded)

    @property
    def _is_effect(self) -> bool:
        return self._kinds is _TOOL and not self.options.repeatable

    def _encoded(self, value: Any) -> bytes:
        try:
            return self._encode(value)
        except UnsupportedValueError as exc:
            if not self._is_effect:
                raise
            return encode_result(unkept(value, exc))  # as a failure it would run again, and the effect is there

    def _encode(self, value: Any) -> bytes:
        return encode_result(value, subclasses=self.run.journal.engine.subclasses)

    async def _announce(self) -> None:
        """A tool says that it starts, before it does."""
        if not self._is_effect:
            return
        intent = self.intent()
        entry = self.run.journal.entry(EntryKind.TOOL_STARTED, intent)
        await self.run.journal.write([entry], key=intent_key(self._id, self.attempt))
        self.run.journal.keep(self.call, Recorded(intent=intent, attempt=self.attempt))

    def intent(self) -> Intent:
        """What the tool is about to do."""
        return Intent(self.call, Raw(encode_result(_kept(self._asked.fresh()))), self.attempt)

    async def ask_about(self, intent: Intent, why: Literal["unverified", "rerun"]) -> Decision:
        """Ask whether the tool is to be run, although it may have run before."""
        asked = self._asked.fresh()
        # Where arguments cannot be kept, their text may be another one in each process.
        args = Raw(encode_result(_kept(asked))) if _can_be_kept(asked) else intent.arguments
        now = Terms(tool=self.call.name, args=args, schema=bound_schema(self.options, asked), who=self.options.who)
        return await ask_about(self.run, self.call, intent, why, self.options, now)

    async def _called(self) -> Any:
        asked = self._asked.fresh()
        named = asked.named
        if KEY not in named and takes(asked.fn, KEY):
            named = {**named, KEY: self.run.effect_key(self._id)}
        scope = Scope(self.run, self._id, self._outer)  # an attempt counts its own calls
        token = SCOPE.set(scope)
        self.run.under_way.add(scope)
        self._began = self.run.runtime.clock.now()
        try:
            work, options = self.run.runtime.work, self.options
            return await work.call(lambda: asked.fn(*asked.args, **named), options.timeout, options.blocking)
        finally:
            self.run.under_way.discard(scope)
            SCOPE.reset(token)

    def _took(self) -> int:
        """How long this attempt lasted, in microseconds; 0 where nothing was called."""
        return max(0, self.run.runtime.clock.now() - self._began) if self._began else 0

    async def _fails(self, exc: Exception, tries: int) -> bool:
        """Record a failure, and say whether to try again."""
        retry, held = self.options.retry, self.run.journal.held
        if held.lost is not None:
            raise held.lost
        again = tries < retry.attempts and retry.applies_to(exc) and not isinstance(exc, UnsupportedValueError)
        keeps = self.run.keeps_tracebacks if self.options.traceback is None else self.options.traceback
        failure = failure_of(
            self.call, exc, self.attempt, again=again, settled=self._outer.settled + 1,
            traceback=kept_traceback(exc) if keeps else "", took=self._took(),
        )  # fmt: skip
        entry = self.run.journal.entry(self._kinds.failed, failure)
        await self.run.journal.write([entry], key=failure_key(self._id, self.attempt))
        self.run.journal.keep(self.call, Recorded(attempt=self.attempt))
        return again

    async def record(self, value: Any, by: str | None = None) -> Any:
        """Record a value that no call gave."""
        return await self._recorded(self._encode(value), by)

    async def _recorded(self, encoded: bytes, by: str | None = None) -> Any:
        outcome = Outcome(self.call, Raw(encoded), self.attempt, by, self._took())
        entry = self.run.journal.entry(self._kinds.finished, outcome)
        if self._kinds is _TOOL and self.options.checkpoint:
            await self.run.triggering.write(Moment.TOOL, [entry], about=self.call.name, key=result_key(self._id))
        else:
            await self.run.journal.write([entry], key=result_key(self._id))
        self.run.journal.keep(self.call, Recorded(outcome=outcome, attempt=self.attempt))
        self.run.journal.forget_inside(self._id)
        return _value(encoded, self.options)


def _value(encoded: bytes | Raw, options: Options) -> Any:
    value = decode(encoded)
    return value if isinstance(value, Unkept) else returned(value, options.returns)


def _can_be_kept(asked: Asked) -> bool:
    try:
        encode_result([list(asked.args), asked.named])
    except UnsupportedValueError:
        return False
    return True


def _kept(asked: Asked) -> Any:
    """The arguments as far as they can be kept, for people who have to decide about them."""
    if not _can_be_kept(asked):
        return {"args": [repr(each) for each in asked.args], **{name: repr(each) for name, each in asked.named.items()}}
    return {**({PLACED: list(asked.args)} if asked.args else {}), **asked.named}
