"""The corpus of the benchmark: nothing that was corrected or deleted is found, nothing that holds is missed."""

from __future__ import annotations

import random

from benchmarks.memory import _asked, corpus
from perdure import Perdure
from perdure.memory import MemoryManager
from perdure.testing.clock import ManualClock


async def test_nothing_is_missed_and_nothing_that_went_comes_back() -> None:
    clock = ManualClock()
    async with Perdure.open("memory://", clock=clock) as store:
        memory = MemoryManager(store, user="alice")
        questions = await corpus(memory, clock, random.Random(7))
        rows = [await _asked(memory, each) for each in questions[::8]]
        assert sum(row[3] for row in rows) == 0
        assert min(row[1] for row, each in zip(rows, questions[::8], strict=True) if each.answers) == 1.0
