"""What one entry is about, for people: step, tool, model or person, the arguments in short, and how long it took."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from perdure.core.calls import Call, decode_called, decode_failure, decode_intent, decode_outcome, told
from perdure.core.codec import decode_tagged
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import DamagedError, UnknownTypeError
from perdure.core.model_calls import decode_model_called
from perdure.core.pauses import decode_decided, decode_notified, decode_opened
from perdure.core.pruning import is_blank
from perdure.core.runs import decode_ended, decode_resumed, decode_started

_LONGEST = 500  # characters of a text that a summary repeats
_LONGEST_TIME = 1 << 53  # microseconds, nearly 300 years; a larger number is no duration


class Summary(msgspec.Struct, frozen=True, kw_only=True):
    """What an entry says of who did what; None where it says nothing of that."""

    name: str | None = None  # of the step, tool, model, pause, handler, signal or tag
    person: str | None = None  # who decided, or said what a tool gave
    given: str | None = None  # the arguments, in short
    args_digest: str | None = None  # … and their digest, in hex: the same arguments have the same
    took: int | None = None  # microseconds
    run: str | None = None
    attempt: int | None = None
    error: str | None = None  # how it failed
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


NOTHING = Summary()


def summary_of(thread_id: str, entry: Entry) -> Summary:
    """The summary of an entry. One that is damaged or was pruned says nothing: its header still tells who and when."""
    read = _READ.get(entry.kind)
    if read is None or is_blank(entry) or entry.payload is None:
        return NOTHING
    try:
        summary = read(thread_id, entry)
    except (DamagedError, UnknownTypeError, KeyError, TypeError, ValueError):
        return NOTHING
    fits = summary.took is None or 0 <= summary.took <= _LONGEST_TIME
    return summary if fits else msgspec.structs.replace(summary, took=None)


def _call(call: Call, **more: Any) -> Summary:
    given = call.given[:_LONGEST] or None
    return Summary(name=call.name, given=given, args_digest=call.args.hex(), run=call.run, **more)


def _streamed(thread_id: str, entry: Entry) -> Summary:
    return _call(told(thread_id, entry, decode_called).call)


def _intent(thread_id: str, entry: Entry) -> Summary:
    intent = told(thread_id, entry, decode_intent)
    return _call(intent.call, attempt=intent.attempt)


def _outcome(thread_id: str, entry: Entry) -> Summary:
    outcome = told(thread_id, entry, decode_outcome)
    return _call(outcome.call, attempt=outcome.attempt, person=outcome.by, took=outcome.took)


def _failure(thread_id: str, entry: Entry) -> Summary:
    failure = told(thread_id, entry, decode_failure)
    return _call(
        failure.call, attempt=failure.attempt, took=failure.took, error=_error(failure.error, failure.text)
    )  # fmt: skip


def _model(thread_id: str, entry: Entry) -> Summary:
    called = told(thread_id, entry, decode_model_called)
    answered = called.answered
    if answered is None:
        return _call(called.call)
    tokens = answered.tokens
    return _call(
        called.call, took=answered.took, model=answered.model or None, input_tokens=tokens.input if tokens else None,
        output_tokens=tokens.output if tokens else None,
    )  # fmt: skip


def _started(thread_id: str, entry: Entry) -> Summary:
    started = told(thread_id, entry, decode_started)
    return Summary(name=started.name, run=started.run)


def _resumed(thread_id: str, entry: Entry) -> Summary:
    resumed = told(thread_id, entry, decode_resumed)
    return Summary(run=resumed.run, attempt=resumed.attempt)


def _ended(thread_id: str, entry: Entry) -> Summary:
    ended = told(thread_id, entry, decode_ended)
    error = _error(ended.error, ended.text) if ended.error or ended.text else None
    return Summary(run=ended.run, attempt=ended.attempt, error=error, took=ended.took or None)


def _opened(thread_id: str, entry: Entry) -> Summary:
    opened = told(thread_id, entry, decode_opened)
    return Summary(name=opened.name, run=opened.call.run, args_digest=opened.call.args.hex())


def _decided(thread_id: str, entry: Entry) -> Summary:
    decided = told(thread_id, entry, decode_decided)
    return Summary(name="approved" if decided.approved else "denied", person=decided.by)


def _notified(thread_id: str, entry: Entry) -> Summary:
    notified = told(thread_id, entry, decode_notified)
    return Summary(attempt=notified.attempt, error=None if notified.delivered else notified.text[:_LONGEST])


def _named(thread_id: str, entry: Entry) -> Summary:
    said = told(thread_id, entry, decode_tagged)
    name = said.get("name") if isinstance(said, Mapping) else None
    return Summary(name=name if isinstance(name, str) else None)


def _error(kind: str, text: str) -> str:
    return f"{kind}: {text}"[:_LONGEST] if kind and text else (kind or text)[:_LONGEST]


_READ: dict[EntryKind, Callable[[str, Entry], Summary]] = {
    EntryKind.STEP_STREAMED: _streamed,
    EntryKind.STEP_FINISHED: _outcome,
    EntryKind.STEP_FAILED: _failure,
    EntryKind.TOOL_STARTED: _intent,
    EntryKind.TOOL_FINISHED: _outcome,
    EntryKind.TOOL_FAILED: _failure,
    EntryKind.MODEL_CALLED: _model,
    EntryKind.RUN_STARTED: _started,
    EntryKind.RUN_RESUMED: _resumed,
    EntryKind.RUN_FINISHED: _ended,
    EntryKind.RUN_FAILED: _ended,
    EntryKind.RUN_CANCELLED: _ended,
    EntryKind.PAUSE_OPENED: _opened,
    EntryKind.PAUSE_DECIDED: _decided,
    EntryKind.PAUSE_NOTIFIED: _notified,
    EntryKind.CHECKPOINT_TAGGED: _named,
}
