"""Workflow and Step: a workflow file as checked, immutable values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any, Literal

import msgspec

from perdure.core.codec import encode
from perdure.workflows.templates import Condition, source_of

OnError = Literal["fail", "continue"]
OnDeny = Literal["stop", "continue"]
ChangedPolicy = Literal["ask", "keep", "rerun"]
CHANGED_POLICIES: tuple[ChangedPolicy, ...] = ("ask", "keep", "rerun")
INPUT_TYPES: Mapping[str, tuple[type, ...]] = {
    "text": (str,), "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
    "list": (list,), "mapping": (dict,), "any": (object,),
}  # fmt: skip
MAX_FOREACH_ITEMS = 10_000


class Input(msgspec.Struct, frozen=True, kw_only=True):
    """A value that whoever runs the workflow gives."""

    name: str
    type: str = "any"
    required: bool = True
    default: Any = None
    description: str = ""


class RetryRule(msgspec.Struct, frozen=True, kw_only=True):
    """How often a step is tried in all, and how long to wait between two tries."""

    times: int = 3
    delay: float = 1.0  # seconds before the second try
    backoff: float = 2.0  # each wait is this many times as long as the one before
    on: tuple[str, ...] = ()  # names of exception classes; empty for every exception


class Approval(msgspec.Struct, frozen=True, kw_only=True):
    """A question to a person."""

    ask: Any  # a text or a Template
    args: Any = None
    who: tuple[str, ...] = ()
    deadline: float | None = None  # seconds
    choices: tuple[str, ...] = ()
    on_deny: OnDeny = "stop"


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """A time that passes, or a signal that arrives. Exactly one field is set."""

    seconds: float | None = None
    until: Any = None  # an ISO time with a zone, or a Template of one
    signal: str | None = None


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One step: exactly one of `agent`, `tool`, `parallel`, `approval` and `wait` is set."""

    name: str
    line: int = 0
    column: int = 0
    agent: str | None = None
    tool: str | None = None
    parallel: tuple[Step, ...] = ()
    approval: Approval | None = None
    wait: Wait | None = None
    input: Any = msgspec.UNSET  # what the agent is given; unset: the output of the step before
    args: Any = msgspec.UNSET  # of a tool
    foreach: Any = msgspec.UNSET
    item: str = "item"
    limit: int | None = None  # how many branches or items run at the same time
    when: Condition | None = None
    retry: RetryRule | None = None
    timeout: float | None = None
    on_error: OnError = "fail"
    fallback: Step | None = None
    checkpoint: bool | None = None  # None: as the workflow says

    @property
    def kind(self) -> str:
        """What the step does: "agent", "tool", "parallel", "approval" or "wait"."""
        names = ("agent", "tool", "parallel", "approval")
        return next((name for name in names if getattr(self, name)), "wait")

    @property
    def is_foreach(self) -> bool:
        """Whether the step runs once for each item of a list."""
        return self.foreach is not msgspec.UNSET

    def steps(self) -> Iterator[Step]:
        """The step and all steps inside it."""
        yield self
        for inner in (*self.parallel, *([self.fallback] if self.fallback else [])):
            yield from inner.steps()

    @property
    def definition(self) -> str:
        """A digest of what the step does. Names, retries, timeouts and checkpoints are not part of it."""
        what = {
            "kind": self.kind, "target": self.agent or self.tool, "input": source_of(self.input),
            "args": source_of(self.args), "foreach": source_of(self.foreach),
            "approval": source_of(msgspec.structs.asdict(self.approval)) if self.approval else None,
            "wait": source_of(msgspec.structs.asdict(self.wait)) if self.wait else None,
            "parallel": [[each.name, each.definition] for each in self.parallel],
        }  # fmt: skip
        return sha256(encode(what, root="step")).hexdigest()[:16]


class Workflow(msgspec.Struct, frozen=True, kw_only=True):
    """A workflow as its file defines it."""

    name: str
    path: str
    steps: tuple[Step, ...]
    inputs: tuple[Input, ...] = ()
    output: Any = msgspec.UNSET  # unset: the output of the last step
    checkpoint: bool = False

    def all_steps(self) -> Iterator[Step]:
        """Every step of the file, those inside of others too, in the order of the file."""
        for step in self.steps:
            yield from step.steps()

    def saves_after(self, step: Step) -> bool:
        """Whether a checkpoint is saved after a step."""
        return self.checkpoint if step.checkpoint is None else step.checkpoint


def bounded_items(value: Any, step: Step) -> list[Any]:
    """The items of a foreach; raise `ValueError` for what is no list, and for too many."""
    if not isinstance(value, list | tuple):
        raise ValueError(f"foreach of step {step.name!r} needs a list, not {type(value).__name__}")
    if len(value) > MAX_FOREACH_ITEMS:
        raise ValueError(f"foreach of step {step.name!r} has {len(value)} items; at most {MAX_FOREACH_ITEMS} are run")
    return list(value)


def checked_inputs(workflow: Workflow, given: Mapping[str, Any] | None) -> dict[str, Any]:
    """The inputs of a run with defaults filled in; raise `ValueError` that names every mistake."""
    import difflib

    values, problems = dict(given or {}), list[str]()
    known = {each.name: each for each in workflow.inputs}
    for name in values.keys() - known.keys():
        near = difflib.get_close_matches(name, known, 1)
        advice = f", did you mean {near[0]!r}?" if near else f"; there are {', '.join(known)}" if known else ""
        problems.append(f"unknown input {name!r}{advice or '; the workflow has no inputs'}")
    for name, each in known.items():
        if name not in values:
            if each.required:
                problems.append(f"input {name!r} is missing ({each.type})")
            else:
                values[name] = each.default
        elif not is_of_type(values[name], each.type):
            problems.append(f"input {name!r} must be {each.type}, not {type(values[name]).__name__}")
    if problems:
        raise ValueError(f"workflow {workflow.name!r}: {'; '.join(problems)}")
    return values


def is_of_type(value: Any, type_name: str) -> bool:
    """Whether a value may be given for an input of a type."""
    kinds = INPUT_TYPES[type_name]
    return isinstance(value, kinds) and (type(value) is not bool or type_name in ("boolean", "any"))
