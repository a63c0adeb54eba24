"""`perdure pauses URL` and `perdure decide URL PAUSE`: what waits for a person, and the answer."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Annotated, Any, cast

from cyclopts import Parameter

from perdure.app.clock import SystemClock
from perdure.app.store import parts_of
from perdure.cli.forms import fields_of
from perdure.cli.main import UsageError
from perdure.cli.output import write, write_json, write_lines
from perdure.cli.parameters import HERE, Address, Output, Owned, Place, Untouched
from perdure.cli.prompting import Given, completed
from perdure.cli.spans import ago, until
from perdure.cli.standing import line_of, open_pause
from perdure.cli.stores import driven, inner, opened_store, user_of
from perdure.cli.values import data, typed, whole
from perdure.core.errors import InvalidAnswerError
from perdure.core.identity import ANY_USER
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.threads import ThreadRow, resume_graph
from perdure.core.times import to_datetime
from perdure.runtime.decisions import Decision, Pause
from perdure.sync import Perdure

_LONG = 200  # characters of an argument that is announced, since it may push others out of sight
_SAID = {"approval": "a yes or no", "text": "a text", "external": "a result from elsewhere, as JSON"}


def pauses(
    url: Untouched,
    thread: str | None = None,
    /,
    *,
    user: Owned = None,
    limit: int = 100,
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """List the questions that wait for a person.

    Parameters
    ----------
    thread
        Only those of the thread of this id.
    limit
        At most this many.
    """
    with opened_store(url, at) as store:
        found = store.pauses(thread, user=user_of(user, store), limit=limit)
    if output == "json":
        write_json([data(each, "args") for each in found])
        return
    write_lines(_lines(found, now()))


def decide(
    url: Address,
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
    at: Place = HERE,
    output: Output = "text",
) -> None:
    """Answer a question that waits.

    A decision stands: a second one is refused and names the first. A worker that serves the storage goes on with the
    run at once. On a terminal, the question is shown and what you leave out is asked for.

    Parameters
    ----------
    pause
        The id of the question, as `perdure pauses` prints it.
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
    given = Given(approve, by, typed(args, "--args"), _answered(choice, text, answer), version)
    with opened_store(url, at) as store:
        done = _decided(store, pause, given, asking=output == "text" and _on_a_terminal())
        row = driven(store, line_of(inner(store), pause))
        user = parts_of(inner(store)).users.shown(row.key.user)
    whose = None if user is None else str(user)
    resume = at.hint("resume", url, row.key.id, user=whose, options={"--handlers": "MODULE"})
    if output == "json":
        write_json(data(done, "args", "answer"))
    else:
        write(_told(done, _goes_on(row, resume)))


def now() -> datetime:
    """The time, to say how long something waits."""
    return to_datetime(SystemClock().now())


def _answered(choice: str | None, text: str | None, answer: str | None) -> Any:
    given = [each for each in (choice, text, typed(answer, "--answer")) if each is not None]
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
    question = driven(store, open_pause(inner(store), pause, now()))
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
    for each in found:
        yield each.id, "bold"
        yield from ((f"  {line}", "") for line in _question(each.ask))
        yield from ((line, "dim") for line in _details(each, at))


def _details(pause: Pause, at: datetime) -> list[str]:
    whose = "" if pause.user is None else f" of {shown(str(pause.user))}"
    where = f"{shown(pause.name)} in thread {shown(pause.thread)}{whose}, version {pause.version}"
    who = f", of {' or '.join(map(shown, pause.who))}" if pause.who else ""
    late = "" if pause.deadline is None else f", until {_time(pause.deadline)} ({until(pause.deadline, at)})"
    lines = [
        *_arguments(pause.args),
        f"{where}, since {_time(pause.at)} ({ago(pause.at, at)})",
        f"expects {_expected(pause)}{who}{late}",
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
        return [f"with {whole(args)}"] if args else []
    named = {_name(name): whole(value) for name, value in cast("Mapping[Any, Any]", args).items()}
    sizes = [f"{name} ({len(text):,} characters)" if len(text) > _LONG else name for name, text in named.items()]
    long = any(len(text) > _LONG for text in named.values())
    head = [f"with {len(named)} argument{'' if len(named) == 1 else 's'}: {', '.join(sizes)}"] if long else ["with"]
    return [*head, *(f"  {name}: {text}" for name, text in named.items())] if named else []


def _name(name: Any) -> str:
    """The name of an argument; in quotes where it could be taken for more than a name."""
    return name if isinstance(name, str) and name.isidentifier() and printable(name) == name else whole(name)


def _time(at: datetime) -> str:
    return at.strftime("%Y-%m-%d %H:%M:%SZ")


def _expected(pause: Pause) -> str:
    """What kind of answer is asked for."""
    if pause.expects == "choice":
        return f"one of {', '.join(map(shown, pause.choices))}"
    if pause.expects != "form":
        return _SAID.get(pause.expects, shown(pause.expects))
    fields = [f"{shown(each.name)} ({printable(each.hint)})" for each in fields_of(pause.schema or {})]
    return f"a form with {', '.join(fields)}" if fields else f"JSON that fits {whole(pause.schema)}"


def _goes_on(row: ThreadRow, resume: str) -> str:
    """How what asked goes on: a run of an agent, a run of a block, or a graph, of which there is no run."""
    if not row.run:
        return f"the program that has the graph goes on: {resume_graph(row.key.id)}"
    if row.agent:
        return f"a worker goes on with the run at once; without one: {resume}"
    return "the run goes on when its block is entered again"


def _told(done: Decision, goes_on: str) -> str:
    word = "approved" if done.approved else "denied"
    lines: list[Any] = [f"{word:<18} {done.pause}, by {shown(done.by)}"]
    lines += _arguments(done.args) if done.approved else []
    lines += [f"answer             {whole(done.answer)}"] if done.answer is not None else []
    return "\n".join([*lines, goes_on])
