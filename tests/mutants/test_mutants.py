"""A few planted faults on every run; `make mutants` plants them all."""

from __future__ import annotations

import pytest

from tests.mutants.hunt import hunt

CHOSEN = [
    "expected check dropped",
    "key check dropped: sqlite",
    "user predicate dropped: file",
    "payload digest check dropped",
]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_planted_fault_is_noticed(name: str) -> None:
    assert hunt(name) == "caught"
