"""Interrupts of graphs as questions of ours: they are listed, decided and audited like any other."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import Raw

from perdure.app.parts import Parts
from perdure.checkpoints.requests import Request
from perdure.core.answers import Expects, expects_of
from perdure.core.calls import TOP, Call, key_digest, shown, told
from perdure.core.codec import decode, encode_result
from perdure.core.entries import EntryKind
from perdure.core.errors import InvalidInputError, KeyReusedError, MissingExtraError
from perdure.core.identity import ThreadKey
from perdure.core.pauses import Decided, Opened, decided_key, decode_decided, decode_opened, opened_key, pause_id
from perdure.core.payload import encode_body
from perdure.core.runs import PAUSED
from perdure.core.threads import ThreadPatch, ThreadRow
from perdure.runtime.attending import GRACE, UNTOLD
from perdure.runtime.leases import SECOND
from perdure.runtime.questions import Question, open_questions

INTERRUPT, RESUME = "__interrupt__", "__resume__"
NULL_TASK = "00000000-0000-0000-0000-000000000000"
_NAME = "interrupt"
_ASK = 2000  # characters
_ASKS = ("ask", "question", "query", "message", "action", "prompt", "description")  # where people put the question


class Interrupted(msgspec.Struct, frozen=True):
    """An interrupt that a task raised."""

    id: str
    value: Any
    schema: Mapping[str, Any] | None


def raised(writes: Sequence[tuple[str, Any]], *, opaque: bool) -> list[Interrupted]:
    """The interrupts among what a task wrote; `opaque` ones without what they ask."""
    found = [value for channel, value in writes if channel == INTERRUPT]
    each = [one for value in found for one in (value if isinstance(value, list | tuple) else [value])]
    if opaque:
        return [Interrupted(str(getattr(one, "id", "")), _NAME, None) for one in each]
    return [Interrupted(str(getattr(one, "id", "")), getattr(one, "value", one), _schema(one)) for one in each]


def _schema(interrupt: Any) -> Mapping[str, Any] | None:
    schema = getattr(interrupt, "response_schema", None)
    return schema if isinstance(schema, Mapping) else None


async def ask(parts: Parts, key: ThreadKey, checkpoint: str, task: str, interrupts: Iterable[Interrupted]) -> bool:
    """Open a question for each interrupt, once, and have people told of it; False when there is no thread."""
    row = await parts.storage.thread(key)
    if row is None:
        return False
    hooks = parts.policies is not None and bool(parts.policies.webhooks)
    # The timer by which a worker finds a question that its asker did not tell of: it had no webhooks, or is gone.
    look_at = parts.clock.now() + int(GRACE * SECOND) if hooks else UNTOLD
    for each in interrupts:
        opened = _opened(row, checkpoint, task, each)
        entry = parts.engine.entry(EntryKind.PAUSE_OPENED, encode_body(opened), None)
        patch = ThreadPatch(status=PAUSED, wake_at=look_at)
        request = Request(key=opened_key(shown(opened.call.id)), uid=row.uid, patch=patch)
        await _once(parts, key, [entry], request)
    if hooks:
        _tell(parts, key)
    return True


def _tell(parts: Parts, key: ThreadKey) -> None:
    """Tell people now, beside the graph. Where nothing can run beside it, whoever serves the store does."""
    runtime = parts.running.runtime
    if not runtime.work.in_place:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return
    runtime.attending.asked(key)


def _opened(row: ThreadRow, checkpoint: str, task: str, interrupt: Interrupted) -> Opened:
    call = Call(checkpoint, TOP, f"{_NAME} {interrupt.id}", key_digest(task), 0, 0, 0, task)
    value = Raw(encode_result(interrupt.value, subclasses="plain"))
    return Opened(pause_id(row.uid, shown(call.id)), call, _NAME, _asked(interrupt.value), value, _expects(interrupt))


def _expects(interrupt: Interrupted) -> Expects:
    if interrupt.schema is None:
        return Expects("external")
    try:
        return expects_of(interrupt.schema)
    except (InvalidInputError, MissingExtraError):
        return Expects("external")  # the graph itself checks what it is given


def _asked(value: Any) -> str:
    """The question in words."""
    if isinstance(value, Mapping):
        words = next((value[name] for name in _ASKS if isinstance(value.get(name), str)), None)
        value = words or value
    text = value if isinstance(value, str) else json.dumps(value, default=repr, ensure_ascii=False)
    return text[:_ASK] or _NAME


async def _once(parts: Parts, key: ThreadKey, entries: Sequence[Any], request: Request) -> None:
    try:
        await parts.engine.speak(key, entries, request)
    except KeyReusedError:
        return  # it was asked, or answered, before


async def close(parts: Parts, key: ThreadKey, written: Sequence[tuple[str, str, Any]]) -> None:
    """The graph went on: questions that nobody decided here were answered by whoever resumed it."""
    row = await parts.storage.thread(key)
    if row is None or row.is_quarantined:
        return  # nothing is decided about a quarantined thread: its questions stay open as they were imported
    for question in await open_questions(parts.storage, row):
        if question.opened.name == _NAME:
            decided = Decided(
                question.opened.pause, True, answer=Raw(encode_result(_answer(question, written), subclasses="plain"))
            )
            entry = parts.engine.entry(EntryKind.PAUSE_DECIDED, encode_body(decided), None)
            place = decided_key(shown(question.opened.call.id))
            await _once(parts, key, [entry], Request(key=place, uid=row.uid))


def _answer(question: Question, written: Sequence[tuple[str, str, Any]]) -> Any:
    """What the graph was resumed with: LangGraph keeps it with the task, or for all tasks at once."""
    given = {task: value for task, channel, value in written if channel == RESUME}
    task = question.opened.call.given
    if task in given:
        answers = given[task]
        return answers[-1] if isinstance(answers, list) and answers else answers
    return given.get(NULL_TASK)


async def answers(parts: Parts, row: ThreadRow) -> dict[str, Any]:
    """What was decided about the interrupts of a thread and not handed to its graph yet, by interrupt."""
    kinds = (EntryKind.PAUSE_OPENED, EntryKind.PAUSE_DECIDED)
    asked: dict[str, Opened] = {}
    found: dict[str, Any] = {}
    for entry in await parts.storage.entries(row.key, kinds=kinds):
        if entry.kind is EntryKind.PAUSE_OPENED:
            opened = told(row.key.id, entry, decode_opened)
            asked[opened.pause] = opened
            continue
        decided = told(row.key.id, entry, decode_decided)
        if decided.pause in asked and asked[decided.pause].name == _NAME:
            found[asked[decided.pause].call.name.removeprefix(f"{_NAME} ")] = _meant(decided)
    return found


def _meant(decided: Decided) -> Any:
    """What the interrupted code is given: the answer, the edited arguments, or whether it was approved."""
    answer = decode(bytes(decided.answer))
    if answer is not None:
        return answer
    return decode(bytes(decided.args)) if decided.edited else decided.approved
