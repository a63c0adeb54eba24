"""Encoded bodies as readable JSON, losslessly: `from_json(to_json(body)) == body`, byte for byte.

Text, numbers, lists and dicts look as they are. What JSON cannot carry is an object with one key that starts with `$`:

    {"$bytes": "AAE="}   {"$float": "nan"}   {"$tuple": [1, 2]}   {"$datetime": ["2026-01-01T12:00:00", 0, null]}
    {"$ext": [99, "AAE="]}   an extension this release does not know
    {"$raw": "AAE="}         a body that is not in our canonical encoding, as a whole

A real key that starts with `$` gets a second one. Nothing here recurses in Python, so that a deeply nested body is
no different from a flat one.
"""

from __future__ import annotations

import struct
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable
from math import isfinite
from typing import Any, cast

import msgspec
from msgspec.msgpack import Ext

from perdure.core import zoo

_pack = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder().decode
_write = msgspec.json.Encoder().encode
_read = msgspec.json.Decoder().decode

_AS_THEY_ARE = frozenset({str, int, bool, type(None)})
_CODES = {f"${name}": code for code, name in zoo.NAMES.items()}
_NESTED = frozenset({
    zoo.TUPLE, zoo.SET, zoo.FROZENSET, zoo.DATETIME, zoo.TIME, zoo.COMPLEX, zoo.MAPPING, zoo.OBJECT, zoo.ENUM,
    zoo.RECORD,
})  # fmt: skip
_NAN = 0x7FF8000000000000
_LONG_INT = 8192  # bits; Python refuses to write much longer ints in decimal
_FOREIGN = (ValueError, TypeError, KeyError, IndexError, AttributeError, OverflowError, RecursionError)


class CannotRead(Exception):
    """Text that is not a rendered body; callers turn it into a damage error that names the place."""


def to_json(body: bytes) -> bytes:
    """Render a body as JSON on one line."""
    text = _rendered(body)
    # Proved now, while the caller still has the value: found out when reading, it would be a lost state.
    if text is None or _body_of(_read(text)) != body:
        return _write({"$raw": _base64(body)})
    return text


def from_json(text: bytes | msgspec.Raw) -> bytes:
    """Return the body that was rendered; raise `CannotRead` when this is not one."""
    try:
        return _body_of(_read(text))
    except (msgspec.MsgspecError, *_FOREIGN) as exc:
        raise CannotRead(f"is not a rendered body ({exc})") from exc


def _rendered(body: bytes) -> bytes | None:
    try:
        return _write(_shown_tree(_unpack(body)))
    except (msgspec.MsgspecError, *_FOREIGN):
        return None


def _shown_tree(value: Any) -> Any:
    """Replace, from the outside in, every part that JSON cannot carry."""
    top = [value]
    open_parts: list[Any] = [top]
    while open_parts:
        part = open_parts.pop()
        for key, child in _items(part):
            if type(child) in _AS_THEY_ARE:
                continue
            part[key] = shown = _shown(child)
            open_parts.extend(_inside(shown, child))
    return top[0]


def _items(part: Any) -> Iterable[tuple[Any, Any]]:
    return list(cast("dict[str, Any]", part).items()) if type(part) is dict else enumerate(cast("list[Any]", part))


def _inside(shown: Any, child: Any) -> Iterable[Any]:
    """The containers in which to go on: a tag's own object is finished, what it holds is not."""
    if type(child) is Ext:
        return [held for held in shown.values() if type(held) is list] if child.code in _NESTED else ()
    return (shown,) if type(child) in (dict, list) else ()


def _shown(value: Any) -> Any:
    if type(value) is dict:
        return _escaped(cast("dict[str, Any]", value))
    if type(value) is float:
        return value if isfinite(value) else {"$float": _float_text(value)}
    if type(value) is bytes:
        return {"$bytes": _base64(value)}
    if type(value) is Ext:
        return _shown_ext(value.code, bytes(value.data))
    return value


def _escaped(value: dict[str, Any]) -> dict[str, Any]:
    if not any(key[:1] == "$" for key in value):
        return value
    return {f"${key}" if key[:1] == "$" else key: item for key, item in value.items()}


def _shown_ext(code: int, data: bytes) -> dict[str, Any]:
    if code in _NESTED:
        return {f"${zoo.NAMES[code]}": _unpack(data)}
    if code in _SCALARS:
        return {f"${zoo.NAMES[code]}": _SCALARS[code][0](data)}
    return {"$ext": [code, _base64(data)]}


def _body_of(tree: Any) -> bytes:
    """Build, from the inside out, the value that was shown, and encode it."""
    if type(tree) is dict and len(cast("dict[str, Any]", tree)) == 1 and "$raw" in tree:
        return b64decode(cast("str", tree["$raw"]), validate=True)
    top: list[Any] = [tree]
    parts: list[Any] = [top]
    for part in parts:
        parts.extend(child for _, child in _items(part) if type(child) in (dict, list))
    for part in reversed(parts):
        for key, child in _items(part):
            if type(child) is dict:
                part[key] = _meant(cast("dict[str, Any]", child))
    return _pack(top[0])


def _meant(shown: dict[str, Any]) -> Any:
    if len(shown) == 1:
        tag, held = next(iter(shown.items()))
        if tag[:1] == "$" and tag[:2] != "$$":
            return _tagged(tag, held)
    if not any(key[:1] == "$" for key in shown):
        return shown
    return {key[1:] if key[:1] == "$" else key: item for key, item in shown.items()}


def _tagged(tag: str, held: Any) -> Any:
    if tag == "$bytes":
        return b64decode(held, validate=True)
    if tag == "$float":
        return _float_of(held)
    if tag == "$ext":
        return Ext(held[0], b64decode(held[1], validate=True))
    code = _CODES[tag]
    return Ext(code, _pack(held) if code in _NESTED else _SCALARS[code][1](held))


def _base64(data: bytes) -> str:
    return b64encode(data).decode()


def _float_text(value: float) -> str:
    bits = int.from_bytes(struct.pack(">d", value), "big")
    return f"nan:{bits:016x}" if value != value and bits != _NAN else str(value)  # NaN is not itself


def _float_of(text: str) -> float:
    bits = f"{_NAN:016x}" if text == "nan" else text.removeprefix("nan:")
    return float(text) if "inf" in text else struct.unpack(">d", bytes.fromhex(bits))[0]


def _int_text(data: bytes) -> str:
    value = int.from_bytes(data, "big", signed=True)
    return str(value) if value.bit_length() <= _LONG_INT else hex(value)


def _int_bytes(text: str) -> bytes:
    return zoo.int_bytes(int(text, 16 if "x" in text else 10))


def _ints_text(data: bytes) -> list[str]:
    return [_int_text(part) for part in _unpack(data)]


def _ints_bytes(texts: list[str]) -> bytes:
    return _pack([_int_bytes(text) for text in texts])


def _path_text(data: bytes) -> list[Any]:
    name, text = _unpack(data)
    try:
        return [name, text.decode()]
    except UnicodeDecodeError:
        return [name, _base64(text), "base64"]


def _path_bytes(held: list[str]) -> bytes:
    return _pack([held[0], b64decode(held[1]) if len(held) > 2 else held[1].encode()])


_TEXT = (bytes.decode, str.encode)
_OPAQUE = (_base64, lambda held: b64decode(held, validate=True))  # pyright: ignore[reportUnknownVariableType, reportUnknownLambdaType, reportUnknownArgumentType]
_INTS = (_ints_text, _ints_bytes)

# Each extension with a body of its own: how it is shown, and how it is read back.
_SCALARS: dict[int, tuple[Callable[[bytes], Any], Callable[[Any], bytes]]] = {
    zoo.BIG_INT: (_int_text, _int_bytes),
    zoo.TIMEDELTA: (_int_text, _int_bytes),
    zoo.DATE: _TEXT,
    zoo.DECIMAL: _TEXT,
    zoo.UUID: (bytes.hex, bytes.fromhex),
    zoo.BLOB: (bytes.hex, bytes.fromhex),  # the digest of a value kept apart
    zoo.BYTEARRAY: _OPAQUE,
    zoo.TEXT: _OPAQUE,  # lone surrogates, which no JSON file may hold
    zoo.FRACTION: _INTS,
    zoo.RANGE: _INTS,
    zoo.PATH: (_path_text, _path_bytes),
}
