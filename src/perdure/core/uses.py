"""Which large values a thread is noted to hold on to, compared with what its log refers to.

Where a prune emptied the entry that a use is noted for, nobody can tell whether it referred to the value.
"""

from __future__ import annotations

from collections.abc import Collection

from perdure.core.derived import Derived
from perdure.core.entries import EntryKind
from perdure.core.indexing import Standing
from perdure.core.pruning import is_blank
from perdure.core.said import Said, needed
from perdure.core.verification import Finder


def compare_uses(finder: Finder, thread: Standing, made: Derived) -> None:
    """Tell which large values are not noted as used, or not from the right version on."""
    stands = thread.derived.uses
    for digest, version in needed(thread.said).items():
        if version > thread.row.parent_version and digest not in stands:
            reason = "is not noted as used by this thread: a sweep may remove it"
            finder.add(_value(digest), reason, version, derived=True)
    for digest, noted in stands.items():
        if reason := _misnoted(thread, digest, noted, made.uses.get(digest, noted)):
            finder.add(_value(digest), f"is noted as used from version {noted} on, {reason}", noted, derived=True)


def _value(digest: bytes) -> str:
    return f"large value {digest.hex()[:16]}…"


def _misnoted(thread: Standing, digest: bytes, noted: int, first: int) -> str | None:
    """What is wrong with a noted use; `first` is the first version of the thread's own that refers to the value."""
    if noted > first:
        held = noted in _together(thread, first) or _is_inherited(thread, digest)
        return None if held else f"the log refers to it from {first} on: a sweep may remove it"
    return None if _may_refer(thread, digest, noted) else "which does not refer to it"


def _may_refer(thread: Standing, digest: bytes, version: int) -> bool:
    """Whether a version refers to a large value, or did before it was emptied.

    A use is noted for a whole write, and that of a record for the entry that told of its prune.
    """
    entry = thread.at.get(version)
    if entry is None or version <= thread.row.parent_version:
        return version > thread.row.parent_version and thread.is_unknown(version)
    if is_blank(entry) or version in thread.said.unread or entry.kind is EntryKind.RANGE_PRUNED:
        return True
    return any(digest in _large(thread.said, each) for each in _together(thread, version))


def _is_inherited(thread: Standing, digest: bytes) -> bool:
    """Whether the parents' part refers to a large value too: then they hold it, and a copy does not note it again."""
    past = [version for version in {*thread.said.steps, *thread.said.large} if version <= thread.row.parent_version]
    return any(digest in _large(thread.said, version) for version in past)


def _together(thread: Standing, version: int) -> list[int]:
    """The versions that were written together with one, itself included."""
    entry = thread.at.get(version)
    return [each.version for each in thread.own if entry is not None and each.write_id == entry.write_id]


def _large(said: Said, version: int) -> Collection[bytes]:
    step = said.steps.get(version)
    return {*said.large.get(version, ()), *(step.blobs if step else ())}
