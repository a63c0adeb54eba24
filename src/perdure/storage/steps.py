"""Layouts grow in numbered steps. A storage carries the number of its last step, and which releases may still use it.

A step is never changed once released: a new layout is a new step. One that only adds leaves `min_reader` and
`min_writer` as they were: processes of the release before go on beside it. One that they would read or write wrongly
raises them, and from then on such a release refuses the storage without touching it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from perdure.core.errors import SchemaOutdatedError, SchemaTooNewError
from perdure.storage.contract import Migrate, Schema


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One change of a layout."""

    number: int
    why: str
    min_reader: int
    min_writer: int

    @property
    def schema(self) -> Schema:
        """What a storage carries once the step is done."""
        return Schema(schema=self.number, min_reader=self.min_reader, min_writer=self.min_writer)


S = TypeVar("S", bound=Step)


def steps_after(steps: Sequence[S], found: Schema | None) -> list[S]:
    """The steps that a storage still lacks."""
    return [step for step in steps if found is None or step.number > found.schema]


def complete(place: str, found: Schema | None, steps: Sequence[Step], migrate: Migrate) -> Schema | None:
    """The schema of a storage that lacks no step; None when steps have to be done.

    Raises where the storage is too new or too old, and where steps are missing but nothing may be changed.
    """
    missing = steps_after(steps, None if found is None else usable(place, found, steps))
    if not missing:
        return found
    if migrate == "check":
        there = f"schema {found.schema}, this release writes {steps[-1].number}" if found else "nothing is set up yet"
        raise SchemaOutdatedError(place, there)
    return None


def usable(place: str, found: Schema, steps: Sequence[Step]) -> Schema:
    """Return the schema if a release that knows these steps may use the storage, or raise."""
    oldest, newest = steps[0].number, steps[-1].number
    needed = max(found.min_reader, found.min_writer)
    if needed > newest:
        raise SchemaTooNewError(place, f"it needs a release that knows schema {needed}, this one knows {newest}")
    if found.schema < oldest:
        told = f"it has schema {found.schema}, this release reads {oldest} and newer; upgrade it with one in between"
        raise SchemaOutdatedError(place, told)
    return found
