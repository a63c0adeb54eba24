"""Asking a model: the answer is recorded like a step's, and with it exactly what the model saw."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.core.calls import Call, Outcome, request_key, result_key, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import DamagedError, NotFoundError, StepFailedError
from perdure.core.identity import ThreadKey, check_id
from perdure.core.model_calls import (
    Answered,
    ModelCalled,
    Tokens,
    assembled,
    decode_model_called,
    model_name,
    tokens_of,
)
from perdure.core.threads import ThreadRow
from perdure.core.triggers import Moment, should_save
from perdure.core.writes import Appended
from perdure.runtime.calling import Asked, made
from perdure.runtime.options import DEFAULTS
from perdure.runtime.records import Recorded
from perdure.storage.contract import Storage

if TYPE_CHECKING:
    from perdure.runtime.run import Run


class ModelRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a model was given."""

    messages: list[Any]
    settings: dict[str, Any]
    name: str
    run: str
    version: int  # of the entry that tells of it


class Question(msgspec.Struct, frozen=True):
    """What a model is asked: `fn(messages, **settings)`."""

    fn: Callable[..., Any]
    messages: Sequence[Any]
    settings: dict[str, Any]

    def encoded(self) -> bytes:
        """What is kept of it."""
        return encode_result({"messages": list(self.messages), "settings": self.settings})


async def call_model(
    run: Run, fn: Callable[..., Any], messages: Sequence[Any], name: str, settings: dict[str, Any], *,
    checkpoint: bool = True,
) -> Any:  # fmt: skip
    """Return what a model answered, now or earlier; the call is found again by everything that it was given."""
    question = Question(fn, messages, settings)
    asked = Asked(check_id(name, "the name of a model"), fn, (messages,), settings)

    async def given() -> Question:
        return question

    return await ask_model(run, asked, question.encoded(), given, checkpoint=checkpoint)


async def ask_model(
    run: Run,
    asked: Asked,
    key: object,
    given: Callable[[], Awaitable[Question]],
    timeout: float | None = None,  # noqa: ASYNC109
    *,
    checkpoint: bool = True,
) -> Any:
    """The same for a call that is found by a key: what the model is given is put together only when it is asked.

    Without `checkpoint`, that of the turn is saved by the caller.
    """
    options = msgspec.structs.replace(DEFAULTS, key=key)
    with made(run, options, asked) as (call, scope, at_hand):
        found = at_hand or await run.find(call, scope)
        if found.outcome is not None:
            run.triggering.took(call)
            return decode(bytes(found.outcome.value))
        if found.failure is not None:
            raise StepFailedError(asked.name, found.failure.error, found.failure.text)
        question = await given()
        encoded = question.encoded()  # before it is asked: it may change its messages
        told = await _told_before(run, call, encoded)
        began = run.runtime.clock.now()
        job = functools.partial(question.fn, question.messages, **question.settings)
        given_back = await run.runtime.work.call(job, timeout)
        took = max(0, run.runtime.clock.now() - began)
        answered = Answered(model_name(given_back, question.settings, asked.name), _tokens(given_back), took)
        answer = encode_result(given_back)
        run.triggering.took(call)
        await _record(run, call, answer, None if told else encoded, answered, checkpoint)
        return decode(answer)


def _tokens(answer: object) -> Tokens | None:
    try:
        return tokens_of(answer)
    except Exception:  # an object of somebody's own: what it says of tokens must not lose its answer
        return None


async def _told_before(run: Run, call: Call, encoded: bytes) -> bool:
    """Where a checkpoint before the model is wanted: write what it is asked, once, and say that it stands."""
    triggers, journal, key = run.runtime.triggers, run.journal, request_key(call.id, encoded)
    if not should_save(triggers, Moment.BEFORE_MODEL, run.triggering.turns):
        return False
    called, document = await _request(run, call, encoded, None)
    again = run.resumed or call.parent  # in a step, which may be tried again
    entry = await journal.storage.keyed(journal.key, key) if again else None
    if entry is not None:  # it was asked, and no answer came
        run.requests.keep(document, entry.version)
        return True
    told = journal.entry(EntryKind.MODEL_CALLED, called)
    done = await run.triggering.write(Moment.BEFORE_MODEL, [told], key=key)
    run.requests.keep(document, _before_mark(done))
    return True


async def _record(
    run: Run, call: Call, answer: bytes, encoded: bytes | None, answered: Answered, checkpoint: bool
) -> None:  # fmt: skip
    """Record an answer, the request where it does not stand yet, and the checkpoint of the turn, in one write.

    What the answer took stands with the request: whoever adds it up does not read the answers. Where the request stands
    already, it has to stand with the answer.
    """
    journal = run.journal
    outcome = Outcome(call, Raw(answer), took=answered.took, answered=answered if encoded is None else None)
    entries = [journal.entry(EntryKind.STEP_FINISHED, outcome)]
    called, document = await _request(run, call, encoded, answered) if encoded is not None else (None, None)
    if called is not None:
        entries.append(journal.entry(EntryKind.MODEL_CALLED, called))
    key = result_key(call.id)
    if checkpoint:
        done = await run.triggering.write(Moment.TURN, entries, key=key)
    else:
        done = await journal.write(entries, key=key)
    journal.keep(call, Recorded(outcome=outcome, attempt=1))  # a step around it that is tried again asks again
    if document is not None:
        run.requests.keep(document, _before_mark(done))


def _before_mark(done: Appended) -> int:
    """The version of the last entry of a write that is not its checkpoint."""
    return done.version - (done.checkpoint is not None)


async def _request(run: Run, call: Call, encoded: bytes, answered: Answered | None) -> tuple[ModelCalled, Any]:
    """What is kept of a request: what is new since the one before, also since that of an earlier run."""
    if run.requests.is_new:
        await _compare_with_newest(run)
    return run.requests.called(call, encoded, answered)


async def _compare_with_newest(run: Run) -> None:
    """A new run of a conversation keeps what is new since the one before: else each would keep all of it again."""
    key = run.journal.key
    try:
        calls = await _called(run.journal.storage, key)
        at = max(calls, default=0)
        if at:
            run.requests.keep(assembled(key.id, at, _chain(calls, at))[0], at)
    except (DamagedError, KeyError):
        return  # what cannot be read is not built on: the whole request is kept


async def _called(storage: Storage, key: ThreadKey, version: int | None = None) -> dict[int, ModelCalled]:
    """The calls of a thread, up to a version."""
    entries = await storage.entries(key, kinds=(EntryKind.MODEL_CALLED,))
    return {
        each.version: told(key.id, each, decode_model_called)
        for each in entries
        if version is None or each.version <= version
    }


async def seen(storage: Storage, row: ThreadRow, version: int) -> ModelRequest:
    """The request of the newest call of a model up to a version."""
    calls = await _called(storage, row.key, version)
    if not calls:
        raise NotFoundError(f"a call of a model up to version {version} of thread {row.key.id!r}")
    at = max(calls)
    request = decode(assembled(row.key.id, at, _chain(calls, at))[1])
    call = calls[at].call
    return ModelRequest(
        messages=request["messages"], settings=request["settings"], name=call.name, run=call.run, version=at
    )


def _chain(calls: dict[int, ModelCalled], at: int) -> list[ModelCalled]:
    chain = [calls[at]]
    while chain[-1].base:
        chain.append(calls[chain[-1].base])
    return chain[::-1]
