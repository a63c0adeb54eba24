"""When a point is dropped: a policy applied to the points of a store, with a reason for each.

Each point follows the rules of its tags, else the rule of its kind, else the limits of the policy itself. Of several
tags it is enough that one keeps it. These stay whatever the policy says:

- the newest point of each thread
- a point with a tag that has no rule
- a point that is held: forked from, paused …

`last` and `bytes` count the points that follow the same rule, newest first. A point that stays takes its place among
them: with `last=3`, a tagged one among the three newest is one of the three, an older one stays beside them, and never
costs a newer one its place. Points that are gone anyway (too old, completed, cleared) are not counted: `last=3,
until="completed"` keeps the three newest that are still open.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.retention_policy import Per, Retention, Rule
from perdure.core.retention_words import days, ordinal, shown, table
from perdure.core.times import to_datetime

_DAY = 86_400_000_000  # microseconds
_ENDED = {"completed": "its operation completed", "cleared": "cleared"}
_HELD = {"newest": "newest of its thread"}
_LIFTED = (None, "newest", "tagged")  # what holds a point only until its owner wants it gone


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """What retention knows of a checkpoint. `held` outranks every rule; a tag is told by `tags` alone."""

    id: str
    thread: str  # uid: tells threads of the same id apart
    thread_id: str
    user: str
    agent: str | None = None
    kind: str
    status: str | None = None
    version: int  # the version it refers to
    entry: int  # the version of the entry that made it
    micros: int
    size: int = 0  # bytes that are freed when it goes
    tags: tuple[str, ...] = ()
    cleared: bool = False  # its operation completed, or a person cleared it
    held: str | None = None  # why it must stay: "forked from", "paused", "newest", "tagged"


class Verdict(msgspec.Struct, frozen=True, kw_only=True):
    """A point and why it stays or goes, in words."""

    point: Point
    why: str


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """Which points stay and which go, each newest first. Nothing has happened yet."""

    kept: tuple[Verdict, ...]
    dropped: tuple[Verdict, ...]

    @property
    def bytes(self) -> int:
        """About how many bytes are freed: neighbours may need a part of what a dropped point held, or need less."""
        return sum(verdict.point.size for verdict in self.dropped)

    def text(self) -> str:
        """The plan as a table for people, what goes first."""
        total = len(self.kept) + len(self.dropped)
        headline = f"{len(self.dropped):,} of {total:,} points to drop, about {self.bytes:,} bytes to free"
        if not total:
            return headline
        rows = [_COLUMNS, *(_row("drop", each) for each in self.dropped), *(_row("keep", each) for each in self.kept)]
        return "\n".join([headline, "", *table(rows, _NUMBERS)])


def plan(points: Iterable[Point], policy: Retention, now: int) -> Plan:
    """Decide which points go at `now` (microseconds); the order in which they are given does not matter.

    Give all points of each thread, of one namespace: what is not given is not counted. Planning again over what was
    kept, at the same time, drops nothing more. Raises `InvalidInputError` when one point is given in two versions.
    """
    ranked = _newest_first(points)
    newest = _newest_of_threads(ranked)
    tallies: _Tallies = {}
    kept: list[Verdict] = []
    dropped: list[Verdict] = []
    for point in ranked:
        holds = _holds(point, policy, newest=newest[point.thread] is point)
        scopes = _scopes(point, policy)
        faults = [_faults(point, scope, now, tallies, held=bool(holds)) for scope in scopes]
        if holds or not all(faults):
            kept.append(Verdict(point=point, why=f"kept: {', '.join(holds) or _keeper(scopes, faults)}"))
        else:
            dropped.append(Verdict(point=point, why="; ".join(fault for each in faults for fault in each)))
    return Plan(kept=tuple(kept), dropped=tuple(dropped))


def clear(points: Iterable[Point], user: str) -> Plan:
    """Everything of a user goes, tagged and newest points too (S1.37); what a fork or a pause needs stays."""
    kept: list[Verdict] = []
    dropped: list[Verdict] = []
    for point in _newest_first(points):
        if point.user != user:
            kept.append(Verdict(point=point, why=f"kept: of {_owner(point, 'user')}"))
        elif point.held not in _LIFTED:
            kept.append(Verdict(point=point, why=f"kept: {point.held}"))
        else:
            dropped.append(Verdict(point=point, why=f"history of {_owner(point, 'user')} cleared"))
    return Plan(kept=tuple(kept), dropped=tuple(dropped))


class _Scope(NamedTuple):
    """A rule and those who follow it."""

    kind: str | None
    tag: str | None
    rule: Rule
    words: str  # "newest routine", "newest tagged 'nightly'"


_Tallies = dict[tuple[str | None, ...], tuple[int, int]]  # how many points of a group stand so far, and their bytes


def _newest_first(points: Iterable[Point]) -> list[Point]:
    """Each point once. Equal times are told apart by the entry, so that a thread keeps its order, then by id."""
    ranked = sorted(set(points), key=lambda point: (point.micros, point.entry, point.id, point.thread), reverse=True)
    seen: set[tuple[str, str]] = set()
    for point in ranked:
        # Two versions of one point could be kept and dropped at once.
        if (point.thread, point.id) in seen:
            raise InvalidInputError(f"point {point.id} of thread {point.thread_id!r} is given in two versions")
        seen.add((point.thread, point.id))
    return ranked


def _newest_of_threads(ranked: Sequence[Point]) -> dict[str, Point]:
    """By the log, not by the clock."""
    return {point.thread: point for point in sorted(ranked, key=lambda point: (point.entry, point.id))}


def _holds(point: Point, policy: Retention, *, newest: bool) -> list[str]:
    """Why this point stays whatever the rules say."""
    held = [] if point.held in (None, "tagged") else [_HELD.get(point.held, point.held)]
    tags = [tag for tag in point.tags if tag not in policy.tags or point.held == "tagged"]
    tagged = [f"tagged {', '.join(map(repr, tags))}".rstrip()] if tags or point.held == "tagged" else []
    return list(dict.fromkeys([*([_HELD["newest"]] if newest else []), *tagged, *held]))


def _scopes(point: Point, policy: Retention) -> list[_Scope]:
    """The rules this point follows: of its tags, else of its kind, else the policy's own."""
    tags = [tag for tag in dict.fromkeys(point.tags) if tag in policy.tags]
    if tags:
        return [_Scope(None, tag, policy.tags[tag], f"newest tagged {tag!r}") for tag in tags]
    if point.kind in policy.kinds:
        return [_Scope(point.kind, None, policy.kinds[point.kind], f"newest {shown(point.kind)}")]
    return [_Scope(None, None, policy, "newest of other kinds" if policy.kinds else "newest")]


def _faults(point: Point, scope: _Scope, now: int, tallies: _Tallies, *, held: bool) -> list[str]:
    """What the rule says against this point; it is counted if it stands so far."""
    ended = _ended(point, scope.rule, now)
    if ended and not held:
        return ended
    group = (scope.kind, scope.tag, *_group(point, scope.rule.per))
    count, size = tallies.get(group, (0, 0))
    tallies[group] = count + 1, size + point.size
    return [*ended, *_beyond(point, scope, count + 1, size + point.size)]


def _ended(point: Point, rule: Rule, now: int) -> list[str]:
    """The limits that look at the point alone."""
    most = rule.days
    return [
        *([f"older than {days(most)}"] if most is not None and now - point.micros > most * _DAY else []),
        *([_ENDED[rule.until]] if rule.until and point.cleared else []),
    ]


def _beyond(point: Point, scope: _Scope, rank: int, size: int) -> list[str]:
    """The limits that count: this point is the rank-th of its group, which costs `size` bytes down to it."""
    last, most = scope.rule.last, scope.rule.bytes
    if (last is None or rank <= last) and (most is None or size <= most):
        return []
    place = f"{ordinal(rank)} {scope.words} of {_owner(point, scope.rule.per)}"
    return [
        *([f"{place}, keeps {last:,}"] if last is not None and rank > last else []),
        *([f"{place}, {size:,} bytes up to it, keeps {most:,}"] if most is not None and size > most else []),
    ]


def _group(point: Point, per: Per) -> tuple[str | None, ...]:
    if per == "agent":
        return (point.thread, point.agent)
    if per == "user":
        return (point.user,)
    return (point.thread,) if per == "thread" else ()


def _owner(point: Point, per: Per) -> str:
    if per == "agent":
        return "no agent" if point.agent is None else f"agent {point.agent!r}"
    if per == "user":
        return f"user {point.user!r}" if point.user else "no user"
    return f"thread {point.thread_id!r}" if per == "thread" else "the store"


def _keeper(scopes: Sequence[_Scope], faults: Sequence[list[str]]) -> str:
    """The rule that keeps a point."""
    return next(scope.rule for scope, fault in zip(scopes, faults, strict=True) if not fault).limits() or "no limit"


_COLUMNS = ("", "point", "thread", "user", "agent", "kind", "version", "made", "bytes", "why")
_NUMBERS = frozenset({"version", "bytes"})


def _row(what: str, verdict: Verdict) -> tuple[str, ...]:
    point = verdict.point
    names = (shown(name) for name in (point.id, point.thread_id, point.user or None, point.agent, point.kind))
    made = to_datetime(point.micros).strftime("%Y-%m-%d %H:%M:%SZ")
    return (what, *names, f"{point.version:,}", made, f"{point.size:,}", verdict.why)
