"""Why a state is big, down to the keys inside it, and what the rest of a thread weighs.

A state is weighed as it is encoded. Values that stand at the same place of several items are weighed together: a list
of messages is one line, `messages[*]`, and what its items have inside is `messages[*].content`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.codec import decode_tagged
from perdure.core.document import Opened, opened
from perdure.core.errors import InvalidInputError, ValueDamagedError
from perdure.core.printable import printable
from perdure.core.retention_words import shown
from perdure.core.steps import Path, show
from perdure.core.writes import Sizes

SHOWN = 20  # of the keys of one place, the heaviest ones
_MATTERS = 0.001  # the share of the state below which a place is not printed
_LISTS = frozenset({zoo.TUPLE, zoo.SET, zoo.FROZENSET})
_EXT_HEADS = frozenset({0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8})
_encode = msgspec.msgpack.Encoder().encode
_open_ext = msgspec.msgpack.Decoder(Ext).decode
_open_list = msgspec.msgpack.Decoder(list[Raw]).decode
_open_pairs = msgspec.msgpack.Decoder(list[tuple[Raw, Raw]]).decode
_open_record = msgspec.msgpack.Decoder(tuple[str, dict[str, Raw]]).decode

Value = tuple[Path, Raw]  # where it stands, and what it is
Parts = dict[str, tuple[int, Raw]] | list[Raw] | None  # keys with what each weighs and its value, items, or neither


class Largest(msgspec.Struct, frozen=True):
    """The heaviest of several values."""

    path: str
    bytes: int


class Weight(msgspec.Struct, frozen=True, kw_only=True):
    """What a place of a state weighs, and what is heavy inside it."""

    path: str  # "" is the whole state
    bytes: int  # with its key
    share: float  # of the whole state
    count: int = 1  # values that were weighed together: items of a list, or what each of them has here
    average: int = 0  # of those, without keys
    largest: Largest | None = None
    inside: tuple[Weight, ...] = ()  # the heaviest first
    others: int = 0  # keys inside that are not shown
    other_bytes: int = 0


class KindSize(msgspec.Struct, frozen=True, kw_only=True):
    """What the entries of one kind weigh."""

    kind: str
    entries: int
    bytes: int


class ThreadTotal(msgspec.Struct, frozen=True, kw_only=True):
    """What a thread weighs; a fork only what it added."""

    id: str
    user: str
    namespace: str
    version: int
    entries: int
    bytes: int  # of entries and snapshots


class ThreadSizes(msgspec.Struct, frozen=True, kw_only=True):
    """Where the bytes of a thread are."""

    id: str
    version: int  # that the state was weighed at
    totals: Sizes  # what is stored of it; of a fork, what it added
    log: tuple[KindSize, ...]  # the heaviest kind first
    large_values: int  # kept apart; other threads of the user may have the same
    large_bytes: int
    state: Weight

    def __str__(self) -> str:
        return "\n".join(_thread_lines(self))


class StoreSizes(Sizes, frozen=True, kw_only=True):
    """Where the bytes of a store are."""

    largest: tuple[ThreadTotal, ...] = ()  # threads, the heaviest first

    def __str__(self) -> str:
        return "\n".join(_store_lines(self))


def weigh(encoded: bytes | Raw, depth: int = 2) -> Weight:
    """Weigh an encoded state, and what is inside it down to `depth`."""
    root = Raw(encoded)
    whole = len(root)
    return _Scales(max(whole, 1)).weigh("", whole, [((), root)], check_depth(depth))


def check_depth(depth: object) -> int:
    """Return a usable depth; raise `InvalidInputError` otherwise."""
    if type(depth) is not int or depth < 0:
        raise InvalidInputError(f"depth must be an int from 0 on, not {depth!r}")
    return depth


class _Scales:
    """Weighs the places of one state."""

    def __init__(self, whole: int) -> None:
        self._whole = whole

    def weigh(self, path: str, size: int, values: Sequence[Value], depth: int) -> Weight:
        """Weigh values that stand at the same place; `size` is what they weigh with their keys."""
        parts = [_parts(value) for _, value in values]
        is_list = all(isinstance(each, list) for each in parts)
        if is_list:
            path, values = f"{path}[*]", list(_items(values, parts))
            parts = [_parts(value) for _, value in values]
        inside = list(self._inside(path, values, parts, depth - 1)) if depth else []
        inside.sort(key=lambda each: (-each.bytes, each.path))
        return Weight(
            path=path,
            bytes=size,
            share=size / self._whole,
            count=len(values),
            average=round(sum(len(value) for _, value in values) / max(len(values), 1)),
            largest=_largest(values) if is_list or len(values) > 1 else None,
            inside=tuple(inside[:SHOWN]),
            others=len(inside[SHOWN:]),
            other_bytes=sum(each.bytes for each in inside[SHOWN:]),
        )

    def _inside(self, path: str, values: Sequence[Value], parts: Sequence[Parts], depth: int) -> Iterator[Weight]:
        sizes: Counter[str] = Counter()
        found: dict[str, list[Value]] = {}
        for (at, _), keys in zip(values, parts, strict=True):
            for name, (size, value) in keys.items() if isinstance(keys, dict) else ():
                sizes[name] += size
                found.setdefault(name, []).append(((*at, name), value))
        for name, same in found.items():
            yield self.weigh(f"{path}{show((name,))}".removeprefix("."), sizes[name], same, depth)
        lists = [value for value, items in zip(values, parts, strict=True) if isinstance(items, list)]
        if lists:
            yield self.weigh(path, sum(len(value) for _, value in lists), lists, depth)


def _items(values: Iterable[Value], parts: Iterable[Parts]) -> Iterator[Value]:
    for (at, _), items in zip(values, parts, strict=True):
        yield from (((*at, index), item) for index, item in enumerate(items if isinstance(items, list) else ()))


def _largest(values: Sequence[Value]) -> Largest | None:
    if not values:
        return None
    at, value = max(values, key=lambda each: len(each[1]))
    return Largest(show(at).removeprefix("."), len(value))


def _parts(value: Raw) -> Parts:
    """The keys of a dict, an object or a record with what each weighs, the items of a list, None for anything else."""
    node = opened(value)
    if type(node) is dict:
        return _keys(node)
    if type(node) is Opened:
        return _keys(node.fields)
    if type(node) is list:
        return node
    return _extension(value) if memoryview(value)[0] in _EXT_HEADS else None


def _extension(value: Raw) -> Parts:
    found = _open_ext(value)
    if found.code in _LISTS:
        return _open_list(found.data)
    if found.code == zoo.RECORD:
        return _keys(_open_record(found.data)[1])
    if found.code == zoo.MAPPING:
        return {_name(key): (len(key) + len(item), item) for key, item in _open_pairs(found.data)}
    return None


def _keys(fields: dict[str, Raw]) -> dict[str, tuple[int, Raw]]:
    return {key: (len(_encode(key)) + len(value), value) for key, value in fields.items()}


def _name(key: Raw) -> str:
    try:
        name = decode_tagged(key)
    except ValueDamagedError:
        return "?"
    return name if isinstance(name, str) else repr(name)


def shown_bytes(count: int) -> str:
    """Bytes for people."""
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


Row = tuple[str, str, str]  # what, how many bytes, and more about it


def _thread_lines(sizes: ThreadSizes) -> Iterator[str]:
    yield f"thread {shown(sizes.id)}, version {sizes.version:,}"
    yield from _aligned([*_thread_rows(sizes), *_weight_rows(sizes.state, 1)])


def _thread_rows(sizes: ThreadSizes) -> Iterator[Row]:
    totals = sizes.totals
    yield "entries", shown_bytes(totals.entry_bytes), f"{totals.entries:,}"
    for kind in sizes.log:
        share = kind.bytes / max(totals.entry_bytes, 1)
        yield f"  {printable(kind.kind)}", shown_bytes(kind.bytes), f"{share:>6.1%}  {kind.entries:,}"
    yield "snapshots", shown_bytes(totals.snapshot_bytes), f"{totals.snapshots:,}"
    yield "large values", shown_bytes(sizes.large_bytes), f"{sizes.large_values:,}"
    yield "checkpoints", "", f"{totals.checkpoints:,}"
    yield "state", shown_bytes(sizes.state.bytes), ""


def _weight_rows(weight: Weight, depth: int) -> Iterator[Row]:
    """What is inside, a row for each place that matters."""
    heavy = [each for each in weight.inside if each.share >= _MATTERS]
    for each in heavy:
        yield f"{'  ' * depth}{printable(each.path)}", shown_bytes(each.bytes), f"{each.share:>6.1%}{_together(each)}"
        yield from _weight_rows(each, depth + 1)
    left = len(weight.inside) - len(heavy) + weight.others
    if left:
        size = weight.other_bytes + sum(each.bytes for each in weight.inside[len(heavy) :])
        yield f"{'  ' * depth}({left:,} more)", shown_bytes(size), ""


def _together(weight: Weight) -> str:
    if weight.largest is None:
        return ""
    largest = f"largest {printable(weight.largest.path)} {shown_bytes(weight.largest.bytes)}"
    return f"  {weight.count:,} × {shown_bytes(weight.average)}, {largest}"


def _store_lines(sizes: StoreSizes) -> Iterator[str]:
    yield from _aligned([*_store_rows(sizes), *map(_thread_row, sizes.largest)])


def _store_rows(sizes: StoreSizes) -> Iterator[Row]:
    yield "threads", "", f"{sizes.threads:,}"
    yield "entries", shown_bytes(sizes.entry_bytes), f"{sizes.entries:,}"
    yield "snapshots", shown_bytes(sizes.snapshot_bytes), f"{sizes.snapshots:,}"
    yield "large values", shown_bytes(sizes.blob_bytes), f"{sizes.blobs:,}"
    yield "checkpoints", "", f"{sizes.checkpoints:,}"
    if sizes.disk_bytes:
        yield "on disk", shown_bytes(sizes.disk_bytes), ""
    if sizes.largest:
        yield "largest threads", "", ""


def _thread_row(total: ThreadTotal) -> Row:
    owner = f" of {shown(total.user)}" if total.user else ""
    return f"  {shown(total.id)}{owner}", shown_bytes(total.bytes), f"{total.entries:,}"


def _aligned(rows: Sequence[Row]) -> Iterator[str]:
    width = max(len(name) for name, _, _ in rows)
    for name, size, more in rows:
        yield f"{name:<{width}}  {size:>9}  {more}".rstrip()
