"""For tests: a clock they can move, repeatable randomness, and the contract that every storage has to keep.

`perdure.testing.contract` needs pytest and `perdure.testing.machine` hypothesis; this module needs neither.
"""

from __future__ import annotations

from perdure.testing.clock import ManualClock, SeededRandomness

__all__ = ["ManualClock", "SeededRandomness"]
