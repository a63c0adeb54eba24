"""`perdure pauses`, `approve`, `deny`, `answer` and `decide`: what waits for a person, and the answer."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, cast

from cyclopts import Parameter

from perdure.app.clock import SystemClock
from perdure.app.store import parts_of
from perdure.cli.common_options import (
    HERE,
    Output,
    Owned,
    ThreadOptions,
    fields_of_struct,
    inner,
    one_line,
    opened_store,
    parse_json,
    run_in,
    user_of,
)
from perdure.cli.durations import ago, until
from perdure.cli.forms import fields_of
from perdure.cli.handlers import handlers_option
from perdure.cli.lookup import pause_of, short_ids, thread_of
from perdure.cli.output import OutputFormat, write, write_data, write_error, write_lines, write_next
from perdure.cli.problems import UsageError
from perdure.cli.prompting import Given, completed
from perdure.cli.standing import line_of, open_pause
from perdure.core.errors import InvalidAnswerError
from perdure.core.identity import ANY_USER
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.times import to_datetime
from perdure.runtime.decisions import Decision, Pause
from perdure.sync import Perdure

PauseId = Annotated[str, Parameter(help="The id of the question, or a beginning of it, as `perdure pauses` prints it.")]
By = Annotated[str | None, Parameter(help="Who decides, for the log; your account by default.")]
SeenVersion = Annotated[
    int | None, Parameter(help="The version of the question that you saw; refused when it is another.")
]
_LONG = 200  # characters of an argument that is announced, since it may push others out of sight
_SAID = {"approval": "a yes or no", "text": "a text", "external": "a result from elsewhere, as JSON"}


def pauses(
    thread: str | None = None,
    /,
    *,
    user: Owned = None,
    limit: int = 100,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """List the questions that wait for a person.

    Parameters
    ----------
    thread
        Only those of the thread of this id.
    limit
        At most this many.
    """
    with opened_store(at) as store:
        if thread is None:
            found = store.pauses(user=user_of(user, store), limit=limit)
        else:
            found = store.pauses(thread_of(store, thread, user), limit=limit)
    if output != "table":
        write_data([fields_of_struct(each, "args") for each in found], output)
        return
    write_lines(_lines(found, now()))
    write_next(*(step for each in found[:1] for step in decide_hints(each, at)))


def approve(
    pause: PauseId,
    /,
    *,
    by: By = None,
    args: Annotated[str | None, Parameter(help="The arguments as you edited them, as JSON.")] = None,
    version: SeenVersion = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Approve what a question asks for.

    A decision is final: a second one is refused and names the first. A worker that serves the store continues the run.
    """
    _decide(pause, Given(True, by or getpass.getuser(), parse_json(args, "--args"), None, version), at, output)


def deny(
    pause: PauseId,
    /,
    *,
    by: By = None,
    text: Annotated[str | None, Parameter(help="Why.")] = None,
    answer: Annotated[str | None, Parameter(help="The result, as JSON, of a tool that may have run.")] = None,
    version: SeenVersion = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Deny what a question asks for.

    A decision is final: a second one is refused and names the first. A worker that serves the store continues the run.
    """
    given = Given(False, by or getpass.getuser(), None, _answered(None, text, answer), version)
    _decide(pause, given, at, output)


def answer(
    pause: PauseId,
    value: str,
    /,
    *,
    by: By = None,
    version: SeenVersion = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Answer a question that expects a text, a choice, a form or a result.

    Parameters
    ----------
    value
        The text or the choice as it is; a form or a result as JSON.
    """
    with opened_store(at) as store:
        expects = run_in(store, open_pause(inner(store), pause_of(store, pause), now())).expects
    meant = value if expects in ("text", "choice") else parse_json(value, "the answer")
    _decide(pause, Given(True, by or getpass.getuser(), None, meant, version), at, output)


def decide(
    pause: str,
    /,
    *,
    approve: Annotated[bool | None, Parameter(name="--approve", negative="--deny")] = None,
    by: str | None = None,
    choice: str | None = None,
    text: str | None = None,
    answer: str | None = None,
    args: str | None = None,
    version: int | None = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Answer a question that waits.

    A decision stands: a second one is refused and names the first. A worker that serves the storage goes on with the
    run at once. On a terminal, the question is shown and what you leave out is asked for.

    Parameters
    ----------
    pause
        The id of the question, or a beginning of it, as `perdure pauses` prints it.
    approve
        Approve it, or deny it.
    by
        Who decides.
    choice
        The answer, where one of several is to be chosen.
    text
        The answer as it is, where a text is asked for; with --deny, why.
    answer
        The answer as JSON, such as a form; of a tool that may have run and is denied, its result.
    args
        The arguments as you edited them, as JSON.
    version
        The version of the question that you saw; refused when it is another.
    """
    _decide(pause, Given(approve, by, parse_json(args, "--args"), _answered(choice, text, answer), version), at, output)


def decide_hints(pause: Pause, at: ThreadOptions) -> list[str]:
    """What to type about an open question."""
    if pause.quarantined:
        return [at.hint("trust", pause.thread, user=_name_of(pause.user), options={"--dry-run": True})]
    short = short_ids([pause.id])[pause.id]
    if pause.expects == "approval":
        return [at.hint(word, short) for word in ("approve", "deny")]
    return [at.hint("decide", short)]


def _decide(typed: str, given: Given, at: ThreadOptions, output: OutputFormat) -> None:
    with opened_store(at) as store:
        pause = pause_of(store, typed)
        done = _decided(store, pause, given, asking=output == "table" and _on_a_terminal())
        row = run_in(store, line_of(inner(store), pause))
        user = _name_of(parts_of(inner(store)).users.shown(row.key.user))
    if output != "table":
        write_data(fields_of_struct(done, "args", "answer"), output)
        return
    write(_told(done))
    if done.missing:
        return
    if row.run and not row.agent:
        write_error("the run goes on when its block is entered again")
    else:
        write_next(at.hint("resume", row.key.id, user=user, options=handlers_option(at)))


def _name_of(user: Any) -> str | None:
    return None if user is None else str(user)


def now() -> datetime:
    """The time, to say how long something waits."""
    return to_datetime(SystemClock().now())


def _answered(choice: str | None, text: str | None, answer: str | None) -> Any:
    given = [each for each in (choice, text, parse_json(answer, "--answer")) if each is not None]
    if len(given) > 1:
        raise UsageError("there is one answer: give one of --choice, --text and --answer")
    return given[0] if given else None


def _on_a_terminal() -> bool:
    return sys.stdin.isatty() and sys.stdout.isatty()


def _decided(store: Perdure, pause: str, given: Given, *, asking: bool) -> Decision:
    if given.approved is not None and given.by is not None:
        return _kept(store, pause, given)
    if not asking:
        raise UsageError("say which, and who says so: --approve or --deny, and --by NAME")
    question = run_in(store, open_pause(inner(store), pause, now()))
    write_lines(_lines([question], now()))
    while True:
        try:
            return _kept(store, pause, completed(question, given))
        except InvalidAnswerError as exc:
            if given.answer is not None or given.args is not None:
                raise  # it would be the same once more
            write(printable(exc.why), "red")


def _kept(store: Perdure, pause: str, given: Given) -> Decision:
    approved, by = bool(given.approved), str(given.by)
    return store.decide(
        pause, approved=approved, by=by, args=given.args, answer=given.answer, version=given.version,
        user=ANY_USER,
    )  # fmt: skip


def _lines(found: list[Pause], at: datetime) -> Iterable[tuple[str, str]]:
    """A question takes a few lines: whoever decides has to see all of it."""
    if not found:
        yield "nothing waits for a person", ""
    short = short_ids(each.id for each in found)
    for each in found:
        yield short[each.id], "bold"
        yield from _asked_lines(each, at)


def question_lines(pause: Pause) -> Iterable[tuple[str, str]]:
    """An open question among what is shown of its thread."""
    yield f"{'asks':<18} {short_ids([pause.id])[pause.id]}", "cyan"
    yield from _asked_lines(pause, now())


def _asked_lines(pause: Pause, at: datetime) -> Iterable[tuple[str, str]]:
    yield from ((f"  {line}", "") for line in _question(pause.ask))
    yield from ((line, "dim") for line in _details(pause, at))


def _details(pause: Pause, at: datetime) -> list[str]:
    whose = "" if pause.user is None else f" of {shown(str(pause.user))}"
    where = f"{shown(pause.name)} in thread {shown(pause.thread)}{whose}, version {pause.version}"
    who = f", of {' or '.join(map(shown, pause.who))}" if pause.who else ""
    late = "" if pause.deadline is None else f", until {_time(pause.deadline)} ({until(pause.deadline, at)})"
    lines = [
        *_arguments(pause.args),
        f"{where}, since {_time(pause.at)} ({ago(pause.at, at)})",
        f"expects {_expected(pause)}{who}{late}",
        *(
            [f"takes {pause.approvals} people; approved so far by {shown(', '.join(pause.approved_by) or 'nobody')}"]
            if pause.approvals > 1
            else []
        ),
        *(f"changed since it was approved: {shown(each)}" for each in pause.changed),
        *(["imported: it cannot be answered until you trust the thread"] if pause.quarantined else []),
        *(f"a receiver could not be told: {shown(each)}" for each in pause.untold),
    ]
    return [f"  {line}" for line in lines]


def _question(ask: str) -> list[str]:
    """A question line by line; the mark before several lines tells them from ours."""
    lines = [printable(line) for line in ask.strip("\n").split("\n")]
    return lines if len(lines) == 1 else [f"| {line}".rstrip() for line in lines]


def _arguments(args: Any) -> list[str]:
    """All of what is approved, a line for each argument; long ones are announced before any is shown."""
    if not isinstance(args, Mapping):
        return [f"with {one_line(args)}"] if args else []
    named = {_name(name): one_line(value) for name, value in cast("Mapping[Any, Any]", args).items()}
    sizes = [f"{name} ({len(text):,} characters)" if len(text) > _LONG else name for name, text in named.items()]
    long = any(len(text) > _LONG for text in named.values())
    head = [f"with {len(named)} argument{'' if len(named) == 1 else 's'}: {', '.join(sizes)}"] if long else ["with"]
    return [*head, *(f"  {name}: {text}" for name, text in named.items())] if named else []


def _name(name: Any) -> str:
    """The name of an argument; in quotes where it could be taken for more than a name."""
    return name if isinstance(name, str) and name.isidentifier() and printable(name) == name else one_line(name)


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def _expected(pause: Pause) -> str:
    """What kind of answer is asked for."""
    if pause.expects == "choice":
        return f"one of {', '.join(map(shown, pause.choices))}"
    if pause.expects != "form":
        return _SAID.get(pause.expects, shown(pause.expects))
    fields = [f"{shown(each.name)} ({printable(each.hint)})" for each in fields_of(pause.schema or {})]
    return f"a form with {', '.join(fields)}" if fields else f"JSON that fits {one_line(pause.schema)}"


def _told(done: Decision) -> str:
    word = "approved" if done.approved else "denied"
    lines: list[Any] = [f"{word:<18} {done.pause}, by {shown(done.by)}"]
    lines += _arguments(done.args) if done.approved else []
    lines += [f"answer             {one_line(done.answer)}"] if done.answer is not None else []
    if done.missing:
        others = "person" if done.missing == 1 else "people"
        lines.append(f"it waits for {done.missing} more {others} to approve the same")
    return "\n".join(lines)
