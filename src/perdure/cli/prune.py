"""`perdure prune URL`: points that a policy does not keep go, and what only they needed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from perdure.app.maintenance import PruneReport
from perdure.cli.common_options import (
    HERE,
    DryRun,
    Output,
    Owned,
    Several,
    ThreadOptions,
    Yes,
    confirmed,
    opened_store,
    user_of,
)
from perdure.cli.output import progress, write, write_data, write_next
from perdure.core.errors import InvalidInputError
from perdure.core.retention_policy import Per, Retention, Rule
from perdure.core.weights import shown_bytes

_READ: dict[str, type[int | float | str]] = {"last": int, "days": float, "bytes": int, "until": str, "per": str}
_FORM = "routine=last:3, recovery=days:7,until:cleared or manual=keep"


def prune(
    *,
    last: int | None = None,
    days: float | None = None,
    bytes: int | None = None,
    per: Per = "agent",
    kind: Several = (),
    user: Owned = None,
    dry_run: DryRun = False,
    yes: Yes = False,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Drop the points that a policy does not keep, and what only they needed.

    Every point that stays loads as before; messages, and who did what and when, stay too. What is tagged, forked from,
    paused or the newest of its thread is never dropped. It can be stopped at any time, and repeated.

    Parameters
    ----------
    last
        Keep the newest that many.
    days
        Keep those at most that old.
    bytes
        Keep the newest, as far as they cost no more than this together.
    per
        Within what --last and --bytes count.
    kind
        A rule for one kind: KIND=last:N, days:D, bytes:B, until:completed or until:cleared, several with a comma, or
        KIND=keep; may be given several times. All other kinds follow the options above.
    """
    policy = Retention(last=last, days=days, bytes=bytes, per=per, kinds=rules(kind))
    if not any(rule.limits() for rule in policy.rules):
        raise InvalidInputError("there is nothing to prune by: give --last, --days, --bytes or --kind")
    with opened_store(at) as store:
        whose = user_of(user, store)
        if not dry_run and not yes:
            plan = store.prune(policy, True, user=whose).plan
            dry_run = not plan.dropped  # then there is nothing to ask about
            confirmed(f"{plan.text()}\nDrop this?", dry_run)
        with progress("threads") as tell:
            done = store.prune(policy, dry_run, user=whose, progress=lambda count, total, _: tell(count, total))
        waits = store.compacting()
    if output != "table":
        write_data(_data(done, policy, dry_run), output)
    else:
        write(_told(done, policy, waits, dry_run))
        if done.pruned:
            write_next(at.hint("compact"))


def rules(kinds: Iterable[str]) -> dict[str, Rule]:
    """The rules of kinds as they were typed."""
    found: dict[str, Rule] = {}
    for text in kinds:
        name, equals, limits = text.rpartition("=")
        if not name or not equals:
            raise InvalidInputError(f"--kind looks like {_FORM}, not {text!r}")
        if name in found:
            raise InvalidInputError(f"--kind {name} is given twice: put its limits together with a comma")
        found[name] = Rule() if limits == "keep" else Rule(**dict(_limit(text, each) for each in limits.split(",")))
    return found


def _limit(text: str, limit: str) -> tuple[str, Any]:
    name, _, value = limit.partition(":")
    if name not in _READ:
        raise InvalidInputError(f"--kind {text!r}: {limit!r} is no limit; it looks like {_FORM}")
    try:
        return name, _READ[name](value)
    except ValueError:
        raise InvalidInputError(f"--kind {text!r}: {name} must be a number, not {value!r}") from None


def _told(done: PruneReport, policy: Retention, waits: str, dry_run: bool) -> str:
    keeps = f"keeps              {policy.to_text()}"
    if dry_run:
        return f"{keeps}\n{done.plan.text()}"
    points, threads = sum(each.points for each in done.pruned), len(done.pruned)
    gone = f"pruned             {_count(points, 'point')} of {_count(threads, 'thread')}, {shown_bytes(done.bytes)}"
    stays = f"kept               {_count(len(done.plan.kept), 'point')}"
    return "\n".join([keeps, gone, stays, *([f"on disk            {waits}"] if points else [])])


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _data(done: PruneReport, policy: Retention, dry_run: bool) -> dict[str, object]:
    freed = done.plan.bytes if dry_run else done.bytes
    return {"policy": policy.to_text(), "dry_run": dry_run, "bytes": freed, "plan": done.plan, "pruned": done.pruned}
