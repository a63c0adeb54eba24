"""Running the steps of a workflow: each is a journaled step, so a run that is resumed does only what is missing."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec

from perdure.core.calls import reason
from perdure.core.errors import (
    InvalidInputError,
    RunError,
    StepDeniedError,
    StepFailedError,
    StorageError,
    ToolDeniedError,
    UnsupportedValueError,
)
from perdure.core.times import to_micros
from perdure.runtime.options import Retry
from perdure.runtime.run import Run
from perdure.runtime.unwinding import Unwinding, sorted_out
from perdure.runtime.work import in_thread, is_async
from perdure.workflows.definition import ChangedPolicy, Step, Workflow, bounded_items
from perdure.workflows.participants import Participants
from perdure.workflows.templates import TemplateError, fill, holds

FINISHED, SKIPPED, FAILED = "finished", "skipped", "failed"
RUNNING = "RUNNING"  # the status of checkpoints, as agents write it
_SECOND = 1_000_000
_RECOVERABLE = (StepFailedError, StepDeniedError, ToolDeniedError)  # of the errors of runs: a fallback may follow


class StepRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What came of a step."""

    status: str
    output: Any = None
    definition: str = ""  # a digest of what the step was when it ran
    error: dict[str, str] | None = None


AfterStep = Callable[[Step, Mapping[str, StepRecord], int], Awaitable[None]]


class WorkflowRun:
    """One run of a workflow."""

    def __init__(
        self,
        run: Run,
        workflow: Workflow,
        participants: Participants,
        *,
        inputs: Mapping[str, Any],
        done: Mapping[str, StepRecord],
        changed: ChangedPolicy,
        after_checkpoint: AfterStep,
    ) -> None:
        self._run = run
        self._workflow = workflow
        self._participants = participants
        self._inputs = inputs
        self._done = done  # by an earlier run, as a checkpoint has it
        self._changed = changed
        self._after_checkpoint = after_checkpoint
        self._records: dict[str, StepRecord] = {}
        self._last: Any = msgspec.UNSET  # the output of the step before
        self._rerun: set[str] = set()  # steps that ran again because they changed
        self._saving = asyncio.Lock()  # a save builds on the one before

    async def run(self) -> Any:
        """Run what is missing, and return the output of the workflow."""
        self._run.scope.free = True  # what runs next depends on recorded outputs and on the file
        for step in self._workflow.steps:
            record = await self._step(step, {})
            if record.status != SKIPPED:
                self._last = record.output
        if self._workflow.output is msgspec.UNSET:
            return None if self._last is msgspec.UNSET else self._last
        return self._filled(self._workflow.output, self._data({}), "output")

    def _data(self, extra: Mapping[str, Any]) -> dict[str, Any]:
        """What paths lead into."""
        steps = {name: {"output": each.output, "status": each.status, "error": each.error}
                 for name, each in self._records.items()}  # fmt: skip
        about = {"name": self._workflow.name, "thread": self._run.journal.key.id, "run": self._run.id}
        return {"inputs": self._inputs, "steps": steps, "workflow": about, **extra}

    async def _step(self, step: Step, extra: Mapping[str, Any], *, nested: bool = False) -> StepRecord:
        record = await self._record(step, extra)
        self._records[step.name] = record
        is_new = record is not self._done.get(step.name)
        if is_new and self._workflow.saves_after(step) and record.status != SKIPPED:
            await self._save(step, nested=nested)
        return record

    async def _record(self, step: Step, extra: Mapping[str, Any]) -> StepRecord:
        done = self._done.get(step.name)
        if done is not None and not await self._reruns(step, step.name, done.definition):
            return done
        data = self._data(extra)
        try:
            if step.when is not None and not holds(step.when, data):
                return StepRecord(status=SKIPPED, definition=step.definition)
            output = await self._output(step, data)
        except Exception as exc:
            return await self._failed(step, exc, extra)
        return StepRecord(status=FINISHED, output=output, definition=step.definition)

    async def _failed(self, step: Step, exc: Exception, extra: Mapping[str, Any]) -> StepRecord:
        """What follows a failure: a fallback, the next step, or the end of the run."""
        if self._is_fatal(exc) or (step.fallback is None and step.on_error == "fail"):
            exc.add_note(f"in step {step.name!r} of workflow {self._workflow.name!r} "
                         f"({self._workflow.path}:{step.line}:{step.column})")  # fmt: skip
            raise exc
        error = _error_of(exc)
        if step.fallback is None:
            return StepRecord(status=FAILED, definition=step.definition, error=error)
        record = await self._step(step.fallback, {**extra, "error": error}, nested=True)
        return StepRecord(status=record.status, output=record.output, definition=step.definition, error=error)

    def _is_fatal(self, exc: Exception) -> bool:
        """Whether the run cannot go on, whatever the file says."""
        if self._run.journal.held.lost is not None or isinstance(exc, (StorageError, UnsupportedValueError)):
            return True
        return isinstance(exc, RunError) and not isinstance(exc, _RECOVERABLE)

    async def _output(self, step: Step, data: dict[str, Any]) -> Any:
        if not step.is_foreach:
            return await self._one(step, step.name, data)
        try:
            items = bounded_items(self._filled(step.foreach, data, f"foreach of step {step.name!r}"), step)
        except ValueError as exc:
            raise InvalidInputError(str(exc)) from exc
        jobs = [self._item(step, at, item, data) for at, item in enumerate(items)]
        return await _together(jobs, step.limit)

    def _item(self, step: Step, at: int, item: Any, data: dict[str, Any]) -> Callable[[], Awaitable[Any]]:
        return lambda: self._one(step, f"{step.name}[{at}]", {**data, step.item: item, "index": at})

    async def _one(self, step: Step, name: str, data: dict[str, Any]) -> Any:
        """The output of a step, or of a step for one item."""
        if step.parallel:
            return await self._branches(step, data)
        if step.approval is not None:
            return await self._approval(step, name, data)
        if step.wait is not None:
            return await self._wait(step, name, data)
        return await self._work(step, name, data)

    async def _branches(self, step: Step, data: dict[str, Any]) -> dict[str, Any]:
        extra = {key: value for key, value in data.items() if key not in ("inputs", "steps", "workflow")}
        records = await _together([self._branch(each, extra) for each in step.parallel], step.limit)
        return {each.name: record.output for each, record in zip(step.parallel, records, strict=True)}

    def _branch(self, step: Step, extra: Mapping[str, Any]) -> Callable[[], Awaitable[StepRecord]]:
        return lambda: self._step(step, extra, nested=True)

    async def _work(self, step: Step, name: str, data: dict[str, Any]) -> Any:
        """Ask an agent or call a tool."""
        given = self._given(step, name, data)
        if step.tool is None:
            return await self._journaled(step, name, self._asked(step, name, given))
        args = given if isinstance(given, dict) else {}
        return await self._called(step, name, self._participants.tool(step.tool), args)

    def _asked(self, step: Step, name: str, given: Any) -> Callable[[], Awaitable[Any]]:
        async def ask() -> Any:
            return await self._participants.ask(self._run, step, given, name)

        return ask

    def _given(self, step: Step, name: str, data: dict[str, Any]) -> Any:
        value = step.args if step.tool is not None else step.input
        if value is not msgspec.UNSET:
            return self._filled(value, data, f"step {name!r}")
        if step.tool is not None:
            return {}
        if step.is_foreach:
            return data[step.item]
        return self._inputs if self._last is msgspec.UNSET else self._last

    async def _journaled(self, step: Step, name: str, call: Callable[[], Any]) -> Any:
        """The output of a call, now or earlier, recorded with a digest of the step that made it."""

        async def once(key: list[str]) -> Any:
            bound = self._run.options(key=key, retry=_retry_of(step))
            return await bound.step(name, _Attempted(step, name, call).call)

        return await self._recorded(step, name, once)

    async def _called(self, step: Step, name: str, function: Callable[..., Any], args: Mapping[str, Any]) -> Any:
        """The same of a tool, whose intent is recorded before it runs."""

        async def once(key: list[str]) -> Any:
            attempted = _Attempted(step, name, function).call
            functools.update_wrapper(attempted, function)  # its signature and its options are those of the tool
            bound = self._run.options(key=key, retry=_retry_of(step))
            return await bound.tool(step.tool or "", attempted, **args)

        return await self._recorded(step, name, once)

    async def _recorded(self, step: Step, name: str, once: Callable[[list[str]], Awaitable[Any]]) -> Any:
        record = _record_of(await once([name]), step)
        if await self._reruns(step, name, record["definition"]):
            record = _record_of(await once([name, step.definition]), step)
        if "error" in record:
            raise StepFailedError(name, record["error"]["type"], record["error"]["message"])
        return record["output"]

    async def _reruns(self, step: Step, name: str, definition: str) -> bool:
        """Whether a step that was done under a definition runs again; a person is asked where nobody said so."""
        if definition == step.definition or not definition:
            return False
        if self._changed == "ask" and name not in self._rerun:
            ask = f"Step {name} is defined differently than when it ran. Approve: run it again; deny: keep its result"
            decision = await self._run.pause(f"{name} changed", ask=ask, args={"step": name})
            if not decision:
                return False
            self._rerun.add(name)
        return self._changed != "keep"

    async def _approval(self, step: Step, name: str, data: dict[str, Any]) -> Any:
        approval = step.approval
        assert approval is not None  # noqa: S101  # for the type checker: `kind` says so
        filled = self._filled({"ask": approval.ask, "args": approval.args}, data, f"step {name!r}")
        decision = await self._run.pause(
            name, ask=str(filled["ask"]), args=filled["args"], expects=list(approval.choices) or None,
            who=approval.who or None, deadline=approval.deadline,
        )  # fmt: skip
        if not decision and approval.on_deny == "stop":
            raise StepDeniedError(name, decision.by, decision.answer)
        at = decision.at.isoformat() if decision.at else None
        output = {"approved": decision.approved, "by": decision.by, "answer": decision.answer, "args": decision.args,
                  "at": at}  # fmt: skip
        return await self._journaled(step, name, _returning(output))

    async def _wait(self, step: Step, name: str, data: dict[str, Any]) -> Any:
        wait = step.wait
        assert wait is not None  # noqa: S101  # for the type checker: `kind` says so
        value = None
        if wait.signal is not None:
            value = await self._run.signal(wait.signal)
        elif wait.seconds is not None:
            await self._run.sleep(wait.seconds)
        else:
            moment = _moment(self._filled(wait.until, data, f"step {name!r}"), name)
            now = await self._run.now()
            await self._run.sleep(max(0.0, (moment - to_micros(now)) / _SECOND))
        return await self._journaled(step, name, _returning(value))

    def _filled(self, value: Any, data: Mapping[str, Any], what: str) -> Any:
        try:
            return fill(value, data)
        except TemplateError as exc:
            raise InvalidInputError(f"workflow {self._workflow.name!r}, {what}: {exc}") from exc

    async def _save(self, step: Step, *, nested: bool) -> None:
        """Save a checkpoint of what is done so far."""
        async with self._saving:
            await self._save_alone(step, nested=nested)

    async def _save_alone(self, step: Step, *, nested: bool) -> None:
        state = state_of(self._workflow, self._inputs, self._records, step)
        total = len(self._workflow.steps)
        finished = sum(1 for each in self._workflow.steps if each.name in self._records)
        metadata = {"workflow": self._workflow.name, "step": step.name, "done": finished, "of": total}

        async def save() -> int:
            self._run.scope.free = True
            return await self._run.save(state, kind="routine", status=RUNNING, note=step.name, metadata=metadata)

        if nested:  # branches end in any order: what the first attempt saved must be found whatever its state was
            version = await self._run.options(key=[step.name]).step(f"checkpoint {step.name}", save)
        else:
            version = await save()
        await self._after_checkpoint(step, dict(self._records), version)


def state_of(
    workflow: Workflow, inputs: Mapping[str, Any], records: Mapping[str, StepRecord], step: Step
) -> dict[str, Any]:
    """The state of a workflow's thread at a checkpoint: the shape that agents have, so that the same tools read it."""
    about = {name: {"status": each.status, "definition": each.definition, "error": each.error}
             for name, each in records.items()}  # fmt: skip
    return {
        "agent_type": "Workflow",
        "agent_class": None,
        "status": RUNNING,
        "collected_fields": {name: each.output for name, each in records.items()},
        "required_fields": [],
        "context_summary": f"workflow {workflow.name}: step {step.name} is done",
        "attributes": {"workflow": workflow.name, "inputs": dict(inputs), "steps": about},
        "messages": [],
    }


def records_of(state: Any) -> tuple[str, dict[str, Any], dict[str, StepRecord]]:
    """The workflow's name, its inputs and what was done, from a state; raise `InvalidInputError` for another state."""
    try:
        attributes, outputs = state["attributes"], state["collected_fields"]
        records = {
            name: StepRecord(
                status=each["status"], output=outputs.get(name), definition=each["definition"], error=each["error"]
            )
            for name, each in attributes["steps"].items()
        }
        return str(attributes["workflow"]), dict(attributes["inputs"]), records
    except (TypeError, KeyError, AttributeError) as exc:
        raise InvalidInputError("the checkpoint is none of a workflow") from exc


def _returning(value: Any) -> Callable[[], Awaitable[Any]]:
    async def call() -> Any:
        return value

    return call


class _Attempted:
    """Calls the function of a step. What it returns is recorded with the step's name and definition.

    Where the file says what follows a failure, the failure is recorded as the outcome of the step: an exception would
    not be final until something after it is recorded, and a process that dies in between would call the step again.
    """

    def __init__(self, step: Step, name: str, function: Callable[..., Any]) -> None:
        self._step = step
        self._about = {"step": name, "definition": step.definition}
        self._function = function
        self._tries = 0

        async def call(*args: Any, **named: Any) -> dict[str, Any]:
            return await self._call(*args, **named)

        self.call = call

    async def _call(self, *args: Any, **named: Any) -> dict[str, Any]:
        self._tries += 1
        try:
            async with asyncio.timeout(self._step.timeout):
                output = await self._output(*args, **named)
        except Exception as exc:
            if not self._is_last(exc):
                raise
            return {"error": _error_of(exc), **self._about}
        return {"output": output, **self._about}

    async def _output(self, *args: Any, **named: Any) -> Any:
        if is_async(self._function):
            return await self._function(*args, **named)
        # A plain function would hold up the event loop, and with it the lease of the run.
        value = await in_thread(lambda: self._function(*args, **named))
        return await value if inspect.isawaitable(value) else value

    def _is_last(self, exc: Exception) -> bool:
        """Whether a failure is final, and handled by the file."""
        step, retry = self._step, _retry_of(self._step)
        is_handled = step.fallback is not None or step.on_error == "continue"
        is_ours = isinstance(exc, StorageError | RunError) and not isinstance(exc, _RECOVERABLE)
        return is_handled and not is_ours and (self._tries >= retry.attempts or not retry.applies_to(exc))


def _record_of(value: Any, step: Step) -> dict[str, Any]:
    """What was recorded of a step; a person who answers for a tool that may have run gives its output alone."""
    if isinstance(value, dict) and {"step", "definition"} <= value.keys() and len(value) == 3:
        return value
    return {"output": value, "definition": step.definition}


def _retry_of(step: Step) -> Retry:
    rule = step.retry
    if rule is None:
        return Retry(attempts=1)
    return Retry(attempts=rule.times, wait=rule.delay, backoff=rule.backoff, on=rule.on or (Exception,))


def _moment(text: Any, name: str) -> int:
    try:
        moment = text if isinstance(text, datetime) else datetime.fromisoformat(str(text))
    except ValueError as exc:
        raise InvalidInputError(f"step {name!r} waits until {text!r}; write a time such as 2026-11-01T12:00Z") from exc
    if moment.tzinfo is None:
        raise InvalidInputError(f"step {name!r} waits until {text!r}, which has no time zone; add one, such as Z")
    return to_micros(moment)


def _error_of(exc: Exception) -> dict[str, str]:
    if isinstance(exc, StepFailedError):
        return {"type": exc.error, "message": exc.text}
    return {"type": type(exc).__name__, "message": reason(exc)}


async def _together(jobs: Sequence[Callable[[], Awaitable[Any]]], limit: int | None) -> list[Any]:
    """Run jobs at the same time, at most `limit`. What has begun comes to its end also when one fails or waits."""
    gate, failed = asyncio.Semaphore(limit or max(len(jobs), 1)), list[BaseException]()

    async def ended(job: Callable[[], Awaitable[Any]]) -> Any:
        async with gate:
            if failed:
                return None  # nothing new begins after a failure
            try:
                return await job()
            except (Exception, Unwinding) as exc:
                if not isinstance(exc, Unwinding):
                    failed.append(exc)
                return _Raised(exc)

    results = await asyncio.gather(*(ended(job) for job in jobs))
    raised = [each.error for each in results if isinstance(each, _Raised)]
    errors = [each for each in raised if not isinstance(each, Unwinding)]
    if errors:
        # What ends the run goes first: a lost lease must not be taken for the failure of a step.
        raise next((each for each in errors if isinstance(each, StorageError | RunError)), errors[0])
    if raised:
        raise sorted_out(BaseExceptionGroup("waiting", raised))
    return results


class _Raised:
    """An exception that a job ended with."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
