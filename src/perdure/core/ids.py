"""Ids: sortable by time of making, unique across processes."""

from __future__ import annotations

from perdure.core.ports import Clock, Randomness

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u to misread
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_RANDOM_BITS = 76
_TIME_BITS = 54  # microseconds until the year 2540
_CHARS = (_TIME_BITS + _RANDOM_BITS) // 5


class IdMaker:
    """Makes ids that sort by time: 54 bits of microseconds, then 76 random bits.

    Two ids of one maker always sort in the order they were made, even when the clock stands still or jumps back.
    """

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = 0

    def checkpoint(self) -> str:
        """Return a new checkpoint id: `chk_` and 26 characters."""
        return "chk_" + self.sortable()

    def follow(self, known: str | None) -> None:
        """Make ids that sort after this one too, which another process may have made by another clock."""
        digits = (known or "").removeprefix("chk_")
        if len(digits) == _CHARS and not set(digits) - set(_ALPHABET):
            self._last = max(self._last, _decode(digits))

    def sortable(self) -> str:
        """Return 26 characters that sort after every earlier id of this maker."""
        noise = int.from_bytes(self._randomness.bytes(10), "big") >> (80 - _RANDOM_BITS)
        fresh = (self._clock.now() << _RANDOM_BITS) | noise
        self._last = fresh if fresh > self._last else self._last + 1
        return _encode(self._last)


def _decode(text: str) -> int:
    value = 0
    for char in text:
        value = value * 32 + _ALPHABET.index(char)
    return value


def _encode(value: int) -> str:
    pairs: list[str] = []
    for _ in range(_CHARS // 2):
        pairs.append(_PAIRS[value & 1023])
        value >>= 10
    return "".join(reversed(pairs))
