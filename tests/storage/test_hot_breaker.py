"""When a Redis that failed is asked again."""

from __future__ import annotations

from perdure.storage.hot.breaker import CALM, FIRST, LONGEST, Breaker


def opened() -> Breaker:
    breaker = Breaker()
    assert breaker.failed(1000.0)
    return breaker


def test_it_lets_everybody_through_until_something_fails() -> None:
    breaker = Breaker()
    assert all(breaker.admits(float(now)) for now in range(3))
    assert not breaker.succeeded(3.0)


def test_one_failure_opens_it_for_a_while() -> None:
    breaker = opened()
    assert not breaker.admits(1000.0)
    assert not breaker.admits(1000.0 + FIRST * 0.99)


def test_failures_of_those_who_were_under_way_count_once() -> None:
    breaker = opened()
    assert not any(breaker.failed(1000.01) for _ in range(7))
    assert breaker.wait == FIRST


def test_after_the_while_one_caller_probes_and_the_others_wait() -> None:
    breaker = opened()
    assert [breaker.admits(1000.0 + FIRST) for _ in range(3)] == [True, False, False]


def test_a_probe_that_succeeds_closes_it_for_all() -> None:
    breaker = opened()
    breaker.admits(1000.0 + FIRST)
    assert breaker.succeeded(1001.0)
    assert breaker.state == "closed"
    assert all(breaker.admits(1001.0) for _ in range(3))


def test_a_probe_that_fails_makes_the_while_longer_up_to_a_limit() -> None:
    breaker, now, waits = opened(), 1000.0, list[float]()
    for _ in range(9):
        waits.append(breaker.wait)
        now += breaker.wait
        assert breaker.admits(now)
        assert not breaker.failed(now)  # it was open before: nobody is told again
    assert waits == [0.5, 1.0, 2.0, 4.0, 8.0, 16.0, LONGEST, LONGEST, LONGEST]


def test_one_that_fails_again_soon_is_left_alone_for_longer_than_one_that_was_calm() -> None:
    for later, wait in ((1.0, 2 * FIRST), (CALM, FIRST)):
        breaker = opened()
        breaker.admits(1000.0 + FIRST)
        breaker.succeeded(1001.0)
        assert breaker.failed(1001.0 + later)
        assert breaker.wait == wait


def test_a_late_success_of_before_the_failure_does_not_close_it() -> None:
    breaker = opened()
    assert not breaker.succeeded(1000.01)
    assert breaker.state == "open"
