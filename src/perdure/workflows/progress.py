"""Progress of a workflow's run, read from its log; and a workflow drawn as text or as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from perdure.app.parts import Parts
from perdure.core.calls import TOP, Call, Outcome, decode_failure, decode_outcome, key_digest, told
from perdure.core.codec import decode_known
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.runs import PAUSED, Current
from perdure.core.runs import WAITING as WAITING_RUN
from perdure.workflows.definition import MAX_FOREACH_ITEMS, Step, Workflow

FINISHED, FAILED, WAITING, SKIPPED, NEXT, PENDING = "finished", "failed", "waiting", "skipped", "next", "pending"
_MARKS = {FINISHED: "✓", FAILED: "✗", WAITING: "…", SKIPPED: "–", NEXT: "→", PENDING: " "}
_KINDS = (EntryKind.STEP_FINISHED, EntryKind.STEP_FAILED, EntryKind.TOOL_FINISHED, EntryKind.TOOL_FAILED)
_PAGE = 1000


class StepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a step came. `status` is "finished", "failed", "waiting", "skipped", "next" or "pending"."""

    status: str
    output: Any = None
    error: str = ""
    items: int | None = None  # of a foreach: how many are done


class _Log:
    """What the log of a run says of its steps."""

    def __init__(self, workflow: Workflow) -> None:
        self.outputs: dict[str, Any] = {}
        self.errors: dict[str, str] = {}
        tools = [step for step in workflow.all_steps() if step.tool is not None]
        self._tools = {key_digest([step.name]): step.name for step in tools}
        self._foreach = [step for step in tools if step.is_foreach]

    def read(self, thread: str, run: str, entry: Entry) -> None:
        """Take an entry in."""
        if entry.kind in (EntryKind.STEP_FINISHED, EntryKind.TOOL_FINISHED):
            outcome = told(thread, entry, decode_outcome)
            if outcome.call.run == run and outcome.call.parent == TOP:
                self._finished(outcome, is_tool=entry.kind == EntryKind.TOOL_FINISHED)
        else:
            failure = told(thread, entry, decode_failure)
            if failure.call.run == run and failure.call.parent == TOP and not failure.again:
                is_tool = entry.kind == EntryKind.TOOL_FAILED
                self.errors[self._name_of(failure.call, is_tool=is_tool)] = f"{failure.error}: {failure.text}"

    def _finished(self, outcome: Outcome, *, is_tool: bool) -> None:
        value = decode_known(bytes(outcome.value))
        record = value if isinstance(value, Mapping) and "definition" in value else {"output": value}
        name = str(record.get("step") or self._name_of(outcome.call, is_tool=is_tool))
        error = record.get("error")
        if isinstance(error, Mapping):
            self.errors[name] = f"{error.get('type')}: {error.get('message')}"
        else:
            self.outputs[name] = record.get("output")
            self.errors.pop(name, None)

    def _name_of(self, call: Call, *, is_tool: bool) -> str:
        """The step whose call it is: a tool is called by its own name, and found by the name of the step."""
        if not is_tool:
            return call.name
        if call.args in self._tools:
            return self._tools[call.args]
        for step in self._foreach:
            if step.tool == call.name:
                names = (f"{step.name}[{at}]" for at in range(MAX_FOREACH_ITEMS))
                return next((name for name in names if key_digest([name]) == call.args), call.name)
        return call.name


async def progress_of(parts: Parts, key: ThreadKey, workflow: Workflow) -> dict[str, StepProgress]:
    """How far each step of the newest run of a thread came; all are pending where there is none."""
    row = await parts.storage.thread(key)
    current = await parts.running.runtime.standing.newest(row) if row is not None else None
    log = _Log(workflow)
    if row is not None and current is not None:
        after = current.version
        while entries := await parts.storage.entries(key, after=after, kinds=_KINDS, limit=_PAGE):
            for entry in entries:
                log.read(key.id, current.started.run, entry)
            after = entries[-1].version
    return _judge(workflow, log, current, is_waiting=row is not None and row.status in (PAUSED, WAITING_RUN))


def _judge(workflow: Workflow, log: _Log, current: Current | None, *, is_waiting: bool) -> dict[str, StepProgress]:
    done = _done_before(current)
    found = {step.name: _of_step(step, log, done) for step in workflow.all_steps()}
    is_over = current is not None and current.is_over
    last = max((at for at, step in enumerate(workflow.steps) if found[step.name].status != PENDING), default=-1)
    for at, step in enumerate(workflow.steps):
        if found[step.name].status == PENDING and (at < last or is_over):
            found[step.name] = StepProgress(status=SKIPPED)
    following = next((step for step in workflow.steps if found[step.name].status == PENDING), None)
    if following is not None and not any(found[step.name].status in (NEXT, FAILED) for step in workflow.steps):
        found[following.name] = StepProgress(status=WAITING if is_waiting else NEXT)
    return found


def _done_before(current: Current | None) -> Mapping[str, Any]:
    """What an earlier run did, where this one went on from a checkpoint."""
    given = decode_known(bytes(current.started.input)) if current is not None else None
    done = given.get("done") if isinstance(given, Mapping) else None
    return done if isinstance(done, Mapping) else {}


def _of_step(step: Step, log: _Log, done: Mapping[str, Any]) -> StepProgress:
    earlier = done.get(step.name)
    if isinstance(earlier, Mapping) and step.name not in log.outputs:
        return StepProgress(status=str(earlier.get("status")), output=earlier.get("output"))
    if step.parallel:
        return _of_branches(step, log, done)
    if step.is_foreach:
        return _of_items(step, log)
    if step.name in log.outputs:
        return StepProgress(status=FINISHED, output=log.outputs[step.name])
    if step.name in log.errors:
        return _after_failure(step, log, log.errors[step.name])
    return StepProgress(status=PENDING)


def _after_failure(step: Step, log: _Log, error: str) -> StepProgress:
    fallback = step.fallback
    if fallback is not None and fallback.name in log.outputs:
        return StepProgress(status=FINISHED, output=log.outputs[fallback.name], error=error)
    return StepProgress(status=FAILED, error=error)


def _of_branches(step: Step, log: _Log, done: Mapping[str, Any]) -> StepProgress:
    inner = {each.name: _of_step(each, log, done) for each in step.parallel}
    statuses = {each.status for each in inner.values()}
    status = FAILED if FAILED in statuses else PENDING
    if statuses <= {FINISHED, SKIPPED}:
        status = FINISHED
    elif status == PENDING and FINISHED in statuses:
        status = NEXT
    return StepProgress(status=status, output={name: each.output for name, each in inner.items()})


def _of_items(step: Step, log: _Log) -> StepProgress:
    numbers = sorted(int(name[len(step.name) + 1 : -1]) for name in log.outputs if _is_item(name, step.name))
    outputs = [log.outputs[f"{step.name}[{at}]"] for at in numbers]
    failed = [error for name, error in log.errors.items() if _is_item(name, step.name)]
    if failed:
        return _after_failure(step, log, failed[0])
    return StepProgress(status=FINISHED if numbers else PENDING, output=outputs or None, items=len(numbers))


def _is_item(name: str, step: str) -> bool:
    return name.startswith(f"{step}[") and name.endswith("]") and name[len(step) + 1 : -1].isdigit()


def as_text(workflow: Workflow, progress: Mapping[str, StepProgress] | None = None) -> str:
    """A workflow as lines of text, with a mark before each step when there is a run."""
    lines = [f"workflow {workflow.name}"]
    lines += [f"  input {each.name}: {each.type}{'' if each.required else f' = {each.default!r}'}"
              for each in workflow.inputs]  # fmt: skip
    for step in workflow.steps:
        lines += _lines(step, progress, "  ")
    return "\n".join(lines)


def _lines(step: Step, progress: Mapping[str, StepProgress] | None, indent: str) -> Iterator[str]:
    found = progress.get(step.name) if progress is not None else None
    mark = f"{_MARKS.get(found.status, ' ')} " if found is not None else ""
    status = (
        f" ({found.status}{f': {found.error}' if found.error else ''})" if found and found.status != PENDING else ""
    )
    yield f"{indent}{mark}{step.name}: {_label(step)}{status}"
    for inner in step.parallel:
        yield from _lines(inner, progress, f"{indent}    ")
    if step.fallback is not None:
        yield f"{indent}    on error: {_label(step.fallback)}"


def _label(step: Step) -> str:
    what = step.agent or step.tool or ("branches at the same time" if step.parallel else "")
    if step.approval is not None:
        what = "a person approves"
    elif step.wait is not None:
        what = f"signal {step.wait.signal}" if step.wait.signal else "time"
    return f"{step.kind} {what}{' for each item' if step.is_foreach else ''}{' if …' if step.when else ''}"


def as_mermaid(workflow: Workflow, progress: Mapping[str, StepProgress] | None = None) -> str:
    """A workflow as a Mermaid flowchart; finished, failed and waiting steps have classes of their own."""
    lines = ["flowchart TD", '    begin(["start"])']
    before = ["begin"]
    numbers = {step.name: f"s{at}" for at, step in enumerate(workflow.all_steps())}
    for step in workflow.steps:
        node = numbers[step.name]
        lines.append(f"    {node}{_shape(step)}")
        lines += [f"    {each} --> {node}" for each in before]
        before = [node]
        for inner in step.parallel:
            lines += [f"    {numbers[inner.name]}{_shape(inner)}", f"    {node} --> {numbers[inner.name]}"]
        before = [numbers[inner.name] for inner in step.parallel] or before
        if step.fallback is not None:
            fallback = numbers[step.fallback.name]
            lines += [f"    {fallback}{_shape(step.fallback)}", f"    {node} -. on error .-> {fallback}"]
            before.append(fallback)
    lines += ['    done(["end"])', *(f"    {each} --> done" for each in before)]
    for name, found in (progress or {}).items():
        if name in numbers and found.status in (FINISHED, FAILED, WAITING, NEXT, SKIPPED):
            lines.append(f"    class {numbers[name]} {found.status}")
    lines += ["    classDef finished fill:#d7f5dd,stroke:#2b8a3e", "    classDef failed fill:#ffe3e3,stroke:#c92a2a",
              "    classDef waiting fill:#fff3bf,stroke:#e67700", "    classDef next fill:#d0ebff,stroke:#1971c2",
              "    classDef skipped fill:#f1f3f5,stroke:#adb5bd"]  # fmt: skip
    return "\n".join(lines)


def _shape(step: Step) -> str:
    label = f"{step.name}<br/>{_label(step)}".replace('"', "#quot;")
    return f'{{{{"{label}"}}}}' if step.approval is not None else f'["{label}"]'
