"""Scanning an encoded value before anything is built of it: its nodes, and keys that were chosen to collide.

Keys that were chosen to collide: mappings and sets of them would take minutes to build.

Hashes of texts and bytes are secret in each process; those of numbers, tuples and times are not. CPython looks
for a free slot from the hash on, and who knows the way can make each key walk over all that came before: by equal
hashes, or by different ones whose ways meet. So the way is walked here first, with one byte for each slot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

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


SMALLEST = 500  # keys: fewer that collide take 1 ms
_PROBES = 24  # jumps that a key may take on average; one of random bits takes 1, dense and shifted ones less than 13
LARGE = 4096  # an encoded mapping of 1,000 keys that collide has more
_MASK = (1 << 64) - 1
_SECRET = {str, bytes}
NEAR = 9  # of a set of CPython


def collide(keys: Collection[object], *, near: int = 0) -> bool:
    """Whether building a dict of these different keys, in this order, takes far longer than of others.

    With `near`, a set: that many slots it looks at one after the other before it jumps.
    """
    if len(keys) < SMALLEST or set(map(type, keys)) <= _SECRET:
        return False
    hashes, size = list(map(hash, keys)), 1024
    while True:
        # A table grows when two thirds of it are taken: each size is walked with as many keys as it may ever hold.
        part = hashes[: size * 2 // 3]
        if _walks(part, size - 1, near):
            return True
        if len(part) == len(hashes):
            return False
        size *= 2


def _walks(hashes: Sequence[int], mask: int, near: int) -> bool:
    """Whether the keys take more steps than others in a table of this size."""
    if len({hashed & mask for hashed in hashes}) == len(hashes):
        return False
    taken, steps, most = bytearray(mask + 1), 0, _PROBES * len(hashes)
    for hashed in hashes:
        at = hashed & mask
        if taken[at]:
            perturb = hashed & _MASK
            while taken[at]:
                if near and at + near <= mask and (free := taken.find(0, at, at + near + 1)) >= 0:
                    at = free
                    break
                steps += 1
                perturb >>= 5
                at = (at * 5 + perturb + 1) & mask
                if steps > most:
                    return True
        taken[at] = 1
    return False


def foreign_keys(body: bytes | Raw) -> bool:
    """Whether an encoded value has a large mapping whose keys are not texts, as we never write it.

    It would be built before anybody could look at its keys. Most values have no large mapping at all, and that takes
    two searches for its head.
    """
    if len(body) < LARGE:
        return False
    data = body if type(body) is bytes else bytes(body)
    return _may_have_large(data) and _has_foreign(data)


def _may_have_large(data: bytes) -> bool:
    at, end = data.find(b"\xde"), len(data)
    while at >= 0:
        count = int.from_bytes(data[at + 1 : at + 3], "big")
        if count >= SMALLEST and at + 3 + 2 * count <= end:
            return True
        at = data.find(b"\xde", at + 1)
    at = data.find(b"\xdf")
    while at >= 0:
        if at + 5 + 2 * int.from_bytes(data[at + 1 : at + 5], "big") <= end:
            return True
        at = data.find(b"\xdf", at + 1)
    return False


def _has_foreign(data: bytes) -> bool:
    """Walk the whole value; bytes that are none end the walk, as they end decoding it."""
    parts = [(0, len(data))]
    while parts:
        at, end = parts.pop()
        left, mappings = [1], [False]  # of each open container: the nodes to come, and whether it is a large mapping
        while at < end and left:
            head = data[at]
            if mappings[-1] and not left[-1] & 1 and not (0xA0 <= head <= 0xBF or 0xD9 <= head <= 0xDB):
                return True
            left[-1] -= 1
            at, inner = past(data, at, end)
            if inner is not None:
                parts.append(inner)
            count = _contained(data, head, at)
            if count:
                is_mapping = 0x80 <= head <= 0x8F or head in (0xDE, 0xDF)
                left.append(2 * count if is_mapping else count)
                mappings.append(is_mapping and count >= SMALLEST)
            while left and not left[-1]:
                left.pop()
                mappings.pop()
    return False


def _contained(data: bytes, head: int, at: int) -> int:
    """How many items the container has whose head ends at `at`."""
    if 0x80 <= head <= 0x9F:
        return head & 0x0F
    if head in (0xDC, 0xDE):
        return int.from_bytes(data[at - 2 : at], "big")
    return int.from_bytes(data[at - 4 : at], "big") if head in (0xDD, 0xDF) else 0
