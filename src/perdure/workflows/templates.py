"""Templates and conditions of a workflow file: paths into inputs and results, and nothing that is executed.

`{{ steps.plan.output.city }}` names a place in the data of a run. A path goes through the keys of mappings and the
positions of lists only: it never reaches an attribute, a method or a function of an object.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

_BRACES = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_NAME = r"[A-Za-z_][A-Za-z0-9_-]*"
_PART = re.compile(rf"\.({_NAME}|\d{{1,9}})|\[(-?\d{{1,9}})\]|\[\"([^\"\n]*)\"\]|\['([^'\n]*)'\]")
_HEAD = re.compile(_NAME)
_TOKEN = re.compile(
    r"\s*(?:(?P<path>\{\{.*?\}\})|(?P<op>==|!=|<=|>=|<|>)|(?P<text>\"[^\"\n]*\"|'[^'\n]*')"
    r"|(?P<number>-?\d{1,18}(?:\.\d{1,18})?(?![\w.]))|(?P<word>[A-Za-z_][^\s=!<>]*))"
)
_LITERALS = {"true": True, "false": False, "null": None, "none": None}
_OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in")
_MAX_TEXT = 1_000_000  # characters of a text made by a template
_MAX_TERMS = 20  # of a condition

Value = Any


class TemplateError(ValueError):
    """A template or a condition that cannot be read, or a path that leads nowhere."""


class Path(msgspec.Struct, frozen=True):
    """A place in the data of a run: names and positions."""

    parts: tuple[str | int, ...]

    def __str__(self) -> str:
        head, *rest = self.parts
        return str(head) + "".join(f"[{each}]" if isinstance(each, int) else f".{each}" for each in rest)


class Template(msgspec.Struct, frozen=True):
    """A text with paths in it."""

    source: str
    parts: tuple[str | Path, ...]

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths in it."""
        return tuple(each for each in self.parts if isinstance(each, Path))


class Comparison(msgspec.Struct, frozen=True):
    """Two values and how they are compared; without an operator, whether the left one is true."""

    left: Value  # a Path or a literal
    operator: str = ""
    right: Value = None
    negated: bool = False


class Condition(msgspec.Struct, frozen=True):
    """Comparisons of which all, or any, must hold."""

    source: str
    terms: tuple[Comparison, ...]
    any_of: bool = False

    @property
    def paths(self) -> tuple[Path, ...]:
        """The paths in it."""
        sides = (side for term in self.terms for side in (term.left, term.right))
        return tuple(side for side in sides if isinstance(side, Path))


def parse_path(text: str) -> Path:
    """Read a path; raise `TemplateError`."""
    text = text.strip()
    head = _HEAD.match(text)
    if head is None:
        raise TemplateError(f"{{{{ {_short(text)} }}}} is no path; write one such as {{{{ steps.plan.output.city }}}}")
    parts: list[str | int] = [head[0]]
    at = head.end()
    while at < len(text):
        part = _PART.match(text, at)
        if part is None:
            raise TemplateError(
                f"{{{{ {_short(text)} }}}} is no path: {_short(text[at:])!r} is not understood. Only names, "
                f'[positions] and ["keys"] are; nothing is computed'
            )
        name, position, *quoted = part.groups()
        if position is not None:
            parts.append(int(position))
        elif name is not None:
            parts.append(int(name) if name.isdigit() else name)
        else:
            parts.append(next(each for each in quoted if each is not None))
        at = part.end()
    if any(isinstance(each, str) and each.startswith("__") for each in parts):
        raise TemplateError(f"{{{{ {_short(text)} }}}}: names that begin with __ are not read")
    return Path(tuple(parts))


def parse_template(text: str) -> str | Template:
    """Read a text; one without braces is itself."""
    parts: list[str | Path] = []
    end = 0
    for found in _BRACES.finditer(text):
        if found.start() > end:
            parts.append(text[end : found.start()])
        parts.append(parse_path(found[1]))
        end = found.end()
    rest = text[end:]
    if "{{" in rest or ("}}" in rest and parts):
        raise TemplateError(f"{_short(text)!r}: {{{{ and }}}} do not match")
    if not parts:
        return text
    return Template(text, (*parts, *([rest] if rest else [])))


def parse_condition(text: str) -> Condition:
    """Read a condition such as `{{ steps.plan.output.ok }} == true`; raise `TemplateError`."""
    tokens = list(_tokens(text))
    words = [value for kind, value in tokens if kind == "join"]
    if len(set(words)) > 1:
        raise TemplateError(f"{_short(text)!r} mixes `and` and `or`; use two steps, or one of the two words")
    terms = [_comparison(group, text) for group in _split(tokens)]
    if len(terms) > _MAX_TERMS:
        raise TemplateError(f"a condition has at most {_MAX_TERMS} comparisons, this one has {len(terms)}")
    return Condition(text, tuple(terms), any_of=bool(words) and words[0] == "or")


def _tokens(text: str) -> Iterator[tuple[str, Any]]:
    at = 0
    while at < len(text.rstrip()):
        found = _TOKEN.match(text, at)
        if found is None:
            raise TemplateError(
                f"{_short(text)!r}: {_short(text[at:].strip())!r} is not understood; compare paths and values by "
                f"{' '.join(_OPERATORS)}, joined by `and` or `or`"
            )
        yield _token(found)
        at = found.end()


def _token(found: re.Match[str]) -> tuple[str, Any]:
    kind, text = found.lastgroup or "", found[found.lastgroup or 0]
    if kind == "path":
        return "value", parse_path(text[2:-2])
    if kind == "text":
        return "value", text[1:-1]
    if kind == "number":
        return "value", float(text) if "." in text else int(text)
    if kind == "op" or text == "in":
        return "op", text
    if text in ("and", "or"):
        return "join", text
    if text == "not":
        return "not", text
    return "value", _LITERALS[text.lower()] if text.lower() in _LITERALS else parse_path(text)


def _split(tokens: Sequence[tuple[str, Any]]) -> Iterator[list[tuple[str, Any]]]:
    group: list[tuple[str, Any]] = []
    for token in tokens:
        if token[0] == "join":
            yield group
            group = []
        else:
            group.append(token)
    yield group


def _comparison(tokens: Sequence[tuple[str, Any]], text: str) -> Comparison:
    negated = bool(tokens) and tokens[0][0] == "not"
    rest = list(tokens[1:] if negated else tokens)
    kinds = [kind for kind, _ in rest]
    if kinds == ["value"]:
        return Comparison(rest[0][1], negated=negated)
    if kinds == ["value", "not", "op", "value"] and rest[2][1] == "in":
        return Comparison(rest[0][1], "in", rest[3][1], negated=not negated)
    if kinds == ["value", "op", "value"]:
        return Comparison(rest[0][1], rest[1][1], rest[2][1], negated)
    raise TemplateError(f"{_short(text)!r} is no condition; write one such as `{{{{ steps.plan.output.ok }}}} == true`")


def parse_tree(value: Any) -> Any:
    """The same value with each text in it read as a template."""
    if isinstance(value, str):
        return parse_template(value)
    if isinstance(value, Mapping):
        return {key: parse_tree(each) for key, each in value.items()}
    return [parse_tree(each) for each in value] if isinstance(value, list) else value


def paths_in(value: Any) -> Iterator[Path]:
    """Every path in a value of templates."""
    if isinstance(value, Template | Condition):
        yield from value.paths
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from paths_in(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from paths_in(each)


def source_of(value: Any) -> Any:
    """A value of templates as the file has it."""
    if isinstance(value, Template | Condition):
        return value.source
    if value is msgspec.UNSET:
        return None
    if isinstance(value, Mapping):
        return {key: source_of(each) for key, each in value.items()}
    return [source_of(each) for each in value] if isinstance(value, list | tuple) else value


def look_up(path: Path, data: Mapping[str, Any]) -> Any:
    """The value at a path; raise `TemplateError` that names the part that is not there."""
    value: Any = data
    for depth, part in enumerate(path.parts):
        if isinstance(value, Mapping) and part in value:
            value = value[part]
        elif isinstance(value, Mapping) and str(part) in value:
            value = value[str(part)]
        elif isinstance(value, list | tuple) and isinstance(part, int) and -len(value) <= part < len(value):
            value = value[part]
        else:
            raise TemplateError(f"{{{{ {path} }}}}: {_absence(value, path, depth)}")
    return value


def _absence(value: Any, path: Path, depth: int) -> str:
    before = str(Path(path.parts[:depth])) if depth else "the data of a run"
    if isinstance(value, Mapping):
        names = ", ".join(_short(str(each)) for each in list(value)[:8])
        return f"{before} has no {path.parts[depth]!r}; it has {names or 'nothing'}"
    if isinstance(value, list | tuple):
        return f"{before} is a list of {len(value)}; {path.parts[depth]!r} is no position in it"
    return f"{before} is {type(value).__name__}, which has no {path.parts[depth]!r}"


def fill(value: Any, data: Mapping[str, Any]) -> Any:
    """A value of templates filled in. A text that is one path alone gives the value itself."""
    if isinstance(value, Template):
        if len(value.parts) == 1:
            return look_up(value.paths[0], data)
        text = "".join(each if isinstance(each, str) else _as_text(look_up(each, data)) for each in value.parts)
        if len(text) > _MAX_TEXT:
            raise TemplateError(f"{_short(value.source)!r} makes a text of {len(text)} characters; at most {_MAX_TEXT}")
        return text
    if isinstance(value, Mapping):
        return {key: fill(each, data) for key, each in value.items()}
    return [fill(each, data) for each in value] if isinstance(value, list) else value


def holds(condition: Condition, data: Mapping[str, Any]) -> bool:
    """Whether a condition holds; raise `TemplateError` for values that cannot be compared."""
    results = (_holds(term, data, condition.source) for term in condition.terms)
    return any(results) if condition.any_of else all(results)


def _holds(term: Comparison, data: Mapping[str, Any], source: str) -> bool:
    left, right = (look_up(each, data) if isinstance(each, Path) else each for each in (term.left, term.right))
    try:
        return _compare(left, term.operator, right) is not term.negated
    except TypeError as exc:
        kinds = f"{type(left).__name__} and {type(right).__name__}"
        raise TemplateError(f"{_short(source)!r}: {kinds} cannot be compared by {term.operator}") from exc


def _compare(left: Any, operator: str, right: Any) -> bool:
    if not operator:
        return bool(left)
    if operator == "in":
        return left in right
    if operator in ("==", "!="):
        return (left == right) is (operator == "==")
    return {"<": left < right, "<=": left <= right, ">": left > right, ">=": left >= right}[operator]


def _as_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        return str(value)


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= 80 else f"{text[:80]}…"
