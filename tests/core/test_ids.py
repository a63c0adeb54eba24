"""Ids sort by time, never meet, and cannot be guessed: each carries 76 random bits of its own."""

from __future__ import annotations

import itertools
import math
import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from datetime import timedelta

import pytest

from perdure.app.clock import SystemClock, SystemRandomness
from perdure.core.ids import IdMaker
from perdure.core.ports import Clock
from perdure.testing.clock import ManualClock, SeededRandomness

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_RANDOM_BITS = 76
_MAKE_IDS = """
from perdure.app.clock import SystemClock, SystemRandomness
from perdure.core.ids import IdMaker
maker = IdMaker(SystemClock(), SystemRandomness())
print("\\n".join(maker.checkpoint() for _ in range(5000)))
"""


class _BackwardClock:
    """A clock that is set back again and again."""

    def __init__(self) -> None:
        self._now = 1_800_000_000_000_000

    def now(self) -> int:
        self._now -= 1_000_000
        return self._now


def bits_of(made: str) -> int:
    """The random bits of an id: the last six of its first twelve characters, and the fourteen after them."""
    number = 0
    for each in made.removeprefix("chk_"):
        number = number << 5 | _ALPHABET.index(each)
    return number & ((1 << _RANDOM_BITS) - 1)


def test_ids_of_one_maker_sort_even_when_the_clock_stands_still_or_goes_back() -> None:
    clock = ManualClock()
    maker = IdMaker(clock, SeededRandomness(1))
    made = [maker.checkpoint() for _ in range(1000)]
    clock.advance(timedelta(days=-1))
    made += [maker.checkpoint() for _ in range(1000)]
    assert made == sorted(set(made))


def test_ids_follow_one_that_another_clock_made() -> None:
    maker = IdMaker(ManualClock(), SeededRandomness(1))
    for known in ("chk_" + "y" + "z" * 25, "chk_" + "z" * 26, "chk_" + "z" + "y" * 25, "chk_short", None):
        maker.follow(known)
    made = [maker.checkpoint() for _ in range(100)]
    assert made == sorted(set(made))
    assert made[0].startswith("chk_z" + "0" * 9)  # the microsecond after the last that anybody's clock may have shown
    assert all(len(each) == 30 for each in made)


def test_an_id_that_is_followed_is_not_counted_on_from() -> None:
    first, second = (IdMaker(ManualClock(), SystemRandomness()) for _ in range(2))
    known = first.checkpoint()
    second.follow(known)
    following = second.checkpoint()
    assert following > known
    assert _different_bits(bits_of(known), bits_of(following)) > 10


def test_ids_of_two_processes_do_not_meet() -> None:
    runs = [subprocess.Popen([sys.executable, "-c", _MAKE_IDS], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    made = [line for run in runs for line in run.communicate()[0].split()]
    assert len(made) == len(set(made)) == 10_000
    assert all(line.startswith("chk_") and len(line) == 30 for line in made)


@pytest.mark.parametrize("clock", [SystemClock, ManualClock, _BackwardClock])
def test_each_of_the_76_bits_is_random_whatever_the_clock_does(clock: Callable[[], Clock]) -> None:
    maker, count = IdMaker(clock(), SystemRandomness()), 4000
    made = [bits_of(maker.checkpoint()) for _ in range(count)]
    for bit in range(_RANDOM_BITS):
        set_ones = sum(number >> bit & 1 for number in made)
        assert abs(set_ones - count / 2) < 8 * math.sqrt(count) / 2  # one false alarm in 10^13


@pytest.mark.parametrize("clock", [SystemClock, ManualClock, _BackwardClock])
def test_an_id_says_nothing_of_the_random_bits_of_the_next(clock: Callable[[], Clock]) -> None:
    maker, count = IdMaker(clock(), SystemRandomness()), 2000
    made = [bits_of(maker.checkpoint()) for _ in range(count)]
    changed = [_different_bits(one, other) for one, other in itertools.pairwise(made)]
    assert min(changed) > 10
    assert abs(sum(changed) / len(changed) - _RANDOM_BITS / 2) < 1


def test_every_character_is_as_likely_as_any_other() -> None:
    maker = IdMaker(SystemClock(), SystemRandomness())
    counts = Counter("".join(maker.sortable()[12:] for _ in range(4000)))
    each = 4000 * 14 / 32
    assert set(counts) == set(_ALPHABET)
    assert all(abs(count - each) < 8 * math.sqrt(each) for count in counts.values())


def test_makers_whose_clocks_stand_at_the_same_microsecond_do_not_meet() -> None:
    clock = ManualClock()
    made = [IdMaker(clock, SystemRandomness()).sortable() for _ in range(100_000)]
    assert len(set(made)) == 100_000
    assert len({each[:11] for each in made}) < 3  # the time is the same in all of them: only the bits tell them apart


def test_ids_sort_by_the_time_that_makers_were_asked_at() -> None:
    clock = ManualClock()
    makers = [IdMaker(clock, SystemRandomness()) for _ in range(5)]
    made: list[str] = []
    for _ in range(500):
        clock.advance(timedelta(microseconds=1))
        made.append(random.choice(makers).sortable())
    assert made == sorted(made)


def _different_bits(one: int, other: int) -> int:
    return (one ^ other).bit_count()
