"""Which promises are shown by a test: `python -m tests.seeds.promises`.

A test that shows one has its number in its docstring: `S2.6`, or `S2.6, S2.7`, or `S2.6–S2.9`.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
GROUPS: dict[str, dict[str, str | int]] = json.loads((HERE / "counts.json").read_text(encoding="utf-8"))
_NUMBER = r"(?:S\d+\.|[NB])\d+"
_WRITTEN = re.compile(rf"(?<![\w.])({_NUMBER})(?:\s?[-–]\s?({_NUMBER}))?(?![\w]|\.\d)")

Shown = dict[str, list[str]]  # the tests of each number


def every_number() -> list[str]:
    """The whole list, in order."""
    return [f"{group}{at}" for group, each in GROUPS.items() for at in range(int(each["first"]), int(each["last"]) + 1)]


def numbers_in(text: str) -> list[str]:
    """The numbers a text names, ranges written out, in the order of the text."""
    return [number for found in _WRITTEN.finditer(text) for number in _between(found[1], found[2] or found[1])]


def _between(first: str, last: str) -> list[str]:
    (group, start), (other, end) = _taken_apart(first), _taken_apart(last)
    if group != other or end < start:
        raise ValueError(f"{first}–{last} is no range")
    return [f"{group}{at}" for at in range(start, end + 1)]


def _taken_apart(number: str) -> tuple[str, int]:
    digits = re.search(r"\d+$", number)
    assert digits is not None
    return number[: digits.start()], int(digits[0])


def tests_in(source: str) -> Iterator[tuple[str, str]]:
    """The name (`test_x`, or `TestY::test_x`) and the docstring of every test of a module that has one."""
    yield from _tests_of(ast.parse(source).body, "")


def _tests_of(body: Iterable[ast.stmt], within: str) -> Iterator[tuple[str, str]]:
    for node in body:
        if isinstance(node, ast.ClassDef):
            yield from _tests_of(node.body, f"{within}{node.name}::")
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            yield f"{within}{node.name}", ast.get_docstring(node) or ""


def collect(sources: Mapping[str, str]) -> Shown:
    """The tests that name each number, from the texts of modules by their paths."""
    shown: Shown = {}
    for path, source in sources.items():
        for name, docstring in tests_in(source):
            for number in dict.fromkeys(numbers_in(docstring)):
                shown.setdefault(number, []).append(f"{path}::{name}")
    return shown


def unknown(shown: Shown) -> Shown:
    """What tests name and is not in the list."""
    known = set(every_number())
    return {number: tests for number, tests in shown.items() if number not in known}


def sources() -> dict[str, str]:
    """Every test module of this repository."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


def report(shown: Shown) -> str:
    """What is shown, by which tests, and what is not yet."""
    numbers = every_number()
    there = [number for number in numbers if number in shown]
    lines = [f"{len(there)} of {len(numbers)} promises are shown by a test"]
    for number in there:
        lines += ["", number, *(f"  {test}" for test in shown[number])]
    lines += ["", "still without a test"]
    for group, missing in groupby((each for each in numbers if each not in shown), lambda each: _taken_apart(each)[0]):
        lines.append(f"  {GROUPS[group]['of']}: {_ranges(list(missing))}")
    return "\n".join(lines)


def _ranges(numbers: list[str]) -> str:
    """Numbers of one group with their neighbours joined: `B1, B4–B6`."""
    runs: list[list[str]] = []
    for number in numbers:
        if runs and _taken_apart(runs[-1][-1])[1] + 1 == _taken_apart(number)[1]:
            runs[-1].append(number)
        else:
            runs.append([number])
    return ", ".join(run[0] if len(run) == 1 else f"{run[0]}–{run[-1]}" for run in runs)


if __name__ == "__main__":
    print(report(collect(sources())))
