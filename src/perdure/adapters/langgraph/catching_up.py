"""What an import, or an export, still has to bring; rules only."""

from __future__ import annotations

from collections.abc import Sequence, Set

import msgspec

IMPORTED = "imported from LangGraph"  # the note of a checkpoint that did not come into being here


class Standing(msgspec.Struct, frozen=True, kw_only=True):
    """What the target has of a thread, or of a subgraph in it."""

    ids: Set[str] = frozenset()
    own: Set[str] = frozenset()  # those that came into being there
    stranger: bool = False  # whether there is something else of this name
    pruned: bool = False


class Missing(msgspec.Struct, frozen=True, kw_only=True):
    """What the target lacks of a thread, or of a subgraph in it."""

    new: tuple[str, ...]  # in rising order
    again: str | None  # the newest, where older ones that are new would otherwise stand after it
    grown: tuple[str, ...]  # those that are there; more may have been written for them since
    newest: str | None  # the one that its graph goes on after; None where it went on there


class AnotherHistory(Exception):
    """The target has a thread of this id that is not this one."""


def missing(source: Sequence[str], target: Standing) -> Missing:
    """What to bring of these checkpoints (in rising order). Raises `AnotherHistory`."""
    if target.stranger:
        raise AnotherHistory("a thread of this id is there that no graph made")
    newest = max(target.ids, default="")
    # What was pruned there must not come back.
    new = tuple(id for id in source if id not in target.ids and (not target.pruned or id > newest))
    went_on = target.own - set(source)
    if new and went_on:
        raise AnotherHistory(f"a thread of this id has another history there: {len(went_on):,} checkpoints of its own")
    there = tuple(id for id in source if id in target.ids)
    if went_on:
        return Missing(new=(), again=None, grown=(), newest=None)
    return Missing(new=new, again=_again(new, there), grown=there, newest=source[-1] if source else None)


def _again(new: Sequence[str], there: Sequence[str]) -> str | None:
    """Ids rise only within one process: one that is new may come before what was brought already."""
    return there[-1] if new and there and new[-1] < there[-1] else None
