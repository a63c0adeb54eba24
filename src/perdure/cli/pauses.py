"""`perdure pauses URL` and `perdure decide URL PAUSE`: what waits for a person, and the answer."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any

from cyclopts import Parameter
from rich.console import Console
from rich.text import Text

from perdure.app.options import UserIdType
from perdure.cli.opened import Output, as_json
from perdure.cli.stores import opened_store, user_of
from perdure.cli.values import brief, data, typed
from perdure.core.retention_words import shown
from perdure.runtime.decisions import Decision, Pause

_WIDTH = 200


def pauses(
    url: str,
    thread: str | None = None,
    /,
    *,
    user: str | None = None,
    limit: int = 100,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """List the questions that wait for a person.

    Parameters
    ----------
    url
        The address of the storage; nothing is changed there.
    thread
        Only those of the thread of this id.
    user
        Only threads of this user; "" for those that belong to nobody.
    limit
        At most this many.
    namespace
        The namespace of the threads.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    console = Console(highlight=False)
    with opened_store(url, namespace, schema, user_id_type) as store:
        found = store.pauses(thread, user=user_of(user, user_id_type), limit=limit)
    if output == "json":
        console.print(Text(as_json([data(each, "args") for each in found])), soft_wrap=True)
        return
    for line, style in _lines(found):
        console.print(Text(line, style=style), soft_wrap=True)


def decide(
    url: str,
    pause: str,
    /,
    *,
    approve: Annotated[bool, Parameter(name="--approve", negative="--deny")],
    by: str,
    args: str | None = None,
    answer: str | None = None,
    version: int | None = None,
    namespace: str = "",
    schema: str | None = None,
    user_id_type: UserIdType | None = None,
    output: Output = "text",
) -> None:
    """Answer a question that waits.

    A decision stands: a second one is refused and names the first. A worker that serves the storage goes on with the
    run at once.

    Parameters
    ----------
    url
        The address of the storage.
    pause
        The id of the question, as `perdure pauses` prints it.
    approve
        Approve it, or deny it.
    by
        Who decides.
    args
        The arguments as you edited them, as JSON.
    answer
        What the run is told, as JSON; of a tool that may have run and is denied, its result.
    version
        The version of the question that you saw; refused when it is another.
    namespace
        The namespace of the thread.
    schema
        PostgreSQL: the schema of the tables.
    user_id_type
        Servers: the type of user ids.
    output
        For people, or for programs.
    """
    edited, told = typed(args, "--args"), typed(answer, "--answer")
    with opened_store(url, namespace, schema, user_id_type) as store:
        done = store.decide(pause, approved=approve, by=by, args=edited, answer=told, version=version)
    text = _told(done) if output == "text" else as_json(data(done, "args", "answer"))
    Console(highlight=False).print(Text(text), soft_wrap=True)


def _lines(found: list[Pause]) -> Iterable[tuple[str, str]]:
    """A question takes a few lines: whoever decides has to see all of it."""
    if not found:
        yield "nothing waits for a person", ""
    for each in found:
        whose = "" if each.user is None else f" of {shown(str(each.user))}"
        yield each.id, "bold"
        yield f"  {shown(' '.join(each.ask.split()))}", ""
        yield from ((line, "dim") for line in _details(each, whose))


def _details(pause: Pause, whose: str) -> list[str]:
    when = pause.at.strftime("%Y-%m-%d %H:%M:%SZ")
    given = [f"  with {brief(pause.args, _WIDTH)}"] if pause.args else []
    return [
        *given,
        f"  {shown(pause.name)} in thread {shown(pause.thread)}{whose}, version {pause.version}, since {when}",
    ]


def _told(done: Decision) -> str:
    word = "approved" if done.approved else "denied"
    lines: list[Any] = [f"{word:<18} {done.pause}, by {shown(done.by)}"]
    lines += [f"with               {brief(done.args, _WIDTH)}"] if done.approved and done.args else []
    lines += [f"answer             {brief(done.answer, _WIDTH)}"] if done.answer is not None else []
    return "\n".join([*lines, "a worker goes on with the run at once; without one: `perdure resume`"])
