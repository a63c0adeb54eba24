"""`perdure memory …`: what is remembered of a user across threads."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from perdure.cli.common_options import (
    HERE,
    DryRun,
    Flag,
    Output,
    Several,
    ThreadOptions,
    Yes,
    check_can_ask,
    confirmed,
    fields_of_struct,
    opened_store,
    user_of,
)
from perdure.cli.output import write, write_data, write_lines
from perdure.cli.problems import UsageError
from perdure.core.errors import InvalidInputError
from perdure.core.printable import printable
from perdure.memory.facts import Fact, Kind
from perdure.sync.memory import MemoryManager
from perdure.sync.store import Perdure

_User = Annotated[str, Parameter(help="Whose memory.")]
_FactId = Annotated[str, Parameter(help="The id of a fact, or a unique beginning of it.")]
_SHOWN_CHARACTERS = 200


def list_(
    user: _User, /, *, limit: int = 50, all: Flag = False, at: ThreadOptions = HERE, output: Output = "table"
) -> int:
    """List what is remembered of a user, the newest first.

    Parameters
    ----------
    limit
        How many facts.
    all
        Facts that hold no more too.
    """
    with opened_store(at) as store:
        facts = _memory(store, user).get_all(limit, superseded=all)
    return _answered(facts, output, f"nothing is remembered of {printable(user)}")


def search(
    user: _User,
    query: str,
    /,
    *,
    limit: int = 10,
    all: Flag = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Find what is remembered of a user, the best answers first.

    Parameters
    ----------
    query
        What is looked for, in words.
    limit
        How many facts.
    all
        Facts that hold no more too, each below its successor.
    """
    with opened_store(at) as store:
        hits = _memory(store, user).search(query, limit, superseded=all)
    if output != "table":
        write_data([_data(each.fact) | {"score": each.score, "why": list(each.why)} for each in hits], output)
        return 0
    for each in hits:
        why = printable("; ".join(each.why))
        write_lines([(f"{each.score:.2f}  {_line(each.fact)}", ""), (f"      {why}", "dim")])
    if not hits:
        write(f"no fact of {printable(user)} has a word of it")
    return 0


def add(
    user: _User,
    text: str,
    /,
    *,
    kind: Kind = "fact",
    tag: Several = (),
    extract: Flag = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Remember a text of a user, or with --extract the facts that it states.

    Parameters
    ----------
    text
        What to remember.
    kind
        What it is.
    tag
        A tag; can be given several times.
    extract
        Find facts in the text by the rules, instead of keeping it as it is.
    """
    with opened_store(at) as store:
        memory = _memory(store, user)
        stated = memory.add_with_extraction(text, tags=tag) if extract else None
        facts = [memory.add_text(text, kind=kind, tags=tag)] if stated is None else stated
    return _answered(facts, output, "no rule finds a fact in it; nothing was remembered")


def forget(
    user: _User,
    fact_id: str | None = None,
    /,
    *,
    all: Flag = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Delete a fact of a user with its history, or with --all everything that is remembered.

    It cannot be undone. Exit code 1 when you said no.

    Parameters
    ----------
    fact_id
        The fact; a unique beginning of its id is enough.
    all
        All facts.
    """
    if (fact_id is None) != all:
        raise UsageError("name one fact, or --all")
    if not (yes or dry_run):
        check_can_ask()
    with opened_store(at) as store:
        memory = _memory(store, user)
        fact_id = None if fact_id is None else _whole_id(memory, fact_id)
        facts = memory.get_all(superseded=True) if fact_id is None else memory.history(fact_id)
        what = f"{len(facts):,} facts of {user}" if fact_id is None else f"fact {fact_id} with its history"
        if dry_run:
            return _answered(facts, output, f"nothing is remembered of {printable(user)}")
        confirmed(f"Delete {printable(what)} for good?", yes)
        count = memory.delete_all() if fact_id is None else int(memory.delete(fact_id))
    if output != "table":
        write_data({"deleted": count}, output)
    else:
        write(f"deleted {printable(what)}; `compact` overwrites the bytes")
    return 0


def history(user: _User, fact_id: _FactId, /, *, at: ThreadOptions = HERE, output: Output = "table") -> int:
    """Show a fact with what it superseded and what superseded it, the oldest first."""
    with opened_store(at) as store:
        memory = _memory(store, user)
        facts = memory.history(_whole_id(memory, fact_id))
    return _answered(facts, output, "")


def stats(user: _User, /, *, at: ThreadOptions = HERE, output: Output = "table") -> int:
    """Say how much is remembered of a user."""
    with opened_store(at) as store:
        found = _memory(store, user).stats()
    if output != "table":
        write_data(fields_of_struct(found), output)
        return 0
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(found.kinds.items()))
    write(f"{found.facts:,} facts hold{f': {kinds}' if kinds else ''}")
    write(f"{found.superseded:,} in the history; {found.entries:,} entries, {found.bytes:,} bytes")
    return 0


def _memory(store: Perdure, user: str) -> MemoryManager:
    return MemoryManager(store, user=user_of(user, store))  # type: ignore[arg-type]


def _whole_id(memory: MemoryManager, typed: str) -> str:
    """The id that a beginning stands for; what no fact begins with is returned as it is."""
    ids = [fact.id for fact in memory.get_all(superseded=True) if typed and fact.id.startswith(typed)]
    if len(ids) > 1 and typed not in ids:
        raise InvalidInputError(f"several facts begin with {typed!r}: {', '.join(ids[:3])}{' …' if ids[3:] else ''}")
    return ids[0] if len(ids) == 1 else typed


def _answered(facts: list[Fact], output: Output, nothing: str) -> int:
    if output != "table":
        write_data([_data(each) for each in facts], output)
    elif facts:
        write_lines((_line(each), "" if each.superseded_by is None else "dim") for each in facts)
    else:
        write(nothing)
    return 0


def _line(fact: Fact) -> str:
    text = fact.text if len(fact.text) <= _SHOWN_CHARACTERS else f"{fact.text[:_SHOWN_CHARACTERS]}…"
    ended = "" if fact.valid_to is None else f", until {fact.valid_to:%Y-%m-%dT%H:%M:%SZ}"
    by = "" if fact.superseded_by is None else f", superseded by {fact.superseded_by}"
    where = printable(f"{fact.kind}, {fact.source}, since {fact.valid_from:%Y-%m-%dT%H:%M:%SZ}{ended}{by}")
    return f"{printable(fact.id)}  {printable(text)}  ({where})"


def _data(fact: Fact) -> dict[str, object]:
    return fields_of_struct(fact, "metadata")
