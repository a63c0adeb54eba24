"""What a comparison says: as values, as text, as data and as JSON Patch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Raw

from perdure.core import compare_text
from perdure.core.compare_items import paired
from perdure.core.compare_rows import Row, aligned, beside, first_that_differs
from perdure.core.conversation import MESSAGE_PATH
from perdure.core.diff import WHOLE, Changed, Difference, differences, value_of
from perdure.core.document import Document, DoesNotFit, closed
from perdure.core.entries import Entry
from perdure.core.json_patch import rendered
from perdure.core.retention_words import shown


class Side(msgspec.Struct, frozen=True, kw_only=True):
    """One of the compared points: a version of a thread, or a state that is in none."""

    encoded: Raw
    thread: str | None = None
    user: str | int | None = None
    version: int | None = None
    status: str | None = None

    def __str__(self) -> str:
        return WHOLE if self.thread is None else f"{shown(self.thread)}@{self.version}"

    def __repr__(self) -> str:
        return f"Side({self}, status={self.status!r})"

    @property
    def state(self) -> Any:
        """The whole state, without users' classes: their objects come as records."""
        return value_of(self.encoded)

    def data(self) -> dict[str, Any]:
        """Which point it is, as JSON has it."""
        return {"thread": self.thread, "user": self.user, "version": self.version, "status": self.status}


class Past(msgspec.Struct, frozen=True):
    """What compared logs have in common: all versions up to `common`; then each goes on with its entry of `entries`."""

    common: int | None = None
    entries: tuple[Entry | None, ...] = ()


NO_PAST = Past()


class Divergence(msgspec.Struct, frozen=True, kw_only=True):
    """Where compared points part.

    `common` is the last version they share: 0 for threads that have nothing to do with each other, None for states that
    are in no thread. `entries` are the first ones after it, None for a side that ends there. `message` is the first
    row of messages that is not the same everywhere.
    """

    common: int | None
    entries: tuple[Entry | None, ...]
    message: Row | None

    @property
    def version(self) -> int | None:
        """The first version that is not shared."""
        return None if self.common is None or not any(self.entries) else self.common + 1

    def data(self) -> dict[str, Any]:
        """The same as JSON has it."""
        entries = [None if each is None else _entry(each) for each in self.entries]
        message = None if self.message is None else self.message.data()
        return {"common": self.common, "version": self.version, "entries": entries, "message": message}


class Comparison(msgspec.Struct, frozen=True, kw_only=True):
    """How two states differ. `messages` are their messages side by side."""

    old: Side
    new: Side
    differences: list[Difference]
    messages: list[Row]
    first_divergence: Divergence | None

    @property
    def changed_fields(self) -> list[str]:
        """The top-level fields that differ, in order."""
        return list(dict.fromkeys(each.field for each in self.differences))

    @property
    def equal(self) -> bool:
        """Whether nothing differs between the states."""
        return not self.differences

    @property
    def old_status(self) -> str | None:
        """The status that the newest checkpoint up to the old version gave."""
        return self.old.status

    @property
    def new_status(self) -> str | None:
        """The status that the newest checkpoint up to the new version gave."""
        return self.new.status

    def __str__(self) -> str:
        return "\n".join(map(str, self.differences)) or "no difference"

    def patch(self) -> list[dict[str, Any]]:
        """JSON Patch (RFC 6902) from the old state to the new one, each as the lossless JSON rendering has it."""
        return [operation for each in self.differences for operation in each.edit.operations()]

    def text(self, color: bool = False) -> str:
        """The differences for a terminal, removed lines with `-` and added ones with `+`."""
        return compare_text.unified(_titles(self), self.differences, color)

    def data(self) -> dict[str, Any]:
        """Everything as JSON has it, with values as the lossless JSON rendering has them."""
        return {
            "equal": self.equal,
            "old": self.old.data(),
            "new": self.new.data(),
            "changed_fields": self.changed_fields,
            "differences": list(map(_difference, self.differences)),
            "messages": [row.data() for row in self.messages],
            "first_divergence": None if self.first_divergence is None else self.first_divergence.data(),
        }


class Comparisons(msgspec.Struct, frozen=True, kw_only=True):
    """How three or four states differ: `each` compares another one with the first. `messages` has a column for each."""

    sides: tuple[Side, ...]
    each: tuple[Comparison, ...]
    messages: list[Row]
    first_divergence: Divergence | None

    @property
    def changed_fields(self) -> list[str]:
        """The top-level fields in which any of them differs from the first, in order."""
        return list(dict.fromkeys(field for one in self.each for field in one.changed_fields))

    @property
    def equal(self) -> bool:
        """Whether nothing differs between the states."""
        return all(one.equal for one in self.each)

    @property
    def statuses(self) -> tuple[str | None, ...]:
        """The status of each."""
        return tuple(side.status for side in self.sides)

    def __str__(self) -> str:
        return "\n\n".join(f"{one.old} -> {one.new}\n{one}" for one in self.each)

    def text(self, color: bool = False) -> str:
        """Each beside the first, for a terminal."""
        return "\n".join(one.text(color) for one in self.each)

    def data(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {
            "equal": self.equal,
            "sides": [side.data() for side in self.sides],
            "changed_fields": self.changed_fields,
            "each": [one.data() for one in self.each],
            "messages": [row.data() for row in self.messages],
            "first_divergence": None if self.first_divergence is None else self.first_divergence.data(),
        }


def compare(old: Side, new: Side, past: Past = NO_PAST) -> Comparison:
    """Compare two states."""
    left, right = _messages(old), _messages(new)
    pairs = paired(left, right)
    rows = beside(left, right, pairs)
    return Comparison(
        old=old,
        new=new,
        differences=differences(old.encoded, new.encoded, {MESSAGE_PATH: pairs}),
        messages=rows,
        first_divergence=_divergence(past, rows),
    )


def compare_all(sides: Sequence[Side], pasts: Sequence[Past], past: Past) -> Comparisons:
    """Compare each state with the first; `pasts` are those of each pair, `past` is that of all."""
    rows = aligned(list(map(_messages, sides)))
    return Comparisons(
        sides=tuple(sides),
        each=tuple(compare(sides[0], side, of_two) for side, of_two in zip(sides[1:], pasts, strict=True)),
        messages=rows,
        first_divergence=_divergence(past, rows),
    )


def _messages(side: Side) -> list[Raw]:
    try:
        found = Document(side.encoded).reach(MESSAGE_PATH)
    except DoesNotFit:
        return []
    return list(map(closed, found)) if type(found) is list else []


def _divergence(past: Past, rows: list[Row]) -> Divergence | None:
    row = first_that_differs(rows)
    if row is None and not any(past.entries):
        return None
    return Divergence(common=past.common, entries=past.entries, message=row)


def _titles(found: Comparison) -> tuple[str, str]:
    old, new = (f"{side} ({side.status})" if side.status else str(side) for side in (found.old, found.new))
    return old, new


def _entry(entry: Entry) -> dict[str, Any]:
    return {"version": entry.version, "kind": entry.kind.value, "at": entry.at.isoformat(), "actor": entry.actor}


def _difference(found: Difference) -> dict[str, Any]:
    """A side that has nothing there has no key."""
    edit, shown = found.edit, {"path": found.path}
    if isinstance(edit, Changed):
        sides = {"old": edit.old, "new": edit.new}
        return {**shown, **{side: rendered(value) for side, value in sides.items() if value is not None}}
    return {**shown, "old": list(map(rendered, edit.old)), "new": list(map(rendered, edit.new))}
