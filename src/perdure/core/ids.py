"""Ids: sortable by time of making, unique across processes."""

from __future__ import annotations

from perdure.core.ports import Clock, Randomness

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"  # Crockford's: no i, l, o, u to misread
_PAIRS = [a + b for a in _ALPHABET for b in _ALPHABET]
_FIRST, _CHARS = 12, 26  # the first twelve hold the time and six random bits
_NEVER = _ALPHABET[-1]  # what an id of the last years begins with: nobody's clock, and soon there is nothing after it
_LETTERS = bytes(ord(_ALPHABET[byte % 32]) for byte in range(256))  # five random bits of each byte


class IdMaker:
    """Makes ids that sort by time: 54 bits of microseconds (until the year 2540), then 76 random bits.

    Two ids of one maker always sort in the order they were made, even when the clock stands still or jumps back: then
    the time in an id runs ahead of the clock. No id is made from another one, so that none can be guessed from it.
    """

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = ""
        self._last_micros = -1

    def checkpoint(self) -> str:
        """Return a new checkpoint id: `chk_` and 26 characters."""
        return "chk_" + self.sortable()

    def follow(self, known: str | None) -> None:
        """Make ids that sort after this one too, which another process may have made by another clock."""
        digits = (known or "").removeprefix("chk_")
        if len(digits) == _CHARS and self._last < digits < _NEVER and not set(digits) - set(_ALPHABET):
            self._last, self._last_micros = digits, max(self._last_micros, _micros_of(digits))

    def sortable(self) -> str:
        """Return 26 characters that sort after every earlier id of this maker."""
        noise = self._randomness.bytes(1 + _CHARS - _FIRST)
        self._last_micros = micros = max(self._clock.now(), self._last_micros + 1)
        begin = (micros << 6) | (noise[0] & 63)
        pairs = (
            _PAIRS[begin >> 50 & 1023], _PAIRS[begin >> 40 & 1023], _PAIRS[begin >> 30 & 1023],
            _PAIRS[begin >> 20 & 1023], _PAIRS[begin >> 10 & 1023], _PAIRS[begin & 1023],
        )  # fmt: skip
        self._last = "".join(pairs) + noise[1:].translate(_LETTERS).decode()
        return self._last


def _micros_of(digits: str) -> int:
    """The time in an id."""
    begin = 0
    for digit in digits[:_FIRST]:
        begin = begin << 5 | _ALPHABET.index(digit)
    return begin >> 6
