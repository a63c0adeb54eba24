"""What a value of an unregistered class comes back as."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any


class Record(Mapping[str, Any]):
    """The fields of an object whose class was not registered: `record.name` and `record["name"]`.

    Frozen. Two records are equal when their type names and fields are; a mapping with the same fields is equal too.
    """

    __slots__ = ("_fields", "_type_name")
    _fields: dict[str, Any]
    _type_name: str

    def __init__(self, type_name: str, fields: Mapping[str, Any]) -> None:
        object.__setattr__(self, "_type_name", type_name)
        object.__setattr__(self, "_fields", dict(fields))

    def __getattr__(self, name: str) -> Any:
        try:
            return self._fields[name]
        except KeyError:
            raise AttributeError(f"record of {self._type_name} has no field {name!r}") from None

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a record is frozen; copy it with dict(record) to change {name!r}")

    def __getitem__(self, name: str) -> Any:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Record):
            return self._type_name == other._type_name and self._fields == other._fields
        return self._fields == other

    __hash__ = None  # type: ignore[assignment]  # equal to a dict, so it must not be hashable

    def __repr__(self) -> str:
        fields = ", ".join(f"{name}={value!r}" for name, value in self._fields.items())
        return f"Record<{self._type_name}>({fields})"


def type_name(record: Record) -> str:
    """The name of the class a record was made from."""
    return record._type_name  # pyright: ignore[reportPrivateUsage]  # fields of a record may be called anything
