"""Damaged files: every answer is right or a typed error, other threads are untouched, `verify` finds it."""

from __future__ import annotations

import os

import pytest

from tests.faults import damage_campaign

FAULTS = int(os.environ.get("PERDURE_DAMAGES", "60"))  # `make crash` has three thousand


@pytest.mark.timeout(3600)
def test_a_damaged_folder_answers_right_or_with_a_typed_error() -> None:
    tally = damage_campaign.run("file", FAULTS, seed=5)
    print(dict(tally.outcomes))
    assert tally.wrong == []
    assert tally.outcomes["told"] > FAULTS // 4
