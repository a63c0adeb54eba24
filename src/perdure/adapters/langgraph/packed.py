"""How large a value becomes that LangGraph's serializer kept, told from its bytes: nothing is built before."""

from __future__ import annotations

import re
from collections.abc import Set

MAX_NODES = 2_000_000  # items of lists, keys and values of mappings, and objects in a value
_MAX_NESTED_OBJECTS = 32  # an object's fields are copied once for each object that it stands in
_MAX_OBJECTS_IN_SET = 5_000  # equal hashes can be made for UUIDs and decimals: a set of n takes n² comparisons
_SET_HEADS = (b"\x93\xa8builtins\xa3set", b"\x93\xa8builtins\xa9frozenset")
_PACKED_OBJECTS = range(8)  # codes of extensions that have msgpack in them
_NAMING = range(6)  # those that have a module, a name and what is given to it; the serializer makes None of others
_TRIPLES = (b"\x93", b"\x94", b"\x95")
_SHORT_JSON = 64 << 10
_JSON_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
# By the first byte, from 0xc0 to 0xdf: bytes of the header, of which so many at its end are the length of what follows.
_SIZED = {0xC4: 1, 0xC5: 2, 0xC6: 4, 0xD9: 1, 0xDA: 2, 0xDB: 4}
_FIXED = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8, 0xD0: 1, 0xD1: 2, 0xD2: 4, 0xD3: 8, 0xCA: 4, 0xCB: 8}
_COUNTED = {0xDC: 2, 0xDD: 4, 0xDE: 2, 0xDF: 4}
_EXTENSION = {0xC7: 1, 0xC8: 2, 0xC9: 4}
_FIXED_EXTENSION = {0xD4: 1, 0xD5: 2, 0xD6: 4, 0xD7: 8, 0xD8: 16}


def check_packed(data: bytes) -> Set[int]:
    """The codes of the extensions in a msgpack value. Raises `ValueError` for one that takes too much to build."""
    codes: set[int] = set()
    inside: list[list[int]] = []  # of extensions: where each ends, and how many objects may still come in it
    at, end, nodes = 0, len(data), 0
    while at < end:
        while inside and at >= inside[-1][0]:
            if at > inside.pop()[0]:
                raise ValueError("an object in it is longer than it says")
        nodes += 1
        if nodes > MAX_NODES:
            raise _too_many()
        first = data[at]
        at += 1
        if first < 0xA0 or first >= 0xE0:
            continue  # a small number, or the head of a small mapping or list
        if first < 0xC0:
            at += first & 31
        elif first in _SIZED:
            size = _SIZED[first]
            at += size + int.from_bytes(data[at : at + size], "big")
        elif first in _FIXED:
            at += _FIXED[first]
        elif first in _COUNTED:
            at += _COUNTED[first]
        elif first in _EXTENSION or first in _FIXED_EXTENSION:
            size = _EXTENSION.get(first, 0)
            length = int.from_bytes(data[at : at + size], "big") if size else _FIXED_EXTENSION[first]
            at += size + 1
            if at > end:
                raise ValueError("it ends too early")
            code = int.from_bytes(data[at - 1 : at], "big", signed=True)
            codes.add(code)
            if code not in _PACKED_OBJECTS:
                at += length
                continue
            if code in _NAMING and data[at : at + 1] not in _TRIPLES:
                raise ValueError("it has an object without a class")
            if inside:
                inside[-1][1] -= 1
                if inside[-1][1] < 0:
                    raise ValueError(f"it has a set of more than {_MAX_OBJECTS_IN_SET:,} objects")
            inside.append([at + length, _MAX_OBJECTS_IN_SET if data.startswith(_SET_HEADS, at) else MAX_NODES])
            if len(inside) > _MAX_NESTED_OBJECTS:
                raise ValueError(f"its objects are nested more than {_MAX_NESTED_OBJECTS} deep")
    return codes


def check_json(data: bytes) -> None:
    """Raises `ValueError` for a JSON value that takes too much to build."""
    if len(data) <= _SHORT_JSON or _json_nodes(data) <= MAX_NODES:
        return
    if _json_nodes(_JSON_TEXT.sub(b"", data)) > MAX_NODES:
        raise _too_many()


def _json_nodes(data: bytes) -> int:
    """At least as many as there are."""
    return 1 + sum(data.count(each) for each in (b",", b"[", b"{", b":"))


def _too_many() -> ValueError:
    return ValueError(f"it has more than {MAX_NODES:,} parts")
