"""Changes of a list of messages, for tests that follow one."""

from __future__ import annotations

from typing import Any

from perdure.core.codec import encode
from perdure.core.delta import delta
from perdure.core.document import Document
from perdure.core.ops import Op
from perdure.core.payload import StateChange


def change(old: list[Any], new: list[Any], to: int | None = None) -> StateChange:
    return StateChange(ops_between(old, new), None, to)


def ops_between(old: list[Any], new: list[Any]) -> list[Op]:
    return delta(Document.of(encode({"messages": old})), encode({"messages": new}))[0]
