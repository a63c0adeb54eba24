"""What happened to a thread, for the person who has to know."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from perdure.checkpoints.points import Points
from perdure.core.calls import decode_failure, decode_intent, decode_outcome, told
from perdure.core.calls import shown as shown_key
from perdure.core.codec import decode_known
from perdure.core.entries import Entry, EntryKind
from perdure.core.errors import DamagedError, NotFoundError
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.runs import CANCELLED, DEAD, DECIDED, FAILED, FINISHED, INTERRUPTED, PAUSED, Current, decode_ended
from perdure.core.threads import LANGGRAPH, ThreadRow, resume_graph
from perdure.core.tracebacks import TRACEBACK_BYTES, cut
from perdure.runtime.answering import Answers
from perdure.runtime.decisions import Pause
from perdure.runtime.infos import RunInfo, info_of
from perdure.runtime.runtime import Runtime

_KINDS = (
    *(EntryKind.STEP_FINISHED, EntryKind.STEP_FAILED, EntryKind.TOOL_STARTED, EntryKind.TOOL_FINISHED),
    *(EntryKind.TOOL_FAILED, EntryKind.RUN_FAILED),
)


class Effect(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that was run, or may have been."""

    name: str
    key: str  # its idempotency key
    status: str  # "done", "failed", "unverified"
    args: Any
    version: int
    given: str = ""  # its arguments in short, of one that is repeatable: the log has no others


class Why(msgspec.Struct, frozen=True, kw_only=True):
    """The story of the newest run of a thread. `str()` of it is for people."""

    thread: str
    run: RunInfo | None
    failed: str = ""  # what, and why
    failed_at: int | None = None  # the version of the failure
    traceback: str = ""  # of the failure, where one was kept
    last_good: int | None = None  # the newest version before it
    effects: list[Effect] = []
    steps: int = 0  # how many results are recorded
    questions: list[str] = []
    next: list[str] = []  # what to type
    standing: str = ""  # where it stands, of a thread without a run
    quarantined: bool = False  # it was imported, and nothing goes on until somebody trusts it
    origin: str | None = None  # SHA-256 of the file it was imported from

    @property
    def unverified(self) -> list[Effect]:
        """Tools of which nobody knows whether they ran."""
        return [each for each in self.effects if each.status == "unverified"]

    def __str__(self) -> str:
        return "\n".join(_lines(self))


async def explain(runtime: Runtime, row: ThreadRow, user: Any) -> Why:
    """Read the log of the newest run."""
    current = await runtime.standing.newest(row)
    if current is None:
        return await _without_a_run(runtime, row, user)
    entries = await runtime.storage.entries(row.key, after=current.version, kinds=_KINDS)
    failed = _failure(row.key.id, entries)
    error = await runtime.standing.failure(row) if row.status in (FAILED, DEAD) else ("", "")
    info = info_of(row, user, current, runtime.clock.now(), *error)
    pauses = await Answers(runtime).of(row, user)
    effects = _effects(row.key.id, entries)
    finished = sum(entry.kind in (EntryKind.STEP_FINISHED, EntryKind.TOOL_FINISHED) for entry in entries)
    return Why(
        thread=row.key.id, run=info, failed=failed.text if failed else "", failed_at=failed.version if failed else None,
        traceback=failed.traceback if failed else "",
        last_good=_before(entries, failed, current), effects=effects, steps=finished,
        questions=_questions(pauses),
        next=_next(_named(row, user), info, [pause.id for pause in pauses], await _before_error(runtime, row)),
        quarantined=row.is_quarantined, origin=row.origin,
    )  # fmt: skip


async def _without_a_run(runtime: Runtime, row: ThreadRow, user: Any) -> Why:
    """Of a thread whose questions, if any, come from outside: an interrupt of a LangGraph graph is no run."""
    named, pauses = _named(row, user), await Answers(runtime).of(row, user)
    standing, next_ = _standing(row, bool(pauses)), [f"store.thread({named}).history()"]
    if pauses:
        next_ = _decide(user, [pause.id for pause in pauses])
    elif row.agent == LANGGRAPH and row.status == DECIDED:
        next_ = [resume_graph(row.key.id)]
    return Why(
        thread=row.key.id, run=None, questions=_questions(pauses), next=_trust(named) if row.is_quarantined else next_,
        standing=standing, quarantined=row.is_quarantined, origin=row.origin,
    )  # fmt: skip


def _standing(row: ThreadRow, asks: bool) -> str:
    if asks:
        return "waits for a decision"
    if row.agent != LANGGRAPH:
        return "no run yet"
    return (
        "was answered; its graph did not go on yet" if row.status == DECIDED else "is of a graph that waits for nothing"
    )


def _questions(pauses: list[Pause]) -> list[str]:
    return [f"{pause.id}: {pause.ask}{_untold(pause)}" for pause in pauses]


def _decide(user: Any, pauses: list[str]) -> list[str]:
    whose = "" if user is None else f", user={user!r}"
    return [f'store.decide("{pause}", approved=True, by="you"{whose})' for pause in pauses]


class _Story(NamedTuple):
    """A failure."""

    version: int
    text: str
    traceback: str


def _failure(thread_id: str, entries: list[Entry]) -> _Story | None:
    """The newest failure that was not got over: a step's, else the run's."""
    story: _Story | None = None
    for entry in entries:
        if entry.kind in (EntryKind.STEP_FAILED, EntryKind.TOOL_FAILED):
            failure = told(thread_id, entry, decode_failure)
            text = f"{failure.call.name}: {failure.error}: {failure.text}"
            story = _Story(entry.version, text, failure.traceback)
        elif entry.kind is EntryKind.RUN_FAILED:
            ended = told(thread_id, entry, decode_ended)
            text = f"{ended.error}: {ended.text}"
            if story and story.text.endswith(text):  # the same error, with the frames around the step
                story = story._replace(traceback=ended.traceback or story.traceback)
            else:
                story = _Story(entry.version, text, ended.traceback)
        else:
            story = None
    return story


def _before(entries: list[Entry], failed: _Story | None, current: Current) -> int:
    good = [entry.version for entry in entries if failed is None or entry.version < failed.version]
    return good[-1] if good else current.version


def _effects(thread_id: str, entries: list[Entry]) -> list[Effect]:
    found: dict[bytes, Effect] = {}
    for entry in entries:
        if entry.kind is EntryKind.TOOL_STARTED:
            intent = told(thread_id, entry, decode_intent)
            found[intent.call.id] = Effect(
                name=intent.call.name, key=shown_key(intent.call.id), status="unverified",
                args=decode_known(bytes(intent.arguments)), version=entry.version,
            )  # fmt: skip
        elif entry.kind in (EntryKind.TOOL_FINISHED, EntryKind.TOOL_FAILED):
            done = entry.kind is EntryKind.TOOL_FINISHED
            call = told(thread_id, entry, decode_outcome).call if done else told(thread_id, entry, decode_failure).call
            known = found.get(call.id) or Effect(
                name=call.name, key=shown_key(call.id), status="", args=None, version=entry.version, given=call.given
            )
            found[call.id] = msgspec.structs.replace(known, status="done" if done else "failed")
    return list(found.values())


def _untold(pause: Pause) -> str:
    return f" (nobody could be told: {'; '.join(pause.untold)})" if pause.untold else ""


def _named(row: ThreadRow, user: Any) -> str:
    """The arguments that name a thread: without its owner, they would name nobody's."""
    return repr(row.key.id) if user is None else f"{row.key.id!r}, user={user!r}"


def _trust(thread: str) -> list[str]:
    return [f'store.trust({thread}, by="you", dry_run=True)', f'store.trust({thread}, by="you")']


async def _before_error(runtime: Runtime, row: ThreadRow) -> bool:
    """Whether there is a state to go back to before the newest error."""
    try:
        version = await Points(runtime.storage, runtime.clock).version(row, "@before-error")
        return (await runtime.engine.at(row.key, version, row.uid)).root is not None
    except (NotFoundError, DamagedError):
        return False


def _next(thread: str, info: RunInfo, pauses: list[str], has_before_error: bool) -> list[str]:
    if info.quarantined:
        return _trust(thread)
    again = f"store.resume({thread})" if info.agent else f"store.thread({thread}).run()"
    if info.status == DECIDED:  # and nobody went on with it yet
        return [again]
    if info.status == PAUSED:
        return _decide(info.user, pauses)
    if info.status in (FINISHED, CANCELLED):
        return []
    if info.status in (INTERRUPTED, FAILED, DEAD):
        before = [f'store.thread({thread}).load("@before-error")'] if has_before_error else []
        return [again, f"store.cancel({thread})", *before]
    return []


def _lines(why: Why) -> list[str]:
    run = why.run
    since = "a backup was restored" if why.origin is None else f"imported from file {why.origin}"
    quarantine = [f"  quarantined: {since}; nothing of it goes on until somebody trusts it"]
    if run is None:
        lines = [f"thread {shown(why.thread)}: {why.standing}"]
        lines += quarantine if why.quarantined else []
        lines += [f"  asked: {printable(question)}" for question in why.questions]
        return lines + [f"  next: {each}" for each in why.next]
    agent = "a block of code" if run.agent is None else shown(run.agent)
    lines = [f"thread {shown(why.thread)}: run {run.id} of {agent} is {run.status}"]
    lines += quarantine if why.quarantined else []
    lines += [f"  failed: {printable(why.failed)} (version {why.failed_at})"] if why.failed else []
    lines += traceback_lines(why.traceback)
    lines += [f"  last good point: version {why.last_good}; {why.steps} results are recorded"]
    lines += [
        f"  {each.status}: {shown(each.name)}({printable(each.given) or _arguments(each.args)}), key {each.key}"
        for each in why.effects
    ]
    lines += [f"  asked: {printable(question)}" for question in why.questions]
    lines += [f"  next: {each}" for each in why.next]
    return lines


def traceback_lines(traceback: str) -> list[str]:
    """A traceback as lines for people; one from a stranger's file may be of any length and hold anything."""
    lines = cut(traceback, TRACEBACK_BYTES).split("\n") if traceback else []
    return [f"    {' ' * min(len(line) - len(line.lstrip(' ')), 40)}{printable(line.strip(' '))}" for line in lines]


def _arguments(args: Any) -> str:
    """All of them: somebody has to know what may have been done."""
    if args is None:
        return ""
    return printable(
        ", ".join(f"{name}={value!r}" for name, value in args.items()) if isinstance(args, dict) else repr(args)
    )
