"""What time it is at the server, as far as its answers tell."""

from __future__ import annotations

import pytest

from perdure.storage.sql import server_time
from perdure.storage.sql.server_time import ServerTime


class Hands:
    """A monotonic clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    hands = Hands()
    monkeypatch.setattr(server_time, "monotonic", hands)
    return hands


def test_a_time_that_was_told_goes_on_as_ours_does(hands: Hands) -> None:
    time = ServerTime()
    assert time.now() is None
    asked, hands.at = hands.at, hands.at + 0.001
    time.hear(5_000_000, asked)
    assert time.now() == 5_000_000
    hands.at += 1.5
    assert time.now() == pytest.approx(6_500_000, abs=1)


def test_an_answer_that_took_long_tells_nothing(hands: Hands) -> None:
    time = ServerTime()
    asked, hands.at = hands.at, hands.at + 0.041
    time.hear(5_000_000, asked)
    assert time.now() is None


def test_a_time_that_was_told_long_ago_is_not_believed(hands: Hands) -> None:
    time = ServerTime()
    time.hear(5_000_000, hands.at)
    hands.at += 59.9
    assert time.now() is not None
    hands.at += 0.2
    assert time.now() is None
