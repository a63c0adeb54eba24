"""Workflows: YAML files of steps, run as journaled steps of a run.

`WorkflowExecutor` runs a file, `load_workflow` reads and checks one, `as_text` and `as_mermaid` draw it. A workflow is
a handler like any other, so whatever works on runs works on workflows: resume, fork, compare, why, timeline, workers.
This package stands on `app` and `runtime`; agents are known by what they can do, not by their classes.
"""

from perdure.workflows.definition import Approval, Input, RetryRule, Step, Wait, Workflow
from perdure.workflows.executor import WorkflowExecutor, WorkflowPreview, WorkflowResult
from perdure.workflows.file import load_workflow, parse_workflow
from perdure.workflows.progress import StepProgress, as_mermaid, as_text
from perdure.workflows.schema import JSON_SCHEMA

__all__ = [
    "JSON_SCHEMA", "Approval", "Input", "RetryRule", "Step", "StepProgress", "Wait", "Workflow", "WorkflowExecutor",
    "WorkflowPreview", "WorkflowResult", "as_mermaid", "as_text", "load_workflow", "parse_workflow",
]  # fmt: skip
