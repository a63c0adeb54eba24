"""Keys that were chosen to collide: mappings and sets of them would take minutes to build.

Hashes of texts and bytes are secret in each process; those of numbers, tuples and times are not. CPython looks
for a free slot from the hash on, and who knows the way can make each key walk over all that came before: by equal
hashes, or by different ones whose ways meet. So the way is walked here first, with one byte for each slot.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from msgspec import Raw

from perdure.core.nodes import past

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
