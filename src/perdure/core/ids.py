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

    Two ids of one maker always sort in the order they were made, even when the clock stands still or jumps back.
    """

    def __init__(self, clock: Clock, randomness: Randomness) -> None:
        self._clock = clock
        self._randomness = randomness
        self._last = ""

    def checkpoint(self) -> str:
        """Return a new checkpoint id: `chk_` and 26 characters."""
        return "chk_" + self.sortable()

    def follow(self, known: str | None) -> None:
        """Make ids that sort after this one too, which another process may have made by another clock."""
        digits = (known or "").removeprefix("chk_")
        if len(digits) == _CHARS and digits < _NEVER and not set(digits) - set(_ALPHABET):
            self._last = max(self._last, digits)

    def sortable(self) -> str:
        """Return 26 characters that sort after every earlier id of this maker."""
        noise = self._randomness.bytes(1 + _CHARS - _FIRST)
        begin = (self._clock.now() << 6) | (noise[0] & 63)
        pairs = (
            _PAIRS[begin >> 50 & 1023], _PAIRS[begin >> 40 & 1023], _PAIRS[begin >> 30 & 1023],
            _PAIRS[begin >> 20 & 1023], _PAIRS[begin >> 10 & 1023], _PAIRS[begin & 1023],
        )  # fmt: skip
        fresh = "".join(pairs) + noise[1:].translate(_LETTERS).decode()
        self._last = fresh if fresh > self._last else _after(self._last)
        return self._last


def _after(text: str) -> str:
    """The next one of as many characters."""
    kept = text.rstrip(_ALPHABET[-1])
    following = _ALPHABET[_ALPHABET.index(kept[-1]) + 1]
    return (kept[:-1] + following).ljust(len(text), _ALPHABET[0])
