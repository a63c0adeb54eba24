"""Reading a workflow file: YAML to `Workflow`, and every mistake in it with its line and column."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path as FilePath
from typing import Any

import msgspec

from perdure.app.config.places import Page, Place, Placed, parse_page, read_bytes
from perdure.app.config.reading import Section
from perdure.app.options import hint
from perdure.core.errors import InvalidInputError
from perdure.workflows.definition import INPUT_TYPES, Approval, Input, RetryRule, Step, Wait, Workflow, is_of_type
from perdure.workflows.templates import Path, TemplateError, parse_condition, parse_path, parse_tree, paths_in

KINDS = ("agent", "tool", "parallel", "approval", "wait")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,99}")
_DURATION = re.compile(r"(\d{1,9}(?:\.\d{1,6})?)\s*(ms|s|m|h|d|w)?")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_MAX_STEPS = 500
_ROOTS = ("inputs", "steps", "workflow")
_FLEET_KEYS = ("checkpointing", "max_rounds", "max_stalls", "max_resets", "human_in_the_loop")


def load_workflow(path: str | os.PathLike[str]) -> Workflow:
    """Read a workflow file; raise `InvalidConfigError` that names every mistake with its line and column."""
    return parse_workflow(read_bytes(path), os.fspath(path))


def parse_workflow(text: str | bytes, path: str = "workflow.yaml") -> Workflow:
    """The same for a text; `path` is how messages call it."""
    data = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    page, tree = parse_page(path, data, literal=True)
    workflow = _Reader(page).workflow(Section(page, tree))
    page.check()
    return workflow


def duration(value: Any) -> float | None:
    """Seconds of a number or of a text such as 30s, 5m, 2h, 1d; None for anything else."""
    if type(value) in (int, float):
        return float(value) if 0 <= value < 1e10 else None
    found = _DURATION.fullmatch(value) if isinstance(value, str) else None
    return float(found[1]) * _SECONDS[found[2] or "s"] if found else None


class _Reader:
    """Reads one file, and remembers which names it has met."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._steps: dict[str, Place] = {}
        self._earlier: set[str] = set()  # names whose results a step may use
        self._inputs: tuple[Input, ...] = ()
        self._in_error = False

    def workflow(self, root: Section) -> Workflow:
        """The whole file."""
        settings = self._settings(root)
        self._refuse_fleet(root, settings)
        steps = self._all_steps(root)
        output = self._tree(self._one_of(root, settings, "output"))
        name = self._one_of(root, settings, "name")
        workflow = Workflow(
            name=self._workflow_name(name), path=self._page.path, steps=steps, inputs=self._inputs,
            output=output, checkpoint=settings.flag("checkpoint", False),
        )  # fmt: skip
        settings.text("description")
        settings.close()
        root.close()
        return workflow

    def _settings(self, root: Section) -> Section:
        settings = root.section("workflow", leaf=False)
        declared = self._one_of(root, settings, "inputs")
        if declared is not None:
            self._inputs = tuple(self._declared(declared))
        return settings

    def _one_of(self, root: Section, settings: Section, name: str) -> Placed | None:
        """A key that stands at the top of the file or under `workflow`."""
        outer, inner = root.placed(name), settings.placed(name)
        if outer is not None and inner is not None:
            self._page.problem(inner.place, f"{name!r} stands here and at the top of the file; keep one of them")
        return outer or inner

    def _refuse_fleet(self, root: Section, settings: Section) -> None:
        found = [key for key in _FLEET_KEYS if settings.placed(key) is not None]
        if root.placed("fleet") is not None:
            found.append("fleet")
        if found and root.placed("steps") is not None:
            where = self._page_place(settings, found[0])
            text = f"{found[0]!r} is a setting of a fleet, and `steps` makes this file a workflow: use two files"
            self._page.problem(where, text)

    def _page_place(self, section: Section, name: str) -> Place:
        placed = section.placed(name)
        return placed.place if placed else section.place

    def _workflow_name(self, placed: Placed | None) -> str:
        if placed is None:
            stem = re.sub(r"[^A-Za-z0-9_-]+", "-", FilePath(self._page.path).stem).strip("-")
            return stem or "workflow"
        if type(placed.value) is str and _NAME.fullmatch(placed.value):
            return placed.value
        self._page.problem(placed.place, "the name of a workflow is a word of letters, digits, - and _")
        return "workflow"

    def _declared(self, placed: Placed) -> Iterable[Input]:
        if not isinstance(placed.value, dict):
            self._page.problem(placed.place, "inputs are names with a type each, such as `city: text`")
            return
        for name, each in placed.value.items():
            if not _NAME.fullmatch(name):
                self._page.problem(placed.keys[name], f"input {name!r} must be a word of letters, digits, - and _")
            else:
                yield self._input(name, each)

    def _input(self, name: str, placed: Placed) -> Input:
        if not isinstance(placed.value, dict):
            return Input(name=name, type=self._type_of(placed))
        section = Section(self._page, placed, f"inputs.{name}")
        kind = self._type_of(section.placed("type"))
        default = section.placed("default")
        value = _plain(default) if default else None
        if default is not None and not is_of_type(value, kind):
            self._page.problem(default.place, f"the default of input {name!r} is not {kind}")
        required = section.flag("required", default is None)
        text = section.text("description", "")
        section.close()
        return Input(name=name, type=kind, required=required, default=value, description=text)

    def _type_of(self, placed: Placed | None) -> str:
        if placed is None or placed.value is None:
            return "any"
        if isinstance(placed.value, str) and placed.value in INPUT_TYPES:
            return placed.value
        near = hint(str(placed.value), tuple(INPUT_TYPES)) or f"; there are {', '.join(INPUT_TYPES)}"
        self._page.problem(placed.place, f"unknown type {_short(placed.value)}{near}")
        return "any"

    def _all_steps(self, root: Section) -> tuple[Step, ...]:
        placed = root.placed("steps")
        if placed is None or not isinstance(placed.value, list) or not placed.value:
            self._page.problem(placed.place if placed else root.place, "a workflow needs a list of `steps`")
            return ()
        return tuple(self._sequence(placed.value))

    def _sequence(self, items: list[Placed]) -> Iterable[Step]:
        for item in items:
            step = self._step(item)
            if step is not None:
                self._earlier.update(each.name for each in step.steps())
                yield step

    def _step(self, item: Placed, *, extra: tuple[str, ...] = (), name: str = "") -> Step | None:
        """A step; `name` is given to a fallback, which needs none of its own."""
        if not isinstance(item.value, dict):
            self._page.problem(item.place, "a step is keys and values, with a name and what it does")
            return None
        section = Section(self._page, item)
        named = section.placed("name")
        own = self._step_name(named, item.place) if named is not None or not name else self._register(name, item.place)
        kind = self._kind(section, item, own)
        item_name = self._item_name(section)
        names = (*extra, *((item_name, "index") if section.placed("foreach") else ()))
        fields = self._action(section, kind, names)
        self._only_for(section, kind)
        step = Step(
            name=own, line=item.place.line, column=item.place.column,
            foreach=self._unset_tree(section, "foreach", extra), item=item_name,
            limit=section.count("limit", None), when=self._condition(section, extra), retry=self._retry(section),
            timeout=self._seconds(section, "timeout"), checkpoint=self._flag_or_none(section, "checkpoint"),
            **fields, **self._on_error(section, own, names),
        )  # fmt: skip
        section.close()
        return step

    def _step_name(self, placed: Placed | None, place: Place) -> str:
        if placed is None:
            self._page.problem(place, "this step has no name")
            return f"step-{len(self._steps) + 1}"
        if type(placed.value) is not str or not _NAME.fullmatch(placed.value):
            self._page.problem(placed.place, "the name of a step is a word of letters, digits, - and _")
            return f"step-{len(self._steps) + 1}"
        return self._register(placed.value, placed.place)

    def _register(self, name: str, place: Place) -> str:
        if name in self._steps:
            self._page.problem(place, f"there is a step {name!r} already, in line {self._steps[name].line}")
        if len(self._steps) == _MAX_STEPS:
            self._page.problem(place, f"a workflow has at most {_MAX_STEPS} steps")
            self._page.check()
        self._steps[name] = place
        return name

    def _kind(self, section: Section, item: Placed, name: str) -> str:
        kinds = [kind for kind in KINDS if section.placed(kind) is not None]
        if len(kinds) == 1:
            return kinds[0]
        unknown = [key for key in item.value if key not in _STEP_KEYS]
        near = next((text for key in unknown if (text := hint(key, KINDS))), "")
        what = f"has {' and '.join(kinds)}: keep one" if kinds else f"does nothing: give it one of {', '.join(KINDS)}"
        self._page.problem(item.place, f"step {name!r} {what}{near}")
        return kinds[0] if kinds else ""

    def _only_for(self, section: Section, kind: str) -> None:
        for key, kinds in _ONLY_FOR.items():
            placed = section.placed(key)
            if placed is not None and kind and kind not in kinds:
                self._page.problem(placed.place, f"{key!r} belongs to a step with {' or '.join(kinds)}, not {kind}")

    def _action(self, section: Section, kind: str, names: tuple[str, ...]) -> dict[str, Any]:
        if kind in ("agent", "tool"):
            what = section.text(kind, "")
            return {kind: what, "input": self._unset_tree(section, "input", names),
                    "args": self._arguments(section, names)}  # fmt: skip
        placed = section.placed(kind) if kind else None
        section.placed("input")
        section.placed("args")  # known keys: _only_for says what is wrong with them
        if placed is None:
            return {}
        if kind == "parallel":
            return {"parallel": self._branches(placed, names)}
        return {kind: self._approval(placed, names) if kind == "approval" else self._wait(placed, names)}

    def _arguments(self, section: Section, names: tuple[str, ...]) -> Any:
        placed = section.placed("args")
        if placed is None:
            return msgspec.UNSET
        if not isinstance(placed.value, dict):
            self._page.problem(placed.place, "args are names and values")
            return msgspec.UNSET
        return self._tree(placed, names)

    def _branches(self, placed: Placed, names: tuple[str, ...]) -> tuple[Step, ...]:
        if not isinstance(placed.value, list) or not placed.value:
            self._page.problem(placed.place, "parallel is a list of steps that run at the same time")
            return ()
        branches = [self._step(each, extra=names) for each in placed.value]
        return tuple(each for each in branches if each is not None)

    def _approval(self, placed: Placed, names: tuple[str, ...]) -> Approval:
        if not isinstance(placed.value, dict):
            return Approval(ask=self._ask(placed, names))
        section = Section(self._page, placed)
        ask = section.placed("ask")
        if ask is None:
            self._page.problem(placed.place, "an approval needs `ask`: the question to a person")
        approval = Approval(
            ask=self._ask(ask, names) if ask else "", args=self._arguments_of(section, names),
            who=self._people(section), deadline=self._seconds(section, "deadline"), choices=section.texts("choices"),
            on_deny=section.choice("on_deny", ("stop", "continue"), "stop"),
        )  # fmt: skip
        section.close()
        return approval

    def _ask(self, placed: Placed, names: tuple[str, ...]) -> Any:
        if type(placed.value) is not str or not placed.value.strip():
            self._page.problem(placed.place, "the question of an approval is a text")
            return ""
        return self._tree(placed, names)

    def _arguments_of(self, section: Section, names: tuple[str, ...]) -> Any:
        found = self._arguments(section, names)
        return None if found is msgspec.UNSET else found

    def _people(self, section: Section) -> tuple[str, ...]:
        return (section.text("who"),) if section.is_text("who") else section.texts("who")

    def _wait(self, placed: Placed, names: tuple[str, ...]) -> Wait:
        if not isinstance(placed.value, dict):
            seconds = duration(placed.value)
            if seconds is None:
                self._page.problem(placed.place, "wait is a time such as 30s, 5m or 2h, or {signal: name}")
            return Wait(seconds=seconds or 0.0)
        section = Section(self._page, placed)
        given = [key for key in ("seconds", "until", "signal") if section.placed(key) is not None]
        if len(given) != 1:
            self._page.problem(placed.place, "wait needs exactly one of seconds, until and signal")
        until = section.placed("until")
        wait = Wait(
            seconds=self._seconds(section, "seconds"), until=self._tree(until, names) if until else None,
            signal=section.text("signal"),
        )  # fmt: skip
        section.close()
        return wait

    def _retry(self, section: Section) -> RetryRule | None:
        placed = section.placed("retry")
        if placed is None:
            return None
        if not isinstance(placed.value, dict):
            return RetryRule(times=section.count("retry", 1))
        inner = Section(self._page, placed, "retry")
        backoff = inner.placed("backoff")
        if backoff is not None and (type(backoff.value) not in (int, float) or not 1 <= backoff.value <= 100):
            self._page.problem(backoff.place, "backoff is a number from 1 to 100")
            backoff = None
        rule = RetryRule(
            times=inner.count("times", 3), delay=self._seconds(inner, "delay", 1.0) or 0.0,
            backoff=float(backoff.value) if backoff else 2.0,
            on=(inner.text("on"),) if inner.is_text("on") else inner.texts("on"),
        )  # fmt: skip
        inner.close()
        return rule

    def _on_error(self, section: Section, name: str, names: tuple[str, ...]) -> dict[str, Any]:
        placed = section.placed("on_error")
        if placed is None:
            return {}
        if not isinstance(placed.value, dict):
            return {"on_error": section.choice("on_error", ("fail", "continue"), "fail")}
        inner = Section(self._page, placed, "on_error")
        fallback = inner.placed("fallback")
        if fallback is None:
            self._page.problem(placed.place, "on_error is `fail`, `continue`, or {fallback: {agent: …}}")
        inner.close()
        made = self._step(fallback, extra=(*names, "error"), name=f"{name}-fallback") if fallback else None
        return {"fallback": made}

    def _condition(self, section: Section, names: tuple[str, ...]) -> Any:
        placed = section.placed("when")
        if placed is None:
            return None
        text = {True: "true", False: "false"}.get(placed.value) if type(placed.value) is bool else placed.value
        if type(text) is not str or not text.strip():
            self._page.problem(placed.place, "when is a comparison such as `{{ steps.plan.output.ok }} == true`")
            return None
        condition = self._read(lambda: parse_condition(text), placed.place)
        if condition is not None:
            self._check_paths(condition.paths, placed.place, names)
        return condition

    def _unset_tree(self, section: Section, name: str, names: tuple[str, ...]) -> Any:
        placed = section.placed(name)
        if placed is None:
            return msgspec.UNSET
        if name == "foreach" and isinstance(placed.value, str) and "{{" not in placed.value:
            path = self._read(lambda: parse_path(placed.value), placed.place)
            return self._tree(Placed(f"{{{{ {placed.value} }}}}", placed.place), names) if path else []
        return self._tree(placed, names)

    def _tree(self, placed: Placed | None, names: tuple[str, ...] = ()) -> Any:
        """A value with its texts read as templates, each problem at the text's own place."""
        if placed is None:
            return msgspec.UNSET
        if isinstance(placed.value, dict):
            return {key: self._tree(each, names) for key, each in placed.value.items()}
        if isinstance(placed.value, list):
            return [self._tree(each, names) for each in placed.value]
        value = self._read(lambda: parse_tree(placed.value), placed.place)
        self._check_paths(tuple(paths_in(value)), placed.place, names)
        return value

    def _read(self, parse: Callable[[], Any], place: Place) -> Any:
        try:
            return parse()
        except TemplateError as exc:
            self._page.problem(place, str(exc))
            return None

    def _check_paths(self, paths: Iterable[Path], place: Place, names: tuple[str, ...]) -> None:
        for path in paths:
            problem = self._path_problem(path, names)
            if problem:
                self._page.problem(place, f"{{{{ {path} }}}}: {problem}")

    def _path_problem(self, path: Path, names: tuple[str, ...]) -> str:
        head = path.parts[0]
        known = (*_ROOTS, *names)
        if head not in known:
            near = hint(str(head), known) or f"; there are {', '.join(known)}"
            return f"there is no {head!r}{near}"
        if head == "inputs" and len(path.parts) > 1:
            inputs = tuple(each.name for each in self._inputs)
            if path.parts[1] not in inputs:
                near = hint(str(path.parts[1]), inputs) or (f"; there are {', '.join(inputs)}" if inputs else "")
                return f"there is no input {path.parts[1]!r}{near}"
        if head == "steps" and len(path.parts) > 1 and path.parts[1] not in self._earlier:
            earlier = tuple(sorted(self._earlier))
            near = hint(str(path.parts[1]), earlier)
            return f"no earlier step is called {path.parts[1]!r}{near}; a step sees the results of those before it"
        return ""

    def _item_name(self, section: Section) -> str:
        placed = section.placed("as")
        if placed is None:
            return "item"
        if type(placed.value) is str and _NAME.fullmatch(placed.value) and placed.value not in (*_ROOTS, "index"):
            return placed.value
        self._page.problem(placed.place, "as is the name of an item, a word that is not inputs, steps or index")
        return "item"

    def _seconds(self, section: Section, name: str, default: float | None = None) -> float | None:
        placed = section.placed(name)
        if placed is None:
            return default
        seconds = duration(placed.value)
        if seconds is None or (seconds == 0 and name != "delay"):
            self._page.problem(placed.place, f"{name} is a time such as 30, 30s, 5m or 2h")
            return default
        return seconds

    def _flag_or_none(self, section: Section, name: str) -> bool | None:
        return section.flag(name, False) if section.placed(name) is not None else None


_STEP_KEYS = ("name", *KINDS, "input", "args", "foreach", "as", "limit", "when", "retry", "timeout", "on_error",
              "checkpoint")  # fmt: skip
_ONLY_FOR: Mapping[str, tuple[str, ...]] = {
    "input": ("agent",), "args": ("tool",), "retry": ("agent", "tool"), "timeout": ("agent", "tool"),
    "foreach": ("agent", "tool", "approval", "wait"),
}  # fmt: skip


def _plain(placed: Placed) -> Any:
    """A value without its places."""
    if isinstance(placed.value, dict):
        return {key: _plain(each) for key, each in placed.value.items()}
    return [_plain(each) for each in placed.value] if isinstance(placed.value, list) else placed.value


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}…"


def as_workflow(given: Any) -> Workflow:
    """The workflow that a caller named: a path, or one that was read already."""
    if isinstance(given, Workflow):
        return given
    if isinstance(given, str | os.PathLike):
        return load_workflow(given)
    raise InvalidInputError(f"workflow must be the path of a file or a Workflow, not {given!r}")
