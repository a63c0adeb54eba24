"""One codec for everything stored: closed, lossless, deterministic.

`encode` refuses what it cannot give back exactly; `decode` builds values of exactly the types that went in. The bytes
are msgpack; types beyond it are extensions (`zoo`), objects of registered classes are [tag, version, fields].
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec
from msgspec import Raw
from msgspec.msgpack import Ext

from perdure.core import zoo
from perdure.core.errors import (
    CyclicValueError,
    NestingTooDeepError,
    PerdureError,
    UnknownTypeError,
    UnsupportedValueError,
    ValueDamagedError,
)
from perdure.core.frozen import Known, is_frozen, may_be_frozen
from perdure.core.plain import LEAVES, MAX_DEPTH, MAX_PARTS, TooManyParts, is_plain, plain_parts, unfolded_parts
from perdure.core.record import Record, type_name
from perdure.core.registry import REGISTRY, Kept, Registry, taken_apart
from perdure.core.steps import Path, Step, show
from perdure.core.value_scan import LARGE, NEAR, SMALLEST, collide, foreign_keys

if TYPE_CHECKING:
    from perdure.core.subclasses import Subclasses

_encoder = msgspec.msgpack.Encoder()
_encode = _encoder.encode
_INT64, _UINT64 = -(1 << 63), (1 << 64) - 1
Decode = Callable[[Any], Any]
T = TypeVar("T")
Node = Raw | dict[str, Raw | list[Raw]]
_NOTHING: Mapping[str, list[Raw]] = {}
_REASON = 200  # characters
_MANY = 100_000  # parts that the packer has gone through before it looks how many there will be
_NOT_PLAIN = (UnicodeEncodeError, OverflowError, RecursionError)


def encode(
    value: object,
    *,
    root: str = "state",
    at: Path = (),
    registry: Registry = REGISTRY,
    subclasses: Subclasses = "refuse",
) -> bytes:
    """Encode `value`, to stand at path `at`; raise `UnsupportedValueError` naming the path of what cannot be kept.

    Objects of subclasses that are not registered are refused, or kept as what they are without their class ("plain").
    """
    try:
        if type(value) in LEAVES or is_plain(value, MAX_DEPTH - len(at)):
            return _encode(value)
    except _NOT_PLAIN:
        pass  # a lone surrogate or a large int: the packer keeps it
    except TooManyParts:
        raise Packer(root, at, registry).too_many() from None
    return _encode(_pack(value, Packer(root, at, registry, subclasses=subclasses)))


def encode_parts(
    state: object,
    known: Known,
    unchanged: Mapping[str, list[Raw]] = _NOTHING,
    *,
    registry: Registry = REGISTRY,
    subclasses: Subclasses = "refuse",
) -> tuple[Node, Known]:
    """Encode a state part by part: a dict of encoded values and lists of encoded items, as `delta.changes` takes it.

    Items are compared by their bytes, so nothing of what a caller changed in place is missed. `known` has the bytes of
    frozen items of the state before, which cannot have changed; those of this one are returned. `unchanged` has those
    of lists whose first items are what they were.
    """
    if type(state) is not dict or not all(type(key) is str and _is_text(key) for key in state):
        return Raw(encode(state, registry=registry, subclasses=subclasses)), {}
    try:
        if not unchanged and is_plain(state):
            return {
                key: _items(value) if type(value) is list else Raw(_encode(value)) for key, value in state.items()
            }, {}
    except _NOT_PLAIN:
        pass
    except TooManyParts:
        raise Packer("state", (), registry).too_many() from None
    parts = _Parts(registry, known, subclasses)
    return {key: parts.encoded(key, value, unchanged.get(key, [])) for key, value in state.items()}, parts.frozen


def _items(values: Iterable[Any]) -> list[Raw]:
    return list(map(Raw, map(_encode, values)))


class _Parts:
    """The parts of a state that has more than plain values; how many there are is counted over all of them."""

    def __init__(self, registry: Registry, known: Known, subclasses: Subclasses) -> None:
        self.frozen: Known = {}
        self._subclasses: Subclasses = subclasses
        self._registry = registry
        self._known = known
        self._count = 0

    def encoded(self, key: str, value: Any, begin: list[Raw]) -> Raw | list[Raw]:
        """The value of a key of the state; the first items of a list may be known."""
        if type(value) is not list:
            return self._one(value, (key,))
        return [*begin, *self._items(key, value[len(begin) :], len(begin))]  # another thread may change it meanwhile

    def _items(self, key: str, items: list[Any], first: int) -> list[Raw]:
        kinds = set(map(type, items))
        if kinds and all(map(may_be_frozen, kinds)):
            return self._frozen_items(key, items, first)
        try:
            if self._is_plain(items, 1):
                return _items(items)
            if kinds and (found := self._of_registered(items, kinds)):
                return found
        except _NOT_PLAIN:
            pass
        return [self._one(each, (key, at)) for at, each in enumerate(items, first)]

    def _frozen_items(self, key: str, items: list[Any], first: int) -> list[Raw]:
        found = list(map(self._known.get, map(id, items)))
        self.frozen |= {id(each): known for each, known in zip(items, found, strict=True) if known is not None}
        encoded: list[Raw] = []
        for at, (each, known) in enumerate(zip(items, found, strict=True), first):
            if known is None:
                known = each, self._one(each, (key, at))
                if is_frozen(each):
                    self.frozen[id(each)] = known
            encoded.append(known[1])
        return encoded

    def _of_registered(self, values: list[Any], kinds: set[type]) -> list[Raw] | None:
        """Objects of registered classes with plain fields: what they are made of is looked at all at once."""
        known = {kind: self._registry.of(kind) for kind in kinds}
        if not all(known.values()) or any(map(_has_more_than_fields, kinds)):
            return None
        found: list[Kept] = [known[type(each)] for each in values]  # type: ignore[misc]
        fields = [kept.fields(each) for kept, each in zip(found, values, strict=True)]
        if not self._is_plain(fields, 1):
            return None
        bodies = [_encode((kept.tag, kept.version, own)) for kept, own in zip(found, fields, strict=True)]
        return [Raw(_encode(Ext(zoo.OBJECT, body))) for body in bodies]

    def _is_plain(self, value: object, depth: int) -> bool:
        try:
            parts = plain_parts(value, MAX_DEPTH - depth, MAX_PARTS - self._count)
        except TooManyParts:
            raise Packer("state", (), self._registry).too_many() from None
        self._count += parts
        return parts > 0

    def _one(self, value: Any, at: Path) -> Raw:
        try:
            if type(value) in LEAVES or self._is_plain(value, len(at)):
                return Raw(_encode(value))
        except _NOT_PLAIN:
            pass  # a lone surrogate or a large int: the packer keeps it
        packer = Packer("state", at, self._registry, parts=self._count, subclasses=self._subclasses)
        packed = Raw(_encode(_pack(value, packer)))
        self._count = packer.parts
        return packed


def _has_more_than_fields(kind: type) -> bool:
    return issubclass(kind, Enum) or hasattr(kind, "__dataclass_fields__")


def encode_result(value: object, *, registry: Registry = REGISTRY, subclasses: Subclasses = "refuse") -> bytes:
    """Encode what a step returned: objects of unregistered classes are kept as records."""
    try:
        if type(value) in LEAVES or is_plain(value):
            return _encode(value)
    except _NOT_PLAIN:
        pass
    except TooManyParts:
        raise Packer("result", (), registry).too_many() from None
    return _encode(_pack(value, Packer("result", (), registry, lenient=True, subclasses=subclasses)))


def _pack(value: object, packer: Packer) -> Any:
    try:
        return packer.pack(value)
    except RecursionError:
        raise NestingTooDeepError(packer.place(), MAX_DEPTH) from None


def decode(data: bytes | Raw, *, registry: Registry = REGISTRY) -> Any:
    """Build the value again; raise `UnknownTypeError` for a class that was not registered."""
    try:
        if len(data) >= LARGE:
            _refuse_foreign_keys(data)
        return _decoder(registry)(data)
    except (PerdureError, MemoryError):
        raise
    except Exception as exc:
        raise _told(exc) from exc


def _refuse_foreign_keys(data: bytes | Raw) -> None:
    if foreign_keys(data):
        raise ValueDamagedError("has a mapping whose keys are no texts, as none was ever written")


def decode_each(parts: Collection[Raw], *, registry: Registry = REGISTRY) -> list[Any]:
    """`decode` for many: a call for each would take as long as decoding it."""
    try:
        if max(map(len, parts), default=0) >= LARGE:
            for part in parts:
                _refuse_foreign_keys(part)
        return list(map(_decoder(registry), parts))
    except (PerdureError, MemoryError):
        raise
    except Exception as exc:
        raise _told(exc) from exc


def _decoder(registry: Registry) -> Decode:
    """Made once for a registry, which keeps it: making one takes as long as decoding a small object."""
    if registry.decode is None:
        registry.decode = _new_decoder(registry)
    return registry.decode


def _new_decoder(registry: Registry | None) -> Decode:
    again = msgspec.msgpack.Decoder(ext_hook=lambda code, body: _unpack(code, bytes(body), registry, again)).decode
    return again


def decode_tagged(data: bytes | Raw) -> Any:
    """Build the value without users' classes: their objects come as records."""
    try:
        if len(data) >= LARGE:
            _refuse_foreign_keys(data)
        return _decode_tagged(data)
    except (PerdureError, MemoryError):
        raise
    except Exception as exc:
        raise _told(exc) from exc


def decode_known(data: bytes | Raw) -> Any:
    """Build the value for people who only look at it: where a class is not known here, all objects come as records."""
    try:
        return decode(data)
    except UnknownTypeError:
        return decode_tagged(data)


_decode_tagged = _new_decoder(None)


def guarded(build: Callable[..., T], *args: Any) -> T:
    """Build something of stored values; whatever they do to a decoder or to a user's class is a typed error."""
    try:
        return build(*args)
    except (PerdureError, MemoryError):
        raise
    except Exception as exc:
        raise _told(exc) from exc


def _told(exc: Exception) -> Exception:
    """The error of a value that cannot be decoded."""
    if isinstance(exc, RecursionError):
        return NestingTooDeepError("the stored value, called from here,", MAX_DEPTH)
    return ValueDamagedError(f"cannot be decoded ({_reason(exc)})")


def _reason(exc: Exception) -> str:
    """What an error says, in short: it may quote all of a hostile value, or fail to say anything."""
    try:
        said = str(exc)
    except Exception:
        said = ""
    return (said if len(said) <= _REASON else said[:_REASON] + "…") or type(exc).__name__


def _unpack(code: int, data: bytes, registry: Registry | None, again: Decode) -> Any:
    if code in _CONTAINERS:
        return _CONTAINERS[code](again(data))
    if code in (zoo.OBJECT, zoo.ENUM):
        return _unpack_object(again(data), registry)
    if code == zoo.RECORD:
        return Record(*again(data))
    return _unpack_scalar(code, data)


def _unpack_scalar(code: int, data: bytes) -> Any:
    from perdure.core import scalars

    if code not in scalars.UNPACK:
        raise ValueDamagedError(f"has an extension {code} that this release does not know")
    return scalars.UNPACK[code](data)


def _unpack_object(parts: Any, registry: Registry | None) -> Any:
    tag, version, fields = parts
    if type(tag) is not str or type(version) is not int or type(fields) is not dict:
        raise ValueDamagedError("has an object that is not a name, a version and fields")
    if registry is None:
        return Record(tag, fields)
    kept = registry.tagged(tag, version)
    return kept.build(kept.upgraded(fields, version))


def _mapping(pairs: Any) -> dict[Any, Any]:
    _check_keys([key for key, _ in pairs] if len(pairs) >= SMALLEST else ())
    return {key: value for key, value in pairs}  # noqa: C416  # pairs are lists


def _members(kind: type[set[Any]] | type[frozenset[Any]]) -> Callable[[Any], Any]:
    def build(items: Any) -> Any:
        _check_keys(items, NEAR)
        return kind(items)

    return build


def _check_keys(keys: Sequence[Any], near: int = 0) -> None:
    if collide(keys, near=near):
        raise ValueDamagedError(f"has {len(keys):,} keys that were chosen to collide: it would take minutes to build")


_KEYS = (tuple, frozenset, Record)  # values that may be keys as they are, besides leaves and scalars

_CONTAINERS: dict[int, Callable[[Any], Any]] = {
    zoo.TUPLE: tuple,
    zoo.SET: _members(set),
    zoo.FROZENSET: _members(frozenset),
    zoo.MAPPING: _mapping,
}


class Packer:
    """Turns a value into plain parts and extensions, knowing at each moment where it is."""

    def __init__(
        self,
        root: str,
        at: Path,
        registry: Registry,
        *,
        lenient: bool = False,
        parts: int = 0,
        subclasses: Subclasses = "refuse",
    ) -> None:
        self._root = root
        self._at = at
        self._registry = registry
        self._lenient = lenient
        self._plain = subclasses == "plain"
        self._path: list[Step] = []
        self._open: set[int] = set()
        self._whole: Any = None
        self._before = parts
        self._look_ahead_at = min(parts + _MANY, MAX_PARTS)
        self.parts = parts

    def place(self) -> str:
        """Where the packer is, for an error."""
        path = (*self._at, *self._path)
        return self._root + show(path[:40]) + ("…" if len(path) > 40 else "")

    def too_many(self) -> UnsupportedValueError:
        """The refusal of a value that shares parts with itself so often that it unfolds without end."""
        return UnsupportedValueError(self.place(), f"unfolds to more than {MAX_PARTS:,} parts", "keep it in pieces")

    def pack(self, value: Any) -> Any:
        """Return what the encoder may be given for `value`."""
        self.parts += 1
        if self.parts > self._look_ahead_at:
            self._check_parts()
        kind = type(value)
        if not self._path:
            self._whole = value
        if kind is str:
            return _text(value)
        if kind is int:
            return value if _INT64 <= value <= _UINT64 else Ext(zoo.BIG_INT, zoo.int_bytes(value))
        if kind in LEAVES:
            return value
        return self._inside(value)

    def _check_parts(self) -> None:
        """Refuse what unfolds to too many parts before it is unfolded, which would take a quarter of a minute."""
        if self.parts > MAX_PARTS or self._before + unfolded_parts(self._whole, self._opened) > MAX_PARTS:
            raise self.too_many()
        self._look_ahead_at = MAX_PARTS

    def _opened(self, value: Any) -> Any:
        """What an object will be taken apart to; None where that is not counted part by part."""
        from perdure.core import scalars

        kind = type(value)
        if kind is Record:
            return dict(value)
        if kind in scalars.PACK:
            return None
        kept = self._registry.of(kind)
        if kept is None:
            return taken_apart(value) if self._lenient else self._bare(value) if self._plain else None
        fields = kept.fields(value)
        try:
            return None if is_plain(fields) else fields
        except TooManyParts:
            return fields

    def _scalar(self, value: Any) -> Ext | None:
        from perdure.core import scalars

        code, pack = scalars.PACK.get(type(value), (0, None))
        if pack is None:
            return None
        try:
            return Ext(code, pack(value))
        except scalars.NotKept as exc:
            raise UnsupportedValueError(self.place(), str(exc)) from exc

    def _inside(self, value: Any) -> Any:
        if id(value) in self._open:
            raise CyclicValueError(self.place())
        if len(self._at) + len(self._path) >= MAX_DEPTH:
            raise NestingTooDeepError(self.place(), MAX_DEPTH)
        self._open.add(id(value))
        packed = self._container(value)
        self._open.discard(id(value))
        return packed

    def _container(self, value: Any) -> Any:
        kind = type(value)
        if kind is dict:
            return self._dict(value)
        if kind is list:
            return self._items(value)
        if kind is tuple:
            return Ext(zoo.TUPLE, _encode(self._items(value)))
        if kind is set or kind is frozenset:
            return Ext(zoo.SET if kind is set else zoo.FROZENSET, self._sorted(value))
        if kind is Record:
            return Ext(zoo.RECORD, _encode([type_name(value), self._dict(dict(value))]))
        return self._object(value)

    def _child(self, step: Step, value: Any) -> Any:
        self._path.append(step)
        packed = self.pack(value)
        self._path.pop()
        return packed

    def _items(self, values: Any) -> list[Any]:
        return [self._child(index, value) for index, value in enumerate(values)]

    def _sorted(self, values: Any) -> bytes:
        # Sets have no order of their own: sorting the encoded items gives equal sets equal bytes.
        if self._plain:
            values = self._distinct(values)
        items = sorted((_encode(self._child("{}", value)), at) for at, value in enumerate(values))
        if len(items) >= SMALLEST:
            members = list(values)
            self._check_keys([members[at] for _, at in items], NEAR)
        return _encode([Raw(item) for item, _ in items])

    def _check_keys(self, keys: Collection[Any], near: int = 0) -> None:
        """What would take minutes to load again is not stored."""
        if collide(keys, near=near):
            reason = f"has {len(keys):,} keys whose hashes collide: it would take minutes to build again"
            raise UnsupportedValueError(self.place(), reason, "keep them in a list, or as texts")

    def _dict(self, value: dict[Any, Any]) -> Any:
        if self._plain:
            value = dict(zip(self._distinct(value), value.values(), strict=True))
        if all(type(key) is str and _is_text(key) for key in value):
            return {key: self._child(key, item) for key, item in value.items()}
        self._check_keys(value)
        pairs = [[self._child("(key)", key), self._child(str(key), item)] for key, item in value.items()]
        return Ext(zoo.MAPPING, _encode(pairs))

    def _distinct(self, keys: Collection[Any]) -> Collection[Any]:
        """Keys of a dict, or members of a set, as they are kept; raise where two of them become one."""
        if LEAVES.issuperset(map(type, keys)):
            return keys
        plain = [self._bare(key) for key in keys]
        if len(set(plain)) != len(keys):
            reason = "has keys that differ by nothing but their classes"
            raise UnsupportedValueError(self.place(), reason, "make them differ as plain values")
        return plain

    def _bare(self, value: Any) -> Any:
        """A value, without its class where that cannot be kept."""
        from perdure.core import scalars, subclasses

        kind = type(value)
        if kind in LEAVES or kind in _KEYS or kind in scalars.PACK or self._registry.of(kind) is not None:
            return value
        base = subclasses.plain_base(value)
        return value if base is subclasses.LOST else base

    def _object(self, value: Any) -> Any:
        scalar = self._scalar(value)
        if scalar is not None:
            return scalar
        kept = self._registry.of(type(value))
        if kept is not None:
            self._refuse_undeclared(value)
            code = zoo.ENUM if isinstance(value, Enum) else zoo.OBJECT
            return Ext(code, _encode([kept.tag, kept.version, self._fields(kept.fields(value))]))
        fields = taken_apart(value) if self._lenient else None
        if fields is None:
            bare = self._bare(value) if self._plain else value
            if bare is value:
                raise self._refusal(value)
            return self.pack(bare)
        return Ext(zoo.RECORD, _encode([type(value).__qualname__, self._dict(fields)]))

    def _fields(self, fields: dict[str, Any]) -> Any:
        """The fields of an object: most often plain, and then nothing of them has to be looked at one by one."""
        try:
            if is_plain(fields, MAX_DEPTH - len(self._at) - len(self._path)):
                return Raw(_encode(fields))
        except _NOT_PLAIN:
            pass
        except TooManyParts:
            raise self.too_many() from None
        return self._dict(fields)

    def _refuse_undeclared(self, value: Any) -> None:
        """Attributes that a dataclass does not declare would be lost."""
        declared = getattr(type(value), "__dataclass_fields__", None)
        held = getattr(value, "__dict__", None)
        if declared is None or held is None or (len(held) <= len(declared) and held.keys() <= declared.keys()):
            return
        for name in held.keys() - declared.keys():
            if not hasattr(type(value), name):  # a cached property is made again
                raise UnsupportedValueError(self.place(), f"attribute {name!r} is not a field", "declare it as a field")

    def _refusal(self, value: Any) -> UnsupportedValueError:
        cls = type(value)
        name = f"{cls.__module__}.{cls.__qualname__}"
        registrable = isinstance(value, Enum) or taken_apart(value) is not None
        remedy = f"add perdure.register({cls.__qualname__})" if registrable else _remedy(value)
        if self._root == "state" and not self._plain and self._bare(value) is not value:
            remedy += ', or pass subclasses="plain"'
        return UnsupportedValueError(self.place(), f"{name} cannot be kept", remedy)


def _remedy(value: Any) -> str:
    for base in (dict, list, tuple, set, str, int, float, bytes):
        if isinstance(value, base):
            return f"its class would be lost; turn it into a plain {base.__name__} first"
    return "keep plain data instead, such as an id or the arguments to make it again"


def _is_text(value: str) -> bool:
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _text(value: str) -> Any:
    return value if _is_text(value) else Ext(zoo.TEXT, zoo.text_bytes(value))
