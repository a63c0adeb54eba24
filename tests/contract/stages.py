"""Fresh places for random plays."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from perdure.storage.contract import Storage
from perdure.testing.contract import Mode
from perdure.testing.machine import StorageMachine
from tests.contract.backends import BACKENDS

STEPS = 50  # of one play


class TemporaryStage:
    """A backend in a temporary folder."""

    def __init__(self, name: str, mode: Mode) -> None:
        self.mode: str = mode
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-play-"))
        self._backend = BACKENDS[name](mode, self._folder)
        self.forgets = self._backend.forgets

    async def open(self) -> Storage:
        return self._backend.open()

    def close(self) -> None:
        self._backend.clear()
        shutil.rmtree(self._folder, ignore_errors=True)


def machine(name: str, mode: Mode) -> type[StorageMachine]:
    """The machine that plays on one backend; it counts its steps from 0 on."""
    members: dict[str, Any] = {"stage": staticmethod(lambda: TemporaryStage(name, mode)), "steps": 0}
    return type(f"{name}_{mode}", (StorageMachine,), members)


def play(player: type[StorageMachine], plays: int, *, repeatable: bool = True, shrink: bool = False) -> int:
    """Play so many times, and return how many operations were really done altogether.

    Shrinking a play takes minutes: the one that failed is shown as it is, unless `shrink` is asked for.
    """
    rules = settings(
        max_examples=plays,
        stateful_step_count=STEPS,
        derandomize=repeatable,
        database=None,
        deadline=None,  # also outside of pytest, whose profile says so
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        report_multiple_bugs=False,
        phases=(Phase.generate, Phase.shrink) if shrink else (Phase.generate,),
    )
    run_state_machine_as_test(player, settings=rules)
    return player.steps
