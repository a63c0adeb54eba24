"""Asking a model: the answer is recorded like a step's, and with it exactly what the model saw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import Raw

from perdure.core.calls import Call, Outcome, request_key, result_key, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import NotFoundError, StepFailedError
from perdure.core.identity import check_id
from perdure.core.model_calls import ModelCalled, assembled, decode_model_called
from perdure.core.threads import ThreadRow
from perdure.core.triggers import Moment, should_save
from perdure.core.writes import Appended
from perdure.runtime.calling import Asked, made
from perdure.runtime.journal import Recorded
from perdure.runtime.options import DEFAULTS
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


async def call_model(
    run: Run, fn: Callable[..., Any], messages: Sequence[Any], name: str, settings: dict[str, Any], *,
    checkpoint: bool = True,
) -> Any:  # fmt: skip
    """Return what a model answered, now or earlier. Without `checkpoint`, that of the turn is saved by the caller."""
    encoded = encode_result({"messages": list(messages), "settings": settings})
    asked = Asked(check_id(name, "the name of a model"), fn, (messages,), settings)
    options = msgspec.structs.replace(DEFAULTS, key=encoded)
    with made(run, options, asked) as (call, scope):
        found = await run.find(call, scope)
        if found.outcome is not None:
            run.triggering.took(call)
            return decode(bytes(found.outcome.value))
        if found.failure is not None:
            raise StepFailedError(name, found.failure.error, found.failure.text)
        told = await _told_before(run, call, encoded)
        answer = encode_result(await run.runtime.work.call(lambda: fn(messages, **settings), None))
        run.triggering.took(call)
        await _record(run, call, answer, None if told else encoded, checkpoint)
        return decode(answer)


async def _told_before(run: Run, call: Call, encoded: bytes) -> bool:
    """Where a checkpoint before the model is wanted: write what it is asked, once, and say that it stands."""
    triggers, journal = run.runtime.triggers, run.journal
    if not should_save(triggers, Moment.BEFORE_MODEL, run.triggering.turns):
        return False
    called, document = run.requests.called(call, encoded)
    again = run.resumed or call.parent  # in a step, which may be tried again
    entry = await journal.storage.keyed(journal.key, request_key(call.id)) if again else None
    if entry is not None:  # it was asked, and no answer came
        run.requests.keep(document, entry.version)
        return True
    told = journal.entry(EntryKind.MODEL_CALLED, called)
    done = await run.triggering.write(Moment.BEFORE_MODEL, [told], key=request_key(call.id))
    run.requests.keep(document, _before_mark(done))
    return True


async def _record(run: Run, call: Call, answer: bytes, encoded: bytes | None, checkpoint: bool) -> None:
    """Record an answer, the request where it does not stand yet, and the checkpoint of the turn, in one write."""
    journal, outcome = run.journal, Outcome(call, Raw(answer))
    entries = [journal.entry(EntryKind.STEP_FINISHED, outcome)]
    called, document = run.requests.called(call, encoded) if encoded is not None else (None, None)
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


async def seen(storage: Storage, row: ThreadRow, version: int) -> ModelRequest:
    """The request of the newest call of a model up to a version."""
    entries = await storage.entries(row.key, kinds=(EntryKind.MODEL_CALLED,))
    calls = {each.version: told(row.key.id, each, decode_model_called) for each in entries if each.version <= version}
    if not calls:
        raise NotFoundError(f"a call of a model up to version {version} of thread {row.key.id!r}")
    at = max(calls)
    chain = _chain(calls, at)
    request = decode(assembled(row.key.id, at, chain))
    call = calls[at].call
    return ModelRequest(
        messages=request["messages"], settings=request["settings"], name=call.name, run=call.run, version=at
    )


def _chain(calls: dict[int, ModelCalled], at: int) -> list[ModelCalled]:
    chain = [calls[at]]
    while chain[-1].base:
        chain.append(calls[chain[-1].base])
    return chain[::-1]
