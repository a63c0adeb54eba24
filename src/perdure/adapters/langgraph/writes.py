"""What tasks wrote before their step was over: kept as entries of the log, put together when they are read."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import sha256
from typing import Any

import msgspec
from langgraph.checkpoint.base import WRITES_IDX_MAP
from msgspec import Raw

from perdure.adapters.langgraph.places import point_id
from perdure.core.codec import decode, encode

ERROR = "__error__"


class Write(msgspec.Struct, array_like=True, frozen=True):
    """One value for one channel, and its place among those of its task."""

    index: int
    channel: str
    value: Raw


class Written(msgspec.Struct, array_like=True, frozen=True):
    """The body of `task.written`: what one call wrote."""

    checkpoint: str
    task: str
    path: str
    writes: list[Write]

    @property
    def replaces(self) -> bool:
        """Whether it takes the place of what stands: errors, interrupts and answers do, results never."""
        return all(each.channel in WRITES_IDX_MAP for each in self.writes)


encode_body = msgspec.msgpack.Encoder().encode
decode_written = msgspec.msgpack.Decoder(Written).decode


def written(checkpoint: str, writes: Sequence[tuple[str, Any]], task: str, path: str) -> Written:
    """What is kept of a call."""
    return Written(
        checkpoint,
        str(task),
        str(path),
        [
            Write(WRITES_IDX_MAP.get(channel, at), channel, Raw(encoded(_told(value), at, channel)))
            for at, (channel, value) in enumerate(writes)
        ],
    )


def encoded(value: Any, at: int, channel: str) -> bytes:
    """What is kept of a value that a task wrote."""
    return encode(value, root="writes", at=(at, channel), subclasses="plain")


def _told(value: Any) -> Any:
    """An error is kept as its words: an exception may hold anything."""
    return repr(value) if isinstance(value, BaseException) else value


def prefix(checkpoint: str) -> str:
    """How the keys of everything that was written for a checkpoint begin."""
    return f"w.{point_id(checkpoint)}."


def begins(checkpoints: Collection[str], most: int) -> list[str]:
    """Beginnings of keys, at most so many, that all keys of these checkpoints have; no two of them overlap."""
    groups = [sorted(map(prefix, checkpoints))]
    while len(groups) < most and (wide := [each for each in groups if len(each) > 1]):
        widest = min(wide, key=lambda each: len(_common(each)))
        parts = _apart(widest)
        if len(groups) - 1 + len(parts) > most:
            break
        groups.remove(widest)
        groups += parts
    return [_common(each) for each in groups]


def _common(keys: list[str]) -> str:
    """How keys in order begin, all of them."""
    first, last = keys[0], keys[-1]
    return first[: next((at for at, pair in enumerate(zip(first, last, strict=False)) if pair[0] != pair[1]), None)]


def _apart(keys: list[str]) -> list[list[str]]:
    """The same keys by the first sign in which they differ."""
    at, found = len(_common(keys)), dict[str, list[str]]()
    for key in keys:
        found.setdefault(key[at], []).append(key)
    return list(found.values())


def key_of(checkpoint: str, body: bytes) -> str:
    """The key of a call: the very same call again is kept once."""
    return prefix(checkpoint) + sha256(body).hexdigest()[:32]


def merged(calls: Iterable[Written]) -> list[tuple[str, str, Any]]:
    """What stands after these calls, in the order in which a step applies it: (task, channel, value)."""
    return [(task, write.channel, decode(write.value)) for _, task, write in standing(calls)]


def standing(calls: Iterable[Written]) -> list[tuple[str, str, Write]]:
    """What stands after these calls, in the order in which a step applies it: (path, task, write)."""
    found: dict[tuple[str, int], tuple[str, Write]] = {}
    for call in calls:
        for write in call.writes:
            place = (call.task, write.index)
            if call.replaces or place not in found:
                found[place] = (call.path, write)
    ordered = sorted(found.items(), key=lambda item: (item[1][0], *item[0]))
    return [(path, task, write) for (task, _), (path, write) in ordered]
