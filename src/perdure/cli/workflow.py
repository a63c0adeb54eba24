"""`perdure run workflow.yaml` and `perdure workflow check|show|schema`: workflow files from the command line."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Literal

from perdure.app.store import Perdure
from perdure.cli.common_options import (
    HERE,
    DryRun,
    Handlers,
    Output,
    Owner,
    Several,
    StoreOptions,
    ThreadOptions,
    as_json,
    opened_async,
    parse_json,
    shortened,
    store_address,
    warn_of_exposed_files,
)
from perdure.cli.handlers import function_named, handlers_named
from perdure.cli.lookup import locate
from perdure.cli.output import OutputFormat, write, write_data, write_next, write_plain
from perdure.cli.pauses import decide_hints
from perdure.cli.problems import OK, WAITS, UsageError
from perdure.core.errors import InvalidInputError, PerdureError, RunFailedError
from perdure.core.ports import Silence
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.workflows import (
    JSON_SCHEMA,
    WorkflowExecutor,
    WorkflowPreview,
    WorkflowResult,
    as_mermaid,
    as_text,
    load_workflow,
)

_EXECUTOR = "executor"


def run(
    file: str,
    /,
    *,
    handlers: Handlers | None = None,
    input: Several = (),
    thread: str | None = None,
    checkpoint: str | None = None,
    key: str | None = None,
    dry_run: DryRun = False,
    user: Owner = None,
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> int:
    """Run a workflow file here, until it ends or waits for a person.

    The module is imported and its executor(store) called, which returns a WorkflowExecutor with the agents and tools
    that the file names. With --thread an unfinished run of the thread continues. The exit code is 6 when it waits.

    Parameters
    ----------
    file
        The workflow file.
    input
        NAME=VALUE; a value is JSON, or else a text. May be given several times.
    thread
        The thread of the run; without one it gets a thread of its own.
    checkpoint
        The id of a checkpoint to continue from.
    key
        The same key is the same run.
    """
    inputs = dict(map(_input, input)) or None
    named = handlers_named(handlers, at)
    given = {"checkpoint_id": checkpoint, "thread": thread, "key": key, "dry_run": dry_run}
    done = asyncio.run(_run(at, named, file, inputs, user, given))
    if isinstance(done, WorkflowPreview):
        return _write_preview(done, output)
    return _write_result(done, file, at, user, output)


def check(file: str, /, *, output: Output = "table") -> None:
    """Check a workflow file: every mistake is told with its line and column.

    Parameters
    ----------
    file
        The workflow file.
    """
    workflow = load_workflow(file)
    if output != "table":
        steps = [{"name": each.name, "kind": each.kind, "line": each.line} for each in workflow.all_steps()]
        write_data({"file": file, "workflow": workflow.name, "steps": steps}, output)
        return
    names = [each.agent or each.tool for each in workflow.all_steps() if each.agent or each.tool]
    write(f"ok                 workflow {workflow.name}, {len(list(workflow.all_steps()))} steps")
    write(f"needs              {', '.join(dict.fromkeys(map(shown, filter(None, names)))) or 'no agents and no tools'}")


def show(
    file: str,
    /,
    *,
    thread: str | None = None,
    user: Owner = None,
    form: Literal["text", "mermaid"] = "text",
    at: ThreadOptions = HERE,
    output: Output = "table",
) -> None:
    """Show a workflow file, with how far each step came where a thread is given.

    Parameters
    ----------
    file
        The workflow file.
    thread
        The thread of a run.
    form
        A text, or a diagram in Mermaid.
    """
    workflow = load_workflow(file)
    progress = asyncio.run(_progress(at, file, thread, user)) if thread is not None else None
    if output != "table":
        rows = progress or {}
        write_data([{"name": name, "status": each.status, "output": as_json(each.output), "error": each.error}
                    for name, each in rows.items()], output)  # fmt: skip
        return
    text = as_mermaid(workflow, progress) if form == "mermaid" else as_text(workflow, progress)
    for line in text.splitlines():
        write(printable(line))


def schema() -> None:
    """Print the JSON Schema of workflow files, for editors."""
    write_plain(json.dumps(JSON_SCHEMA, indent=2))


async def _run(
    at: StoreOptions, handlers: str, file: str, inputs: dict[str, Any] | None, user: str | None, given: dict[str, Any]
) -> Any:
    url, options = store_address(at, migrate="auto")  # the first run makes the store
    warn_of_exposed_files(url, options)
    async with Perdure.open(url, telemetry=Silence(), **options) as store:
        made = function_named(handlers, "store", _EXECUTOR)(store)
        if not isinstance(made, WorkflowExecutor):
            raise InvalidInputError(f"--handlers {handlers}: it must return a WorkflowExecutor, not {made!r}")
        try:
            return await made.run(file, inputs, user=user, **given)
        except PerdureError:
            raise
        except Exception as exc:  # what a step raised: it is in the log by now
            notes = "; ".join(getattr(exc, "__notes__", ()))
            raise RunFailedError("", type(exc).__name__, f"{exc} ({notes})" if notes else str(exc)) from exc


async def _progress(at: StoreOptions, file: str, thread: str, user: str | None) -> Any:
    async with opened_async(store_address(at), Silence()) as store:
        found, whose = await locate(store, thread, user)
        return await WorkflowExecutor(store=store).progress(file, found, user=whose)


def _input(text: str) -> tuple[str, Any]:
    name, found, value = text.partition("=")
    if not name or not found:
        raise UsageError(f"--input is NAME=VALUE, not {text!r}")
    try:
        return name, parse_json(value, "--input")
    except InvalidInputError:
        return name, value


def _write_preview(preview: WorkflowPreview, output: OutputFormat) -> int:
    left = [] if preview.left_behind is None else list(preview.left_behind.checkpoints)
    if output != "table":
        write_data({"thread": preview.thread, "done": preview.done, "missing": preview.missing,
                    "left_behind": left}, output)  # fmt: skip
        return OK
    write(f"done               {', '.join(preview.done) or 'nothing'}")
    write(f"would run          {', '.join(preview.missing) or 'nothing'}")
    write(f"left behind        {', '.join(left) or 'nothing'}")
    return OK


def _write_result(done: WorkflowResult, file: str, at: ThreadOptions, user: str | None, output: OutputFormat) -> int:
    if output != "table":
        write_data(
            {"thread": done.thread, "run": done.run.id, "status": done.status, "output": as_json(done.output),
             "checkpoint_id": done.checkpoint_id, "pauses": [each.id for each in done.pauses],
             "steps": {name: each.status for name, each in done.steps.items()}},
            output,
        )  # fmt: skip
    else:
        result = [] if done.output is None else [f"output             {shortened(done.output, 200)}"]
        for line in [f"{done.status:<18} workflow {file} in thread {shown(done.thread)}", *result]:
            write(printable(line))
        write_next(*(step for each in done.pauses for step in decide_hints(each, at)))
    return OK if done else WAITS
