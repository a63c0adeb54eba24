"""A flipped bit changes nothing that is read, or gives a typed error; it never gives another state."""

from __future__ import annotations

import os

import pytest

from tests.faults import flips
from tests.faults.places import DURABLE

FLIPS = int(os.environ.get("PERDURE_FLIPS", "100"))  # `make crash` has two thousand


@pytest.fixture(scope="module", params=DURABLE)
def tally(request: pytest.FixtureRequest) -> flips.Tally:
    found = flips.run(request.param, FLIPS, seed=2)
    print(flips.table({request.param: found}))
    return found


def test_a_flipped_bit_never_gives_another_state(tally: flips.Tally) -> None:
    assert tally.other_state == []


# of test_damage.py show each one by itself.
def test_a_flipped_bit_gives_no_error_but_a_typed_one(tally: flips.Tally) -> None:
    assert tally.other_error == []


def test_most_flips_are_noticed(tally: flips.Tally) -> None:
    assert tally.told > tally.flips // 4
