"""The list of promises and the tests that show them belong together."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.seeds.promises import ROOT, collect, every_number, numbers_in, report, sources, unknown

PAGE = ROOT / "docs" / "reference" / "promises.md"
MODULE = '''
def test_one():
    """A thing. S2.6, S2.7"""

class TestMany:
    async def test_two(self):
        """S2.7–S2.9 and B3."""

    def helper(self):
        """S1.1"""

def test_three(): ...
'''


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("Redis is in front. S2.6.", ["S2.6"]),
        ("S2.6, S2.7", ["S2.6", "S2.7"]),
        ("S2.9–S2.11", ["S2.9", "S2.10", "S2.11"]),
        ("B3-B4 · N0", ["B3", "B4", "N0"]),
        ("on S3, in version 2.6, of B3x, of x.B3, S2.6.1", []),
        ("S2.60", ["S2.60"]),
    ],
)
def test_numbers_are_found_in_words(text: str, numbers: list[str]) -> None:
    assert numbers_in(text) == numbers


@pytest.mark.parametrize("text", ["S2.9–S2.6", "S2.6–S3.1"])
def test_a_range_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="no range"):
        numbers_in(text)


def test_only_docstrings_of_tests_count() -> None:
    one, two = "tests/test_a.py::test_one", "tests/test_a.py::TestMany::test_two"
    shown = {"S2.6": [one], "S2.7": [one, two], "S2.8": [two], "S2.9": [two], "B3": [two]}
    assert collect({"tests/test_a.py": MODULE}) == shown


def test_the_list_has_every_promise_once() -> None:
    numbers = every_number()
    assert len(numbers) == len(set(numbers)) == 40 + 45 + 59 + 36 + 32 + 5 + 22
    assert (numbers[0], numbers[40], numbers[-1]) == ("S0.1", "S1.1", "B22")


def test_a_number_outside_the_list_is_noticed() -> None:
    assert unknown({"S2.59": ["a"], "S2.60": ["b"], "B0": ["c"]}) == {"S2.60": ["b"], "B0": ["c"]}


def test_no_test_names_a_promise_that_does_not_exist() -> None:
    assert unknown(collect(sources())) == {}


def test_the_report_says_what_is_shown_and_what_is_left() -> None:
    lines = report({number: ["tests/test_a.py::test_x"] for number in every_number() if number not in ("B2", "B3")})
    assert lines.startswith("237 of 239 promises are shown by a test\n\nS0.1\n  tests/test_a.py::test_x\n")
    assert lines.endswith("still without a test\n  beyond the seeds: B2–B3")


def test_the_command_prints_the_report() -> None:
    command = [sys.executable, "-m", "tests.seeds.promises"]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said == report(collect(sources())) + "\n"


def test_the_page_claims_nothing_that_no_test_shows() -> None:
    rows = re.findall(r"^\| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    claimed = {number for row in rows for number in numbers_in(row)}
    assert claimed
    assert claimed <= set(collect(sources()))
