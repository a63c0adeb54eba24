"""Progress of a workflow's run, read from its log; and a workflow drawn as text or as a Mermaid diagram."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from perdure.app.parts import Parts
from perdure.core.calls import TOP, decode_failure, decode_outcome, told
from perdure.core.codec import decode_known
from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import ThreadKey
from perdure.core.pauses import decode_opened
from perdure.core.runs import Current
from perdure.workflows.definition import Step, Workflow

FINISHED, FAILED, WAITING, SKIPPED, NEXT, PENDING = "finished", "failed", "waiting", "skipped", "next", "pending"
_MARKS = {FINISHED: "✓", FAILED: "✗", WAITING: "…", SKIPPED: "–", NEXT: "→", PENDING: " "}
_KINDS = (EntryKind.STEP_FINISHED, EntryKind.STEP_FAILED, EntryKind.PAUSE_OPENED)
_PAGE = 1000


class StepProgress(msgspec.Struct, frozen=True, kw_only=True):
    """How far a step came. `status` is "finished", "failed", "waiting", "skipped", "next" or "pending"."""

    status: str
    output: Any = None
    error: str = ""
    items: int | None = None  # of a foreach: how many are done


class _Log:
    """What the log of a run says of its steps."""

    def __init__(self) -> None:
        self.outputs: dict[str, Any] = {}
        self.errors: dict[str, str] = {}
        self.asked: set[str] = set()

    def read(self, thread: str, run: str, entry: Entry) -> None:
        """Take an entry in."""
        if entry.kind == EntryKind.PAUSE_OPENED:
            opened = told(thread, entry, decode_opened)
            if opened.call.run == run:
                self.asked.add(opened.name)
        elif entry.kind == EntryKind.STEP_FINISHED:
            outcome = told(thread, entry, decode_outcome)
            value = decode_known(bytes(outcome.value)) if outcome.call.parent == TOP else None
            if outcome.call.run == run and isinstance(value, Mapping) and "definition" in value:
                self.outputs[outcome.call.name] = value.get("output")
                self.errors.pop(outcome.call.name, None)
        else:
            failure = told(thread, entry, decode_failure)
            if failure.call.run == run and failure.call.parent == TOP and not failure.again:
                self.errors[failure.call.name] = f"{failure.error}: {failure.text}"


async def progress_of(parts: Parts, key: ThreadKey, workflow: Workflow) -> dict[str, StepProgress]:
    """How far each step of the newest run of a thread came; all are pending where there is none."""
    row = await parts.storage.thread(key)
    current = await parts.running.runtime.standing.newest(row) if row is not None else None
    log = _Log()
    if row is not None and current is not None:
        after = current.version
        while entries := await parts.storage.entries(key, after=after, kinds=_KINDS, limit=_PAGE):
            for entry in entries:
                log.read(key.id, current.started.run, entry)
            after = entries[-1].version
    return _judge(workflow, log, current)


def _judge(workflow: Workflow, log: _Log, current: Current | None) -> dict[str, StepProgress]:
    done = _done_before(current)
    found = {step.name: _of_step(step, log, done) for step in workflow.all_steps()}
    is_over = current is not None and current.is_over
    last = max((at for at, step in enumerate(workflow.steps) if found[step.name].status != PENDING), default=-1)
    for at, step in enumerate(workflow.steps):
        if found[step.name].status == PENDING and (at < last or is_over):
            found[step.name] = StepProgress(status=SKIPPED)
    following = next((step for step in workflow.steps if found[step.name].status == PENDING), None)
    if following is not None and not any(found[step.name].status in (WAITING, FAILED) for step in workflow.steps):
        found[following.name] = StepProgress(status=NEXT)
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
    return StepProgress(status=WAITING if _is_asked(step.name, log) else PENDING)


def _after_failure(step: Step, log: _Log, error: str) -> StepProgress:
    fallback = step.fallback
    if fallback is not None and fallback.name in log.outputs:
        return StepProgress(status=FINISHED, output=log.outputs[fallback.name], error=error)
    return StepProgress(status=FAILED, error=error)


def _of_branches(step: Step, log: _Log, done: Mapping[str, Any]) -> StepProgress:
    inner = {each.name: _of_step(each, log, done) for each in step.parallel}
    statuses = {each.status for each in inner.values()}
    status = next((each for each in (FAILED, WAITING) if each in statuses), PENDING)
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
    asked = any(_is_item(name, step.name) and name not in log.outputs for name in log.asked)
    status = WAITING if asked else FINISHED if numbers else PENDING
    return StepProgress(status=status, output=outputs if numbers else None, items=len(numbers))


def _is_item(name: str, step: str) -> bool:
    return name.startswith(f"{step}[") and name.endswith("]") and name[len(step) + 1 : -1].isdigit()


def _is_asked(name: str, log: _Log) -> bool:
    return any(asked == name or asked.startswith((f"{name} input ", f"{name} changed")) for asked in log.asked)


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
