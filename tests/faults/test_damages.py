"""A damaged database gives what was saved or a typed error, `verify` finds it, and other threads do not notice."""

from __future__ import annotations

import os

import pytest

from tests.faults import damages

FAULTS = int(os.environ.get("PERDURE_DAMAGES", "80"))  # `make crash` has fifteen hundred


@pytest.fixture(scope="module")
def tally() -> damages.Tally:
    found = damages.run(FAULTS, seed=int(os.environ.get("PERDURE_SEED", "11")))
    print(found.kinds)
    return found


def test_every_state_and_log_is_right_or_a_typed_error(tally: damages.Tally) -> None:
    assert tally.wrong == []


def test_verify_finds_whatever_is_not_right(tally: damages.Tally) -> None:
    assert tally.unseen == []


def test_other_threads_do_not_notice(tally: damages.Tally) -> None:
    assert tally.spread == []


def test_most_faults_are_noticed(tally: damages.Tally) -> None:
    assert tally.told > tally.faults // 3
