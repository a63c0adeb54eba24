"""Forgetting a user: what there is of one, what was erased, and the tombstones that stay.

A tombstone holds no id and no content: a number of its own, the time, and for each thread the digest of its newest
entry, by which somebody who still has an export can tell that this thread was forgotten.
"""

from __future__ import annotations

import hashlib
import hmac
from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

import msgspec

from perdure.core.entries import Entry, EntryKind
from perdure.core.identity import (
    CACHE,
    ERASURES,
    FACTS,
    MAX_ID,
    MEMORY,
    RESULTS,
    SUBGRAPHS,
    ThreadKey,
    reserved_namespace,
    reserved_of,
)
from perdure.core.retention_words import shown
from perdure.core.threads import ThreadRow
from perdure.core.times import to_datetime

PREFIX = "fgt_"
_SHOWN = 50  # threads that are listed as text; data has all of them
_LONGEST = MAX_ID - 32  # characters of a namespace
THREAD = "thread"
# What lies in the namespaces that the library makes for itself, in words; one of another kind is called by that.
_PARTS = {
    RESULTS: "tool results", CACHE: "cached values", SUBGRAPHS: "subgraph", MEMORY: "store items", FACTS: "memory",
}  # fmt: skip
_ITEMS = {RESULTS: "tool_results", CACHE: "cached_values", MEMORY: "store_items"}
_KINDS = {
    EntryKind.RUN_STARTED: "runs",
    EntryKind.STEP_FINISHED: "steps",
    EntryKind.STEP_FAILED: "steps",
    EntryKind.TOOL_FINISHED: "tool_results",
    EntryKind.TOOL_FAILED: "tool_results",
    EntryKind.PAUSE_OPENED: "pauses",
    EntryKind.PAUSE_DECIDED: "decisions",
}
KINDS = (
    *("threads", "forks", "subgraphs", "quarantined", "entries", "messages", "checkpoints", "runs", "steps"),
    *("tool_results", "pauses", "decisions", "cached_values", "store_items", "facts", "large_values", "bytes"),
)


class ForgottenThread(msgspec.Struct, frozen=True, kw_only=True):
    """A thread of a user who is forgotten, or what is kept beside one."""

    thread_id: str
    part: str  # thread, subgraph, tool results, cached values, store items, memory
    counts: dict[str, int] = {}  # by kind; empty where the thread cannot be read
    is_fork: bool = False
    is_quarantined: bool = False
    is_running: bool = False
    damage: str | None = None  # why it could not be read

    def __str__(self) -> str:
        counted = [
            f"{count:,} {_noun(kind, count)}" for kind, count in self.counts.items() if count and kind != "bytes"
        ]
        flags = {"fork": self.is_fork, "quarantined": self.is_quarantined, "being run": self.is_running}
        what = ", ".join([self.part, *(flag for flag, holds in flags.items() if holds), *counted])
        return f"{shown(self.thread_id)}: {what}{' (cannot be read)' if self.damage else ''}"


class Forgotten(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a user: what `forget` would erase in a dry run, else what it erased."""

    user: str | int
    dry_run: bool
    threads: tuple[ForgottenThread, ...] = ()
    large_values: int = 0  # values over 64 KB that were removed; not counted in a dry run
    tombstone: str | None = None  # the id under which it is recorded, for your own register; None: nothing was
    left: tuple[str, ...] = ()  # what could not be erased, and why
    unreached: tuple[str, ...] = ()  # what no call on this store reaches

    @property
    def is_complete(self) -> bool:
        """Whether nothing of the user is stored here any more; of a dry run, whether nothing is."""
        return not self.left and not (self.dry_run and self.threads)

    @property
    def counts(self) -> dict[str, int]:
        """How many of each kind, in all threads together."""
        total: Counter[str] = Counter(large_values=self.large_values)
        for each in self.threads:
            total.update(each.counts)
            total["threads"] += each.part == THREAD
            total["forks"] += each.is_fork
            total["subgraphs"] += each.part == _PARTS[SUBGRAPHS]
            total["quarantined"] += each.is_quarantined
        return {kind: total[kind] for kind in KINDS}

    def __str__(self) -> str:
        if not self.threads and not self.left and not self.large_values:
            lines = [f"nothing is stored of {shown(str(self.user))}"]
        else:
            counts = {kind: count for kind, count in self.counts.items() if count}
            word = "would forget" if self.dry_run else "forgot"
            lines = [f"{word} {shown(str(self.user))}: {_counted(counts)}"]
        lines += [f"  {each}" for each in self.threads[:_SHOWN]]
        hidden = len(self.threads) - _SHOWN
        lines += [f"  … and {hidden:,} more"] if hidden > 0 else []
        lines += [f"  left: {each}" for each in self.left]
        lines += [f"recorded as {self.tombstone}"] if self.tombstone else []
        return "\n".join([*lines, "not reached from here:", *(f"  {each}" for each in self.unreached)])


class Tombstone(msgspec.Struct, frozen=True, kw_only=True):
    """That a user was forgotten: when, and the digests of the threads' newest entries. No id, no content."""

    id: str
    begun: datetime
    finished: datetime | None  # None: it was interrupted; `forget` for the same user completes it
    threads: int
    digests: tuple[str, ...]  # the chain digest of each thread's newest entry, in hex, in order


def _counted(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count:,} {_noun(kind, count)}" for kind, count in counts.items())


def _noun(kind: str, count: int) -> str:
    words = kind.replace("_", " ")
    singular = words[:-3] + "y" if words.endswith("ies") else words.removesuffix("s")
    return singular if count == 1 and kind != "bytes" else words


def part_of(namespace: str) -> str:
    """What a thread of this namespace is to the user whose it is."""
    reserved = reserved_of(namespace)
    return THREAD if reserved is None else _PARTS.get(reserved.kind, reserved.kind)


def items_of(namespace: str) -> str | None:
    """What the entries of the state of such a thread are counted as; None where they are not."""
    reserved = reserved_of(namespace)
    return None if reserved is None else _ITEMS.get(reserved.kind)


def holds_facts(namespace: str) -> bool:
    """Whether a thread of this namespace is what is remembered of a user."""
    reserved = reserved_of(namespace)
    return reserved is not None and reserved.kind == FACTS


def counted(row: ThreadRow, headers: Iterable[Entry]) -> Counter[str]:
    """How many entries of each kind a thread has itself: what a fork shares with its parent counts there."""
    own = [each for each in headers if each.version > row.parent_version]
    found = Counter(name for each in own if (name := _KINDS.get(each.kind)) is not None)
    found["entries"] = len(own)
    return found


# Tombstones.


def log_key(namespace: str) -> ThreadKey:
    """The thread that holds the tombstones of a namespace."""
    # A namespace may be as long as an id: one that would be too long beside the word is replaced by its digest.
    short = namespace if len(namespace) <= _LONGEST else hashlib.sha256(namespace.encode()).hexdigest()
    return ThreadKey(reserved_namespace(ERASURES, short), "", "log")


def is_log(key: ThreadKey) -> bool:
    """Whether a thread holds tombstones."""
    reserved = reserved_of(key.namespace)
    return reserved is not None and reserved.kind == ERASURES


def proof_of(salt: bytes, key: ThreadKey) -> bytes:
    """What an interrupted forget is found by. Once it is finished the salt is gone, and nobody can guess the user."""
    return hmac.digest(salt, key.digest().encode(), "sha256")


def mark_of(salt: bytes, uid: str) -> str:
    """A name for a thread inside its tombstone, so that one that is written twice counts once."""
    return hmac.new(salt, uid.encode(), hashlib.sha256).hexdigest()[:16]


def begun(proof: bytes, now: int) -> dict[str, Any]:
    """A tombstone at its beginning, as it is stored."""
    return {"begun": now, "proof": proof, "threads": {}, "finished": None}


def thread_mark(row: ThreadRow) -> dict[str, Any]:
    """What stays of a thread."""
    return {"chain": row.head_digest}


def unfinished(stored: Mapping[str, Any], salts: Mapping[str, bytes], key: ThreadKey) -> str | None:
    """The interrupted forget of this user, if there is one."""
    for name, salt in salts.items():
        each = stored.get(name)
        if each is not None and each["finished"] is None and hmac.compare_digest(each["proof"], proof_of(salt, key)):
            return name
    return None


def tombstones(stored: Mapping[str, Any]) -> list[Tombstone]:
    """The tombstones of a store, the newest first."""
    found = [
        Tombstone(
            id=name,
            begun=to_datetime(each["begun"]),
            finished=None if each["finished"] is None else to_datetime(each["finished"]),
            threads=len(each["threads"]),
            digests=tuple(sorted(thread["chain"].hex() for thread in each["threads"].values())),
        )
        for name, each in stored.items()
    ]
    return sorted(found, key=lambda each: each.begun, reverse=True)


EVERYWHERE = (
    "backups, snapshots, replicas and archived logs of the storage: let them expire, or restore and forget there too",
    "exports, copies and other stores that were written already, and what others imported from them",
    "what tools did in other systems, messages that were sent, webhooks, logs, traces and metrics",
    "threads of other users: what was forked or copied to them is theirs, and so is who acted or decided there",
    "other processes: what they have in memory, in a background queue or in a Redis that this store does not use",
)
