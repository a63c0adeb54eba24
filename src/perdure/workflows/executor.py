"""WorkflowExecutor: runs workflow files on a store, and resumes them from the log or from a checkpoint."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.app.running import handle_of, key_in
from perdure.app.store import Perdure, namespace_of, parts_of
from perdure.app.thread import Thread
from perdure.core.checkpoint import Checkpoint, CheckpointQuery, CheckpointRow
from perdure.core.errors import InvalidInputError, NotFoundError, UnfinishedRunError
from perdure.core.identity import ThreadKey, check_id, check_user
from perdure.core.ids import IdMaker
from perdure.core.runs import CANCELLED, FINISHED, PAUSED, RUNNING
from perdure.core.threads import ThreadPatch
from perdure.core.times import to_datetime
from perdure.runtime.decisions import Pause
from perdure.runtime.executing import RETRIES
from perdure.runtime.infos import RunInfo
from perdure.runtime.opening import Wanted
from perdure.runtime.run import Run
from perdure.workflows.definition import CHANGED_POLICIES, ChangedPolicy, Step, Workflow, checked_inputs
from perdure.workflows.file import as_workflow
from perdure.workflows.participants import Participants
from perdure.workflows.progress import StepProgress, progress_of
from perdure.workflows.steps import StepRecord, WorkflowRun, records_of, state_of

if TYPE_CHECKING:
    from perdure.app.users import UserArg
    from perdure.checkpoints.travel import Rewinding

_KEPT = "perdure.workflow"  # in the metadata of a checkpoint in a storage of the caller's own
# A step has its own retries: a failure ends the run until somebody resumes it. Deaths of the process are tried again.
_RETRY = msgspec.structs.replace(RETRIES, attempts=20, on=())


class WorkflowResult(msgspec.Struct, frozen=True, kw_only=True):
    """How far a run of a workflow came. True when it finished; `result["plan"]` is the output of a step."""

    status: str  # "finished", "input_required", "waiting" …
    output: Any
    steps: dict[str, StepProgress]
    pauses: list[Pause]  # the questions that it waits for
    thread: str
    run: RunInfo
    checkpoint_id: str | None = None  # the newest one

    def __bool__(self) -> bool:
        return self.status == FINISHED

    def __getitem__(self, step: str) -> Any:
        if step not in self.steps:
            raise KeyError(f"no step {step!r}; there are {', '.join(self.steps)}")
        return self.steps[step].output


class WorkflowPreview(msgspec.Struct, frozen=True, kw_only=True):
    """What running from a checkpoint would do."""

    checkpoint_id: str
    thread: str
    done: list[str]  # steps whose results are used again
    missing: list[str]  # steps that would run
    left_behind: Rewinding | None = None  # what the thread did after the checkpoint; tools stay done


class WorkflowExecutor:
    """Runs workflows with the agents and tools that you pass by name.

    The runs are kept in `store`, or in the storage of the `checkpoint_manager`; without both they are kept in memory
    and end with the process. `changed` says what happens when a step was done under another definition than the file
    has now: "ask" a person, "keep" its result, or "rerun" it. Names such as `module:Class` in a file are imported only
    with `trust_imports=True`.
    """

    def __init__(
        self,
        agents: Mapping[str, Any] | Iterable[Any] = (),
        *,
        tools: Mapping[str, Callable[..., Any]] | Iterable[Callable[..., Any]] = (),
        checkpoint_manager: Any = None,
        store: Perdure | None = None,
        changed: ChangedPolicy = "ask",
        trust_imports: bool = False,
    ) -> None:
        if changed not in CHANGED_POLICIES:
            raise InvalidInputError(f"changed must be one of {', '.join(CHANGED_POLICIES)}, not {changed!r}")
        if store is not None and not isinstance(store, Perdure):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InvalidInputError(f"store must be a perdure.Perdure, not {store!r}")
        self.checkpoint_manager = checkpoint_manager
        self._participants = Participants(
            agents, tools, checkpoint_manager=checkpoint_manager, trust_imports=trust_imports
        )
        self._changed: ChangedPolicy = changed
        kept: Perdure | None = store or getattr(getattr(checkpoint_manager, "storage", None), "store", None)
        self._has_custom_storage = checkpoint_manager is not None and kept is None
        self._store = kept or Perdure.open("memory://")
        self._ids = IdMaker(SystemClock(), SystemRandomness())
        self._announced: set[str] = set()

    @property
    def store(self) -> Perdure:
        """The store that the runs are kept in."""
        return self._store

    async def run(
        self,
        workflow: str | os.PathLike[str] | Workflow,
        inputs: Mapping[str, Any] | None = None,
        *,
        checkpoint_id: str | None = None,
        thread: Thread | str | None = None,
        user: UserArg = None,
        key: str | None = None,
        dry_run: bool = False,
    ) -> Any:
        """Run a workflow here, and return a `WorkflowResult`: how far it came.

        With a `thread`, an unfinished run of it goes on; without one, the run gets a thread of its own. The same `key`
        is the same run. With a `checkpoint_id` the workflow goes on from there: what is done at the checkpoint is used
        again, and what the thread did later is left behind; `dry_run=True` returns a `WorkflowPreview` of that instead.
        The exception of a step that fails is raised, and the run can be resumed.

        Raises `InvalidConfigError` for a file with mistakes, `InvalidInputError` for wrong inputs, `NotFoundError` for
        a checkpoint that is not there, and `UnfinishedRunError` when the thread has another run.
        """
        definition = as_workflow(workflow)
        name = self.register(definition)
        if checkpoint_id is not None:
            if thread is not None or key is not None:
                raise InvalidInputError("a checkpoint says which thread goes on: leave `thread` and `key` out")
            return await self._from_checkpoint(definition, checkpoint_id, inputs, user, dry_run=dry_run)
        if dry_run:
            raise InvalidInputError("dry_run=True shows what running from a checkpoint does: name a checkpoint_id")
        given = {"inputs": self._checked(definition, inputs)}
        where = thread if thread is not None else f"{definition.name}-{self._ids.sortable()}"
        return await self._bring_on(definition, name, where, user, given, key)

    def register(self, workflow: str | os.PathLike[str] | Workflow) -> str:
        """Make a workflow known to the store, so that `recover()`, a worker or `store.start` runs it; return its name.

        `await store.start(name, {"inputs": {…}}, thread=…)` queues a run.
        """
        definition = as_workflow(workflow)
        self._participants.check(definition)
        name = f"workflow {definition.name}"
        handlers = parts_of(self._store).running.handlers
        handlers.add(name, lambda run: self._handle(definition, run), _RETRY, replace=True)
        return name

    async def progress(
        self, workflow: str | os.PathLike[str] | Workflow, thread: Thread | str, *, user: UserArg = None
    ) -> dict[str, StepProgress]:
        """How far each step of the newest run of a thread came."""
        key = await key_in(self._store, thread, user)
        return await progress_of(parts_of(self._store), key, as_workflow(workflow))

    async def close(self) -> None:
        """Close the store if it is the executor's own, in memory; others are closed by whoever opened them."""
        if self._has_custom_storage or self.checkpoint_manager is None:
            await self._store.close()

    async def _handle(self, workflow: Workflow, run: Run) -> Any:
        given = run.input if isinstance(run.input, dict) else {}
        done = msgspec.convert(given.get("done") or {}, dict[str, StepRecord])

        async def after_checkpoint(step: Step, records: Mapping[str, StepRecord], version: int) -> None:
            await self._after_checkpoint(workflow, run, step, records, version)

        inputs = self._checked(workflow, given.get("inputs"))
        work = WorkflowRun(
            run, workflow, self._participants, inputs=inputs, done=done, changed=self._changed,
            after_checkpoint=after_checkpoint,
        )  # fmt: skip
        return await work.run()

    def _checked(self, workflow: Workflow, inputs: Any) -> dict[str, Any]:
        if inputs is not None and not isinstance(inputs, Mapping):
            raise InvalidInputError(f"inputs must be a mapping of names to values, not {inputs!r}")
        try:
            return checked_inputs(workflow, inputs)
        except ValueError as exc:
            raise InvalidInputError(str(exc)) from exc

    async def _bring_on(
        self, workflow: Workflow, name: str, thread: Thread | str, user: UserArg, given: dict[str, Any],
        key: str | None,
    ) -> WorkflowResult:  # fmt: skip
        running = parts_of(self._store).running
        where = await key_in(self._store, thread, user)
        handle_of(self._store, thread, user)  # refuses a handle of another store
        ask = Wanted(
            name=name, input=running.encoded(given), key=None if key is None else check_id(key, "the key"),
            patch=ThreadPatch(agent=name),
        )  # fmt: skip
        run = await running.executor.run(where, ask, running.runtime.leases.ttl)
        return await self._result(workflow, where, run.id)

    async def _result(self, workflow: Workflow, key: ThreadKey, run: str) -> WorkflowResult:
        parts = parts_of(self._store)
        info = await parts.running.info(key, parts.users.shown, run)
        row = await parts.storage.thread(key)
        pauses = [] if row is None or info.status != PAUSED else await parts.running.answers.of(row, key.user)
        newest = await parts.storage.checkpoints(key, CheckpointQuery(limit=1))
        await self._keep_limits(newest[0].public(key.user) if newest else None)
        return WorkflowResult(
            status=info.status, output=info.result if info.status == FINISHED else None, pauses=pauses, thread=key.id,
            steps=await progress_of(parts, key, workflow), run=info,
            checkpoint_id=newest[0].mark.id if newest else None,
        )  # fmt: skip

    async def _keep_limits(self, newest: Checkpoint | None) -> None:
        limits = getattr(getattr(self.checkpoint_manager, "storage", None), "keep_limits", None)
        if limits is not None and newest is not None:
            await limits(newest)

    async def _from_checkpoint(
        self, workflow: Workflow, checkpoint_id: str, inputs: Mapping[str, Any] | None, user: UserArg, *, dry_run: bool
    ) -> Any:  # fmt: skip
        if self._has_custom_storage:
            return await self._from_custom(workflow, checkpoint_id, inputs, user, dry_run=dry_run)
        parts = parts_of(self._store)
        row = await self._row(check_id(checkpoint_id, "the checkpoint id"), user)
        at = f"@{row.mark.id}"
        thread = self._store.thread(row.thread_id, user=parts.users.shown(row.user) or None)
        given, done = self._at_checkpoint(workflow, await thread.load(at), inputs)
        key = ThreadKey(namespace_of(self._store), row.user, row.thread_id)
        state_version = (await parts.engine.head(key)).version
        is_newest = row.version >= state_version
        if dry_run:
            left = None if is_newest else await thread.rewind(at, dry_run=True)
            return _preview(workflow, checkpoint_id, row.thread_id, done, left)
        name = self.register(workflow)
        info = await parts.running.info(key, parts.users.shown)
        is_over = info.status in (FINISHED, CANCELLED)
        if is_newest and not is_over and info.agent == name and _inputs_of(info) == given["inputs"]:
            resumed = await self._store.resume(thread)
            return await self._result(workflow, key, resumed.id)
        if not is_over:
            if info.status == RUNNING:
                raise UnfinishedRunError(key.id, info.id, info.status)
            await self._store.cancel(thread, reason=f"went on from checkpoint {checkpoint_id}")
        if not is_newest:
            await thread.rewind(at, note=f"workflow {workflow.name} goes on from here")
        return await self._bring_on(workflow, name, thread, None, given, None)

    async def _row(self, checkpoint_id: str, user: UserArg) -> CheckpointRow:
        """Where a checkpoint is kept; raise `NotFoundError`.

        Without a user it is nobody's; with a checkpoint manager it is anybody's, as `restore` has it.
        """
        parts = parts_of(self._store)
        await parts.ready()
        owner = None if user is None else parts.users.key(user)
        find = getattr(getattr(self.checkpoint_manager, "storage", None), "row", None)
        if find is not None:
            row = await find(checkpoint_id, owner)
        else:
            row = await parts.storage.checkpoint(namespace_of(self._store), owner or "", checkpoint_id)
        if row is None:
            raise NotFoundError(f"checkpoint {checkpoint_id!r}", "list_by_user shows those of a user")
        return row

    async def _from_custom(
        self, workflow: Workflow, checkpoint_id: str, inputs: Mapping[str, Any] | None, user: UserArg, *, dry_run: bool
    ) -> Any:  # fmt: skip
        storage = self.checkpoint_manager.storage
        if user is None:
            found = await storage.load(checkpoint_id)
        else:
            found = await storage.load_of(checkpoint_id, check_user(user))
        if found is None:
            raise NotFoundError(f"checkpoint {checkpoint_id!r}", "list_by_user shows those of a user")
        point = found if isinstance(found, Checkpoint) else Checkpoint.from_dict(found)
        state = {"attributes": point.metadata.get(_KEPT), "collected_fields": point.collected_fields}
        given, done = self._at_checkpoint(workflow, state, inputs)
        if dry_run:
            return _preview(workflow, checkpoint_id, str(point.agent_id), done, None)
        thread = f"{workflow.name}-{self._ids.sortable()}"
        return await self._bring_on(workflow, self.register(workflow), thread, str(point.user_id) or None, given, None)

    def _at_checkpoint(
        self, workflow: Workflow, state: Any, inputs: Mapping[str, Any] | None
    ) -> tuple[dict[str, Any], dict[str, StepRecord]]:
        """What a run that goes on from a state is given, and what is done there."""
        name, recorded, done = records_of(state)
        if name != workflow.name:
            raise InvalidInputError(f"the checkpoint is one of workflow {name!r}, not of {workflow.name!r}")
        values = self._checked(workflow, recorded if inputs is None else inputs)
        return {"inputs": values, "done": {key: msgspec.to_builtins(_shell(each)) | {"output": each.output}
                                           for key, each in done.items()}}, done  # fmt: skip

    async def _after_checkpoint(
        self, workflow: Workflow, run: Run, step: Step, records: Mapping[str, StepRecord], version: int
    ) -> None:
        """Tell the handlers of the manager, and keep the checkpoint in a storage of the caller's own."""
        manager = self.checkpoint_manager
        if manager is None:
            return
        if self._has_custom_storage:
            point = await self._kept_by_caller(workflow, run, step, records)
        else:
            rows = await parts_of(self._store).storage.checkpoints(run.journal.key, CheckpointQuery(limit=1))
            if not rows or rows[0].version != version or rows[0].mark.id in self._announced:
                return
            self._announced.add(rows[0].mark.id)
            point = msgspec.structs.replace(
                rows[0].public(run.journal.key.user), agent_id=run.journal.key.id, agent_type="Workflow",
                collected_fields={name: each.output for name, each in records.items()},
            )  # fmt: skip
        announce = getattr(manager, "announce", None)
        if announce is not None and point is not None:
            await announce(point)

    async def _kept_by_caller(
        self, workflow: Workflow, run: Run, step: Step, records: Mapping[str, StepRecord]
    ) -> Checkpoint | None:
        state = state_of(workflow, dict(run.input["inputs"]), records, step)
        key, manager = run.journal.key, self.checkpoint_manager
        point = Checkpoint(
            id=self._ids.checkpoint(), agent_id=key.id, agent_type="Workflow", user_id=key.user, status=state["status"],
            collected_fields=state["collected_fields"], required_fields=[], context_summary=state["context_summary"],
            parent_checkpoint_id=None, timestamp=to_datetime(run.runtime.clock.now()),
            metadata={"workflow": workflow.name, "step": step.name, _KEPT: state["attributes"]}, thread_id=key.id,
            kind="routine",
        )  # fmt: skip

        saved: list[Checkpoint] = []

        async def save() -> str:
            given = await manager.storage.save(point)
            saved.append(msgspec.structs.replace(point, id=given or point.id))
            return saved[-1].id

        await run.options(key=[step.name]).step("kept by the caller's storage", save)
        return saved[0] if saved else None


def _inputs_of(info: RunInfo) -> Any:
    return info.input.get("inputs") if isinstance(info.input, Mapping) else None


def _shell(record: StepRecord) -> StepRecord:
    """A record without its output, which may be of any type that can be stored."""
    return msgspec.structs.replace(record, output=None)


def _preview(
    workflow: Workflow, checkpoint_id: str, thread: str, done: Mapping[str, StepRecord], left: Rewinding | None
) -> WorkflowPreview:
    names = [each.name for each in workflow.steps]
    return WorkflowPreview(
        checkpoint_id=checkpoint_id, thread=thread, done=[name for name in names if name in done],
        missing=[name for name in names if name not in done], left_behind=left,
    )  # fmt: skip
