"""A few planted faults on every run; `make mutants` plants them all."""

from __future__ import annotations

import pytest

from perdure.testing.servers import require, shared_postgres
from tests.mutants.hunt import hunt

CHOSEN = [
    "expected check dropped",
    "key check dropped: sqlite",
    "payload digest check dropped",
    "plans not checked: sqlite",
]
ON_POSTGRES = ["uid check dropped: postgres", "a late run writes: known line and time"]


@pytest.mark.parametrize("name", CHOSEN)
def test_a_planted_fault_is_noticed(name: str) -> None:
    assert hunt(name) == "caught"


@pytest.mark.parametrize("name", ON_POSTGRES)
def test_a_fault_planted_on_postgres_is_noticed(name: str) -> None:
    require(shared_postgres)
    assert hunt(name) == "caught"
