"""The two reference pages that are made from the code: `python -m tests.docs.reference` writes them."""

from __future__ import annotations

import ast
import inspect
import textwrap

import perdure
import perdure.webhooks
from perdure import memory
from perdure.app.branches import Branch
from perdure.app.copying import Copied
from perdure.app.exporting import Exported
from perdure.app.handle import LastRead
from perdure.app.maintenance import PruneReport
from perdure.app.sql_views import ViewsReport
from perdure.checkpoints.pruning import Pruned
from perdure.checkpoints.travel import Rewinding, TimelineItem
from perdure.core import errors
from perdure.core.deliveries import Sent
from perdure.core.erasure import Forgotten, ForgottenThread, Tombstone
from perdure.core.portable import Listed
from perdure.core.retention import Plan, Point, Verdict
from perdure.core.trust_preview import OpenQuestion, RecordedDecision, RunToContinue, ToolToVerify, TrustPreview
from perdure.core.usage import UsageReport, UsageRow
from perdure.core.weights import KindSize, Largest, StoreSizes, ThreadSizes, ThreadTotal, Weight
from perdure.core.writes import Sizes
from perdure.runtime.models import ModelRequest
from perdure.runtime.run import Bound
from perdure.runtime.sending import Sender
from perdure.runtime.starting import Ticket
from perdure.runtime.streaming import Chunk
from perdure.runtime.why import Effect
from perdure.workflows import StepProgress, WorkflowPreview, WorkflowResult
from tests.docs.pages import ROOT
from tests.docs.signatures import methods, properties, shown

API = ROOT / "docs" / "reference" / "api.md"
ERRORS = ROOT / "docs" / "reference" / "errors.md"
VALUES = (
    perdure.Checkpoint, perdure.Entry, perdure.ThreadInfo, perdure.Comparison, perdure.Comparisons, perdure.Difference,
    perdure.Row, perdure.Divergence, perdure.Side, perdure.Message, perdure.MessageLine, perdure.Analytics,
    perdure.Orphan, Sizes, LastRead,
    perdure.Config, perdure.Triggers, perdure.RecoveryPolicy, perdure.Approvals, perdure.Webhook,
    perdure.Retention, perdure.Rule, Plan, Verdict, Point, Pruned, PruneReport, Rewinding, TimelineItem, Branch,
    perdure.Report, perdure.Damage, perdure.Repaired, perdure.Latest,
    perdure.RunInfo, perdure.Why, Effect, perdure.Pause, perdure.Decision, perdure.Allowance,
    perdure.Retry, perdure.Unverified,
    ModelRequest, Chunk, perdure.AgentResult, perdure.AgentEvent, perdure.Reply, perdure.ToolCall, perdure.ToolSchema,
    perdure.Usage, UsageReport, UsageRow,
    perdure.CheckpointDiff, StoreSizes, ThreadTotal, ThreadSizes, KindSize, Weight, Largest, Exported, Listed, Copied,
    TrustPreview, RunToContinue, ToolToVerify, RecordedDecision, OpenQuestion,
    WorkflowResult, WorkflowPreview, StepProgress,
    memory.Fact, memory.Source, memory.Hit, memory.MemoryStats,
    Forgotten, ForgottenThread, Tombstone, ViewsReport,
    perdure.webhooks.Webhook, perdure.webhooks.Notice, perdure.webhooks.Body, Sent,
)  # fmt: skip
AGENTS = (
    perdure.StandardAgent, perdure.Orchestrator, perdure.ModelRouter, perdure.CheckpointManager,
    perdure.CheckpointTree, perdure.CheckpointStorage,
    perdure.InMemoryCheckpointStorage, perdure.SQLiteCheckpointStorage, perdure.FileCheckpointStorage,
    perdure.PostgresCheckpointStorage, perdure.MySQLCheckpointStorage,
)  # fmt: skip
MEMORY = (
    memory.MemoryManager, memory.AgentMemory, memory.Pattern, memory.Signals, memory.OpenAIEmbedder,
    memory.WordLlamaEmbedder,
)  # fmt: skip
LOOP = (perdure.Tool, perdure.ScriptedModel, perdure.OpenAICompatible)
_INTERNAL = {"for_key", "open_as", "find", "keyed", "effect_key", "was_written"}

_API = """\
# API

Every public name of `perdure`, with its signature. In `perdure.sync` the classes `Perdure` and `Thread` have the same
methods without `await`. Everything raised is in [errors](errors.md).

`perdure.__version__` is the version as text.

## Perdure

{store}

| address | storage |
|---|---|
| `memory://` | in this process, for tests |
| `file:./folder`, `file:///abs/folder` | a folder of readable files |
| `sqlite:///relative.db`, `sqlite:////abs/name.db` | a SQLite database; options `?synchronous=FULL` (default), \
`NORMAL` or `EXTRA`, `?busy_timeout=5` in seconds |
| `postgresql://user@host:5432/database` | [PostgreSQL](../guides/postgresql.md); the address takes libpq's parameters |
| `mysql://user@host:3306/database` | [MySQL and MariaDB](../guides/mysql.md) |

## Scopes

What a request handler gets: see [users and tenants](../guides/users-and-tenants.md). In `perdure.sync` without `await`.

{user_scope}

{approver_scope}

## Thread

{thread}

`thread.id` is the id, `thread.user` whose thread it is; with `ANY_USER`, once that is known.

### ANY_USER

`user=perdure.ANY_USER` is for trusted code such as an administrator's tool. Where one thread is meant, it takes the
only one of this id, whoever owns it, or raises `AmbiguousThreadError`, which names the users. Without `user`, an id
means the thread that belongs to nobody. Lists cover everybody's threads either way.

### FROM_FILE

`store.import_(path, user=perdure.FROM_FILE)` gives each thread to the owner that the file names: for backups of your
own ([guide](../guides/importing.md)).

## Run

`async with thread.run() as run`, and what a handler is given ([guide](../guides/runs.md)). `perdure.sync.Run` has the
same methods without `await`.

{run}

`run.key`, `run.resumed` (it began earlier), `run.over` (it ended earlier), `run.paused` (it waits for a person), \
`run.idempotency_key` (of the tool or step that is being run), and `run.result`, which a block sets.

{bound}

{ticket}

{worker}

## Agent

Made by `store.agent(…)` ([guide](../guides/agents.md)). In `perdure.sync` without `await`, and without `stream`.

{agent}

{loop}

## tool

{tool}

## Agents

The face of [flowagent](../guides/flowagent.md).

{agents}

## Workflows

From `perdure.workflows` ([guide](../guides/workflows.md)).

{workflows}

## Memory

From `perdure.memory` ([guide](../guides/memory.md)). `perdure.sync.MemoryManager` has the same methods without `await`.

{memory}

## Values

All of them are frozen.

{values}

### EntryKind

What an entry says happened; [every kind](entry-kinds.md).

### Record

{record}

## durable

{durable}

## Webhooks

In `perdure.webhooks`: `Webhook`, `Notice`, `Body` (under [values](#values)) and the functions
([guide](../guides/notifications.md)).

{verify}

{body_of}

{next_try}

{sender}

## Telemetry

{telemetry}

See [telemetry](../guides/telemetry.md).

## register

{register}

See [registered types](../guides/registered-types.md).
"""

_ERRORS = """\
# Errors

All of them are in `perdure.errors`. [The guide](../guides/errors.md) says what to catch; [faults](../faults.md) says
what each fault turns into.

```text
{tree}
```

| class | means | is also a | carries |
|---|---|---|---|
{rows}
"""


def api_page() -> str:
    """`docs/reference/api.md`."""
    return _API.format(
        store=_class(perdure.Perdure),
        user_scope=_part(perdure.UserScope),
        approver_scope=_part(perdure.ApproverScope),
        thread=_class(perdure.Thread),
        run=_class(perdure.Run),
        bound=_part(Bound),
        ticket=_part(Ticket),
        worker=_part(perdure.Worker),
        durable=_function("perdure.durable", perdure.durable),
        agent=_class(perdure.Agent),
        loop="\n\n".join([*map(_made, LOOP), _part(perdure.Model)]),
        tool=_function("perdure.tool", perdure.tool),
        agents="\n\n".join(map(_made, AGENTS)),
        workflows=_made(perdure.WorkflowExecutor),
        memory="\n\n".join(map(_made, MEMORY)),
        values="\n\n".join(
            f"### {cls.__name__}\n\n{_said(cls)}\n\nAttributes: {_code(properties(cls))}." for cls in VALUES
        ),
        record=_said(perdure.Record),
        verify=_function("verify", perdure.webhooks.verify),
        body_of=_function("body_of", perdure.webhooks.body_of),
        next_try=_function("next_try", perdure.webhooks.next_try),
        sender=_part(Sender),
        telemetry="\n\n".join([_class(perdure.Telemetry), f"### Silence\n\n{_said(perdure.Silence)}"]),
        register=_function("perdure.register", perdure.register),
    )


def errors_page() -> str:
    """`docs/reference/errors.md`."""
    tree = textwrap.dedent((errors.__doc__ or "").split("\n\n", 1)[1]).rstrip()
    return _ERRORS.format(tree=tree, rows="\n".join(map(_row, error_classes())))


def error_classes() -> list[type[Exception]]:
    """Every error of ours, in the order they are written."""
    return [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, errors.PerdureError)]


def _class(cls: type) -> str:
    public = [(name, value) for name, value in methods(cls) if name not in _INTERNAL]
    return "\n\n".join([_said(cls), *(_function(f"{cls.__name__}.{name}", value) for name, value in public)])


def _part(cls: type) -> str:
    """A class that nobody makes by hand."""
    return f"### {cls.__name__}\n\n{_class(cls)}"


def _made(cls: type) -> str:
    """A class with what it is made of."""
    said, *rest = _class(cls).split("\n\n```text", 1)
    made = [f"```text\n{shown(cls.__name__, vars(cls)['__init__'])}\n```"] if "__init__" in vars(cls) else []
    return "\n\n".join([f"### {cls.__name__}", said, *made, *(f"```text{each}" for each in rest)])


def _function(name: str, function: object) -> str:
    return f"```text\n{shown(name, function)}\n```\n\n{_said(function)}"  # type: ignore[arg-type]


def _row(cls: type[Exception]) -> str:
    also = [base.__name__ for base in cls.__bases__ if base.__module__ == "builtins" and base is not Exception]
    return f"| `{cls.__name__}` | {_said(cls)} | {_code(also)} | {_code(_carried(cls))} |"


def _carried(cls: type) -> list[str]:
    """The attributes that the nearest `__init__` sets."""
    owner = next(each for each in cls.__mro__ if "__init__" in vars(each))
    if owner.__module__ != errors.__name__:
        return []
    body = ast.parse(textwrap.dedent(inspect.getsource(owner.__init__)))
    return [node.attr for node in ast.walk(body) if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)]


def _said(thing: object) -> str:
    return (inspect.getdoc(thing) or "").strip()


def _code(names: list[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


if __name__ == "__main__":
    API.write_text(api_page(), encoding="utf-8")
    ERRORS.write_text(errors_page(), encoding="utf-8")
