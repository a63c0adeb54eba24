"""A pytest plugin that plants the fault named by `PERDURE_MUTANT` before the tests are collected."""

from __future__ import annotations

import os


def pytest_configure() -> None:
    name = os.environ.get("PERDURE_MUTANT")
    if name:
        from tests.mutants.faults import FAULTS
        from tests.mutants.planting import load_everything

        load_everything()
        FAULTS[name].plant()
