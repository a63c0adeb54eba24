"""The nodes of an encoded value, stepped over without building anything."""

from __future__ import annotations

from msgspec import Raw

from perdure.core import zoo

# The extensions whose body is again one value; the others are leaves.
_WITH_VALUES = frozenset({
    zoo.TUPLE, zoo.SET, zoo.FROZENSET, zoo.MAPPING, zoo.OBJECT, zoo.ENUM, zoo.RECORD, zoo.DATETIME, zoo.TIME, zoo.PATH,
    zoo.FRACTION, zoo.COMPLEX, zoo.RANGE,
})  # fmt: skip
_FIXED = bytes(
    1 if head < 0xA0 or head >= 0xE0 or 0xC0 <= head <= 0xC3 else head - 0x9F if head < 0xC0 else step
    for head, step in ((head, {0xCA: 5, 0xCB: 9, 0xCC: 2, 0xCD: 3, 0xCE: 5, 0xCF: 9, 0xD0: 2, 0xD1: 3, 0xD2: 5,
                               0xD3: 9, 0xDC: 3, 0xDD: 5, 0xDE: 3, 0xDF: 5}.get(head, 0)) for head in range(256))
)  # fmt: skip  # bytes to the next node; 0 where a length follows the head
_DEEPEST = 10_000  # extensions in extensions, which no decoder would follow
_LENGTHS = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}  # of texts and bytes: how many bytes the length has
_EXT_LENGTHS = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXT = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def nodes(body: bytes | bytearray | memoryview | Raw, most: int) -> int:
    """How many nodes an encoded value has; counting stops right after `most`.

    The nodes lie one after the other, so nothing is built and nothing is nested: a long text is one step. Bytes that
    are no value count too; their decoder refuses them.
    """
    data = body if isinstance(body, bytes) else memoryview(body)
    count, parts = 0, [(0, len(data))]
    fixed = _FIXED
    while parts:
        at, end = parts.pop()
        while at < end:
            count += 1
            if count > most:
                return count
            step = fixed[data[at]]
            if step:
                at += step
                continue
            at, inner = past(data, at, end)
            if inner is not None:
                if len(parts) == _DEEPEST:
                    return most + 1
                parts.append((at, end))  # to go on behind it
                at, end = inner
    return count


def past(data: bytes | memoryview, at: int, end: int) -> tuple[int, tuple[int, int] | None]:
    """Where the node after the one at `at` begins, and where the body lies of an extension that holds a value."""
    head = data[at]
    if _FIXED[head]:
        return at + _FIXED[head], None
    if head in _LENGTHS:
        start = at + 1 + _LENGTHS[head]
        return start + int.from_bytes(data[at + 1 : start], "big"), None
    if head in _FIXED_EXT:
        start, size = at + 2, _FIXED_EXT[head]
    elif head in _EXT_LENGTHS:
        start = at + 2 + _EXT_LENGTHS[head]
        size = int.from_bytes(data[at + 1 : start - 1], "big")
    else:
        return at + 1, None  # a head that msgpack does not have
    holds = start <= end and data[start - 1] in _WITH_VALUES
    return start + size, (start, min(start + size, end)) if holds else None
