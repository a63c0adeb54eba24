"""Workflow files with mistakes: each is told with its line, its column, what is wrong and what to write instead."""
# ruff: noqa: E501  # one mistake a line

from __future__ import annotations

from pathlib import Path

import jsonschema
import pytest
from ruamel.yaml import YAML

from perdure.errors import InvalidConfigError
from perdure.workflows import JSON_SCHEMA, WorkflowExecutor, load_workflow, parse_workflow
from tests.workflows.scenes import RELEASE

STEP = "steps:\n  - name: a\n    agent: A\n"

BROKEN = {
    "empty": ("", "1:1: a workflow needs a list of `steps`"),
    "no steps": ("workflow: {checkpoint: true}\n", "1:1: a workflow needs a list of `steps`"),
    "steps are a mapping": ("steps: {a: 1}\n", "1:8: a workflow needs a list of `steps`"),
    "a step is a text": ("steps:\n  - plan\n", "2:5: a step is keys and values"),
    "no name": ("steps:\n  - agent: A\n", "2:5: this step has no name"),
    "a name with a space": ("steps:\n  - {name: a b, agent: A}\n", "2:12: the name of a step is a word"),
    "a name twice": (STEP + "  - name: a\n    agent: A\n", "4:11: there is a step 'a' already, in line 2"),
    "nothing to do": ("steps:\n  - name: a\n", "2:5: step 'a' does nothing: give it one of agent, tool"),
    "a near kind": ("steps:\n  - name: a\n    agnt: A\n", "does nothing: give it one of agent, tool, parallel, approval, wait, did you mean 'agent'?"),
    "two kinds": ("steps:\n  - {name: a, agent: A, tool: t}\n", "2:5: step 'a' has agent and tool: keep one"),
    "an unknown key": (STEP + "    chekpoint: true\n", "4:5: unknown key 'chekpoint', did you mean 'checkpoint'?"),
    "an unknown key at the top": (STEP + "stepz: 1\n", "4:1: unknown key 'stepz', did you mean 'steps'?"),
    "an unknown key of workflow": ("workflow: {chekpoint: 1}\n" + STEP, "1:12: unknown key 'chekpoint', did you mean 'checkpoint'?"),
    "checkpoint is no flag": (STEP + "    checkpoint: maybe\n", "4:17: expected true or false"),
    "args of an agent": (STEP + "    args: {x: 1}\n", "4:11: 'args' belongs to a step with tool, not agent"),
    "input of a tool": ("steps:\n  - {name: a, tool: t, input: x}\n", "'input' belongs to a step with agent, not tool"),
    "retry of an approval": ("steps:\n  - {name: a, approval: ok?, retry: 2}\n", "'retry' belongs to a step with agent or tool"),
    "retry zero times": (STEP + "    retry: {times: 0}\n", "4:20: "),
    "backoff below one": (STEP + "    retry: {backoff: 0.5}\n", "4:22: backoff is a number from 1 to 100"),
    "an unknown key of retry": (STEP + "    retry: {time: 3}\n", "4:13: unknown key 'time', did you mean 'times'?"),
    "a timeout that is no time": (STEP + "    timeout: soon\n", "4:14: timeout is a time such as 30, 30s, 5m or 2h"),
    "a timeout of zero": (STEP + "    timeout: 0\n", "4:14: timeout is a time"),
    "no ask": ("steps:\n  - {name: a, approval: {who: [ann]}}\n", "2:25: an approval needs `ask`"),
    "an unknown on_deny": ("steps:\n  - {name: a, approval: {ask: ok?, on_deny: stp}}\n", "one of stop, continue"),
    "a wait for nothing": ("steps:\n  - {name: a, wait: {}}\n", "2:21: wait needs exactly one of seconds, until and signal"),
    "a wait for two things": ("steps:\n  - {name: a, wait: {seconds: 1, signal: x}}\n", "2:21: wait needs exactly one"),
    "a wait that is no time": ("steps:\n  - {name: a, wait: later}\n", "2:21: wait is a time such as 30s"),
    "parallel is no list": ("steps:\n  - {name: a, parallel: {x: 1}}\n", "2:25: parallel is a list of steps"),
    "foreach of parallel": ("steps:\n  - {name: a, foreach: '{{ inputs }}', parallel: [{name: b, agent: A}]}\n", "'foreach' belongs to"),
    "limit zero": (STEP + "    foreach: '{{ inputs }}'\n    limit: 0\n", "5:12: expected a whole number from 1 on"),
    "on_error is unknown": (STEP + "    on_error: ignore\n", "4:15: expected one of fail, continue"),
    "on_error without a fallback": (STEP + "    on_error: {}\n", "4:15: on_error is `fail`, `continue`, or {fallback:"),
    "an unquoted template": (STEP + "    input: {{ inputs.x }}\n", '4:13: a value that begins with {{ must be quoted: "{{ … }}"'),
    "an open template": (STEP + "    input: '{{ inputs.x'\n", "4:12: '{{ inputs.x': {{ and }} do not match"),
    "an unknown root": (STEP + "    input: '{{ step.a.output }}'\n", "4:12: {{ step.a.output }}: there is no 'step', did you mean 'steps'?"),
    "an unknown input": ("inputs: {city: text}\n" + STEP + "    input: '{{ inputs.citi }}'\n", "5:12: {{ inputs.citi }}: there is no input 'citi', did you mean 'city'?"),
    "a later step": (STEP + "    input: '{{ steps.b.output }}'\n  - {name: b, agent: A}\n", "4:12: {{ steps.b.output }}: no earlier step is called 'b'"),
    "an expression": (STEP + "    input: '{{ 1 + 1 }}'\n", "4:12: {{ 1 + 1 }} is no path"),
    "a call": (STEP + "    input: '{{ inputs.keys() }}'\n", "'()' is not understood. Only names, [positions] and"),
    "a filter": (STEP + "    input: '{{ inputs | upper }}'\n", "4:12: {{ inputs | upper }} is no path"),
    "an attribute of Python": (STEP + "    input: '{{ inputs.__class__ }}'\n", "names that begin with __ are not read"),
    "a condition that is none": (STEP + "    when: '{{ inputs.a }} ='\n", "4:11: "),
    "a condition with code": (STEP + "    when: 'len(inputs) > 3'\n", "4:11: "),
    "a condition of both words": ("inputs: {a: any}\n" + STEP + "    when: 'inputs.a and inputs.a or inputs.a'\n", "mixes `and` and `or`"),
    "an unknown type": ("inputs: {city: txt}\n" + STEP, "1:16: unknown type 'txt', did you mean 'text'?"),
    "a default of another type": ("inputs: {n: {type: integer, default: x}}\n" + STEP, "1:38: the default of input 'n' is not integer"),
    "inputs in both places": ("inputs: {a: text}\nworkflow: {inputs: {a: text}}\n" + STEP, "'inputs' stands here and at the top"),
    "a fleet": ("workflow: {max_rounds: 3}\n" + STEP, "1:24: 'max_rounds' is a setting of a fleet, and `steps` makes this file a workflow"),
    "a tag": ("steps:\n  - !!python/object:os.system {name: a}\n", "tag 'tag:yaml.org,2002:python/object:os.system' is not allowed"),
    "a merge key": ("a: &a {name: x}\nsteps:\n  - <<: *a\n    agent: A\n", "a key must be a word"),
    "not YAML": ("steps: [\n", "not YAML"),
    "bytes": (b"\xff\xfe\x00", "is not UTF-8"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_a_mistake_is_told_with_its_place_and_what_to_write(name: str) -> None:
    text, expected = BROKEN[name]
    with pytest.raises(InvalidConfigError) as caught:
        parse_workflow(text, "release.yaml")
    assert expected in str(caught.value)
    assert all(each.startswith("release.yaml:") for each in caught.value.problems)


def test_bombs_end_in_the_same_error() -> None:
    laughs = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{chr(98 + at)}: &{chr(98 + at)} [{', '.join([f'*{chr(97 + at)}'] * 10)}]\n" for at in range(8)
    )
    for text in (laughs + STEP, "[" * 5000, "x: " + "{a: " * 500, "a: " + "1" * 300_000):
        with pytest.raises(InvalidConfigError):
            parse_workflow(text)


def test_all_mistakes_of_a_file_are_told_at_once() -> None:
    with pytest.raises(InvalidConfigError) as caught:
        parse_workflow("steps:\n  - {name: a, agnt: A}\n  - {name: a, wait: later}\n")
    assert [each.split(":")[1] for each in caught.value.problems] == ["2", "2", "3", "3"]


def test_a_missing_agent_is_named_with_a_suggestion_before_anything_runs(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text("steps:\n  - name: plan\n    agent: Planer\n")
    executor = WorkflowExecutor(agents={"Planner": lambda given: given})
    with pytest.raises(
        InvalidConfigError, match=r"workflow.yaml:2:5: step 'plan': there is no agent 'Planer', did you"
    ):
        executor.register(str(path))


def test_a_file_imports_nothing_unless_the_caller_trusts_it(tmp_path: Path) -> None:
    path = tmp_path / "workflow.yaml"
    path.write_text("steps:\n  - name: plan\n    agent: json:dumps\n")
    with pytest.raises(InvalidConfigError, match="pass trust_imports=True if you trust the file"):
        WorkflowExecutor().register(str(path))
    assert WorkflowExecutor(trust_imports=True).register(str(path)) == "workflow workflow"


def test_the_json_schema_takes_the_same_files(tmp_path: Path) -> None:
    yaml = YAML(typ="safe")
    jsonschema.validate(yaml.load(RELEASE), JSON_SCHEMA)
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(yaml.load("steps:\n  - {name: a, agnt: A}\n"), JSON_SCHEMA)


def test_variables_of_the_environment_are_texts_like_any_other(tmp_path: Path) -> None:
    path = tmp_path / "w.yaml"
    path.write_text(STEP + "    input: 'echo ${HOME}'\n")
    assert load_workflow(path).steps[0].input == "echo ${HOME}"
