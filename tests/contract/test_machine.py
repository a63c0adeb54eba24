"""Random operations have the same answers on every backend and in a model of plain dicts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perdure.testing.contract import Mode
from tests.contract.backends import BACKENDS, MODES
from tests.contract.stages import machine, play

STEPS = 1000


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BACKENDS)
def test_a_thousand_random_operations_have_the_models_answers(
    name: str, mode: Mode, record_property: Callable[[str, object], None]
) -> None:
    played = play(machine(name, mode), plays=32)
    record_property("steps", played)
    print(f"{name} {mode}: {played} operations")
    assert played >= STEPS
