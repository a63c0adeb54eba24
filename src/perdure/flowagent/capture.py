"""What of an agent a checkpoint keeps, and how an agent is made of it again."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from contextlib import suppress
from datetime import datetime
from enum import Enum
from types import MemberDescriptorType
from typing import TYPE_CHECKING, Any

from perdure.core.checkpoint import Checkpoint
from perdure.core.codec import decode, encode
from perdure.core.errors import CyclicValueError, NestingTooDeepError, UnsupportedValueError
from perdure.core.message import FrozenDict, FrozenList, Message
from perdure.core.registry import taken_apart
from perdure.core.times import to_datetime
from perdure.flowagent.binding import ATTRIBUTE

if TYPE_CHECKING:
    from perdure.flowagent.agent import StandardAgent

_KEPT_BY_NAME = {
    "agent_id", "user_id", "_status", "required_fields", "collected_fields", "context_summary", "history",
    "checkpoint_manager", ATTRIBUTE,
}  # fmt: skip
_NO_TIME = to_datetime(0)
_told: set[str] = set()
_log = logging.getLogger("perdure.flowagent")


def draft_of(
    agent: StandardAgent,
    *,
    id: str = "",
    at: datetime = _NO_TIME,
    kind: str = "routine",
    parent: str | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Checkpoint:
    """A checkpoint of the agent as it is now, which shares nothing with it that can change.

    Raises `UnsupportedValueError` naming the field that cannot be kept.
    """
    cls = type(agent)
    return Checkpoint(
        id=id,
        agent_id=agent.agent_id,
        agent_type=cls.__name__,
        user_id=agent.user_id,
        status=agent.status,
        collected_fields=_copied(agent.collected_fields, "agent.collected_fields"),
        required_fields=_copied(list(agent.required_fields), "agent.required_fields"),
        context_summary=agent.context_summary,
        parent_checkpoint_id=parent,
        timestamp=at,
        metadata=_copied(dict(metadata or {}), "metadata"),
        thread_id=agent.agent_id,
        kind=kind,
        history=[each if isinstance(each, Message) else _copied(each, "agent.history") for each in agent.history],
        attributes=_attributes(agent),
        agent_class=path_of(cls),
    )


def bring_back(agent: StandardAgent, point: Checkpoint) -> None:
    """Make an agent what it was at a checkpoint; attributes that the checkpoint does not know stay."""
    held = {
        **point.attributes,
        "agent_id": point.agent_id,
        "user_id": point.user_id,
        "_status": point.status,
        "required_fields": point.required_fields,
        "collected_fields": point.collected_fields,
        "context_summary": point.context_summary,
        "history": point.history,
    }
    _put(agent, _copied(held, "checkpoint"))  # the checkpoint belongs to others too


def _put(agent: StandardAgent, held: Mapping[str, Any]) -> None:
    """Set attributes where their class keeps them: in the dict of the agent, a name that is a slot is never found."""
    slots = _slots(type(agent))
    vars(agent).update({name: value for name, value in held.items() if name not in slots})
    for name in slots.keys() & held.keys():
        slots[name].__set__(agent, held[name])


def _slots(cls: type) -> dict[str, MemberDescriptorType]:
    """The slots of a class and those it descends from, by the name they have in an agent."""
    slotted = [vars(each) for each in reversed(cls.__mro__) if "__slots__" in vars(each)]
    return {name: slot for each in slotted for name, slot in each.items() if isinstance(slot, MemberDescriptorType)}


def _held(agent: StandardAgent) -> dict[str, Any]:
    """Everything that was set on an agent."""
    found = dict(vars(agent))
    for name, slot in _slots(type(agent)).items():
        with suppress(AttributeError):  # a slot may be empty
            found[name] = slot.__get__(agent)
    return found


def path_of(cls: type) -> str:
    """The module and qualified name of a class."""
    return f"{cls.__module__}:{cls.__qualname__}"


def _attributes(agent: StandardAgent) -> dict[str, Any]:
    held = {name: value for name, value in _held(agent).items() if name not in _KEPT_BY_NAME}
    resources = {name for name, value in held.items() if _is_resource(value)}
    _tell_of(type(agent), resources)
    return {name: _copied(value, f"agent.{name}") for name, value in held.items() if name not in resources}


def _tell_of(cls: type, resources: set[str]) -> None:
    for name in sorted(resources):
        if (told := f"{path_of(cls)}.{name}") not in _told:
            _told.add(told)
            _log.info("%s.%s is no data and not saved; make it again in on_restored()", cls.__qualname__, name)


def _copied(value: Any, what: str) -> Any:
    """A copy that shares nothing with the value, and the proof that it can be stored."""
    try:
        return decode(encode(value, root=what))
    except (CyclicValueError, NestingTooDeepError):
        raise
    except UnsupportedValueError:  # often a part of a message, which is frozen: kept as the plain data it equals
        return decode(encode(_thawed(value), root=what))


def _thawed(value: Any) -> Any:
    kind = type(value)
    if kind in (dict, FrozenDict):
        return {key: _thawed(child) for key, child in value.items()}
    if kind in (list, FrozenList):
        return list(map(_thawed, value))
    return value


def _is_resource(value: Any) -> bool:
    """Whether a value is something to work with, such as a client or a lock, and not something to know.

    A collection or an object with fields is data, and refused when it cannot be kept: it would be lost without a word.
    """
    if isinstance(value, Collection | Enum) or taken_apart(value) is not None:
        return False
    try:
        encode(value)
    except UnsupportedValueError:
        return True
    return False
