"""The working memory of an agent, and how it lies in a thread."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import msgspec

from perdure.app.handle import LastRead, Sight
from perdure.core.errors import InvalidInputError, UnsupportedValueError
from perdure.core.identity import ThreadKey
from perdure.core.message import Message

_OWN = ("context", "context_summary", "execution_meta")
_CLASS = "class"
_SEEN = "_perdure_seen"  # the last threads it was loaded from or saved to, and what was seen of each
_THREADS = 15
_READ = "_perdure_read"  # where it came from when it was loaded


class ExecutionState(msgspec.Struct, kw_only=True):
    """Where a run of the agent stands."""

    current_node: str = "START"
    step: int = 0
    status: str = "running"
    interrupted_node: str | None = None
    interrupt_reason: str | None = None
    interrupt_data: dict[str, Any] | None = None
    internal_data: dict[str, Any] = {}

    def advance_step(self) -> None:
        """Count one step more."""
        self.step += 1

    def is_running(self) -> bool:
        """Whether it is neither interrupted nor at its end."""
        return self.status == "running"

    def is_interrupted(self) -> bool:
        """Whether it waits at a node."""
        return self.interrupted_node is not None


class AgentState(msgspec.Struct, kw_only=True, dict=True):
    """What an agent thinks with. Subclass it, and declare fields of your own.

    A loaded state remembers the version it was: saving it again is refused with `VersionConflictError` when somebody
    else saved meanwhile.
    """

    context: list[Message] = []
    context_summary: str | None = ""
    execution_meta: ExecutionState = msgspec.field(default_factory=ExecutionState)

    @property
    def summary(self) -> str | None:
        """The summary of what is no longer in the context."""
        return self.context_summary

    @property
    def last_read(self) -> LastRead | None:
        """Whether Redis or the storage vouched for this state when it was loaded, and its age; None for a new one."""
        return vars(self).get(_READ)

    # A copy is as old as what it was made of: one that forgot its version would overwrite what nobody has seen.
    def __copy__(self) -> Self:
        made = msgspec.structs.replace(self)
        vars(made).update(vars(self))
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        make, arguments, *_ = super().__reduce__()
        return make, arguments, dict(vars(self))

    @classmethod
    def upcast(cls, fields: dict[str, Any]) -> dict[str, Any]:
        """Turn stored fields of its own, of an older form of this class, into those of today; override it for that."""
        return fields


def seen_of(state: AgentState, key: ThreadKey) -> Sight | None:
    """What was seen of this thread when the state was loaded; None for a fresh state, or one of another thread."""
    return vars(state).get(_SEEN, {}).get(key)


def mark_seen(state: AgentState, key: ThreadKey, sight: Sight | None) -> None:
    """Let a state remember the version it is. One that is saved to a branch too is still known by its own thread."""
    known: dict[ThreadKey, Sight] = vars(state).get(_SEEN, {})
    if sight is not None:
        others = [(each, seen) for each, seen in known.items() if each != key][-_THREADS:]
        vars(state)[_SEEN] = {**dict(others), key: sight}


def mark_read(state: AgentState, read: LastRead | None) -> None:
    """Let a state remember where it came from."""
    vars(state)[_READ] = read


def stored(state: AgentState) -> dict[str, Any]:
    """A state as a thread keeps it: its fields, and the name of its class, which can be the name of no field."""
    _check(state)
    fields = {name: getattr(state, name) for name in state.__struct_fields__}
    return {_CLASS: type(state).__name__, **fields, "execution_meta": msgspec.structs.asdict(state.execution_meta)}


def _check(state: AgentState) -> None:
    if not isinstance(state, AgentState):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"a state must be an AgentState, not {type(state).__name__}")
    for name in vars(state).keys() - {_SEEN, _READ}:
        raise UnsupportedValueError(
            f"state.{name}", f"is no field of {type(state).__name__}", "declare it in the class"
        )
    if type(state.context) is not list:
        raise InvalidInputError(f"state.context must be a list of messages, not {type(state.context).__name__}")
    if not isinstance(state.execution_meta, ExecutionState):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"state.execution_meta must be an ExecutionState, not {state.execution_meta!r}")


def is_state(kept: Any) -> bool:
    """Whether a thread's state is an agent's."""
    return isinstance(kept, dict) and _CLASS in kept and all(name in kept for name in _OWN)


def built(kept: Mapping[str, Any], thread_id: str) -> AgentState:
    """The state that a thread keeps, of the class it was saved as."""
    cls = _class_of(kept[_CLASS], thread_id)
    known = {name: kept[name] for name in ("context", "context_summary")}
    meta = ExecutionState(**_known(ExecutionState, kept["execution_meta"]))
    fields = cls.upcast({name: value for name, value in kept.items() if name not in (_CLASS, *_OWN)})
    _check_fields(cls, fields, thread_id)
    return cls(**known, execution_meta=meta, **fields)


def _check_fields(cls: type[AgentState], fields: Mapping[str, Any], thread_id: str) -> None:
    """Raise `InvalidInputError` where a class is not what it was when the state was saved."""
    own = {each.name: each.required for each in msgspec.structs.fields(cls) if each.name not in _OWN}
    gone = fields.keys() - own.keys()
    new = {name for name, required in own.items() if required} - fields.keys()
    for names, why in ((gone, "has a field {} that {} no longer has"), (new, "lacks the field {} that {} needs")):
        for name in sorted(names):
            told = why.format(repr(name), cls.__name__)
            raise InvalidInputError(
                f"the state of thread {thread_id!r} {told}; say in {cls.__name__}.upcast(fields) what becomes of it"
            )


def _known(cls: type[msgspec.Struct], fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: fields[name] for name in cls.__struct_fields__ if name in fields}


def _class_of(name: str, thread_id: str) -> type[AgentState]:
    """The class of a name; of several the one that was defined last."""
    found = [cls for cls in _classes(AgentState) if cls.__name__ == name]
    if not found:
        raise InvalidInputError(
            f"the state of thread {thread_id!r} was saved as {name!r}: import the module that defines this subclass of "
            "AgentState before loading it"
        )
    return found[-1]


def _classes(cls: type[AgentState]) -> Iterator[type[AgentState]]:
    yield cls
    for each in cls.__subclasses__():
        yield from _classes(each)
