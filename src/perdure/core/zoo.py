"""Exact types beyond JSON, each as a msgpack extension with a fixed code.

The codes are part of the storage format: never reuse one.
"""

from __future__ import annotations

TUPLE, SET, FROZENSET, BIG_INT, DATETIME, DATE, TIME, TIMEDELTA = 1, 2, 3, 4, 5, 6, 7, 8
UUID, DECIMAL, BYTEARRAY, PATH, FRACTION, COMPLEX, RANGE, TEXT = 9, 10, 11, 12, 13, 14, 15, 16
MAPPING, OBJECT, ENUM, RECORD, BLOB = 17, 18, 19, 20, 21

NAMES = {
    TUPLE: "tuple", SET: "set", FROZENSET: "frozenset", BIG_INT: "int", DATETIME: "datetime", DATE: "date",
    TIME: "time", TIMEDELTA: "timedelta", UUID: "uuid", DECIMAL: "decimal", BYTEARRAY: "bytearray", PATH: "path",
    FRACTION: "fraction", COMPLEX: "complex", RANGE: "range", TEXT: "text", MAPPING: "mapping", OBJECT: "object",
    ENUM: "enum", RECORD: "record", BLOB: "blob",
}  # fmt: skip


def text_bytes(value: str) -> bytes:
    """UTF-8, with lone surrogates kept."""
    return value.encode("utf-8", "surrogatepass")


def int_bytes(value: int) -> bytes:
    """Two's complement, big-endian, as short as possible."""
    return value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True)
