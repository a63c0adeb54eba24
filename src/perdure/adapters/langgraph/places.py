"""Where LangGraph's names lead: threads and checkpoints of ours, and back."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.core.errors import InvalidInputError
from perdure.core.identity import SUBGRAPHS, ThreadKey, check_id, reserved_namespace, reserved_of
from perdure.core.threads import LANGGRAPH

KIND = LANGGRAPH  # of the checkpoints that a graph saves
_HEX = frozenset("0123456789abcdef")
_RUNTIME = "__pregel_runtime"  # what LangGraph puts into the config of a run, and of nothing else
_READS = 10_000  # whose first put may still come
_OTHER = "z"  # begins the name of an id that is no UUID; no hexadecimal digit


class Place(msgspec.Struct, frozen=True):
    """What a config of LangGraph names: a thread, the namespace of a subgraph ("" for the graph itself), a point."""

    thread: str
    ns: str = ""
    checkpoint: str | None = None


def place_of(config: Mapping[str, Any]) -> Place:
    """The place that a config names. Raises `InvalidInputError` when it names no thread."""
    given = config.get("configurable") or {}
    if given.get("thread_id") is None:
        raise InvalidInputError('the config names no thread; give {"configurable": {"thread_id": "…"}}')
    point = given.get("checkpoint_id")
    return Place(str(given["thread_id"]), str(given.get("checkpoint_ns") or ""), str(point) if point else None)


def key_of(namespace: str, user: str, thread: str, ns: str) -> ThreadKey:
    """The thread of a graph, or of one of its subgraphs, which no list of threads shows."""
    check_id(str(thread), "the thread id")
    if not ns:
        return ThreadKey(namespace, user, str(thread))
    return ThreadKey(reserved_namespace(SUBGRAPHS, namespace, thread), user, check_id(ns, "the checkpoint_ns"))


def thread_in(namespace: str, found: str) -> str | None:
    """The thread whose subgraphs have this namespace; None for any other namespace."""
    reserved = reserved_of(found)
    return reserved.thread if reserved and (reserved.kind, reserved.namespace) == (SUBGRAPHS, namespace) else None


def point_id(checkpoint: str) -> str:
    """The id that one of LangGraph's checkpoints has here."""
    digits = checkpoint.replace("-", "")
    if _dashed(digits) == checkpoint:
        return f"chk_{digits}"
    return check_id(f"chk_{_OTHER}{checkpoint.encode('utf-8', 'surrogatepass').hex()}", "the checkpoint_id")


def checkpoint_id(point: str) -> str:
    """The id that one of our checkpoints has there."""
    digits = point.removeprefix("chk_")
    if digits.startswith(_OTHER):
        return bytes.fromhex(digits[1:]).decode("utf-8", "surrogatepass")
    return _dashed(digits) or digits


def _dashed(digits: str) -> str | None:
    if len(digits) != 32 or not _HEX.issuperset(digits):
        return None
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


class Reads:
    """How checkpoints were read, told by the very object that their id was given as.

    A run that read the newest checkpoint must not leave behind what another put on top of it meanwhile; one that asked
    for an old checkpoint by its id wants exactly that. LangGraph hands the id of what it read on to the first put after
    it. A mark of ours beside it would be seen in the configs of users, and kept in their states.
    """

    def __init__(self) -> None:
        self._known: OrderedDict[int, tuple[str, bool]] = OrderedDict()  # holds each object, so that its identity stays
        self._lock = threading.Lock()

    def remember(self, point: str, *, by_id: bool) -> None:
        """A checkpoint was read, by its id or as the newest one."""
        if len(point) < 2:
            return  # Python has one object for all texts of one character
        with self._lock:
            self._known[id(point)] = (point, by_id)
            if len(self._known) > _READS:
                self._known.popitem(last=False)

    def may_branch(self, config: Mapping[str, Any], source: object) -> bool:
        """Whether a put may leave behind what stands after its parent."""
        if source in ("fork", "update"):
            return True
        given = config.get("configurable") or {}
        read = self._known.get(id(given.get("checkpoint_id")))
        if read is not None:
            return read[1]
        # Nobody read it: a caller of the saver means the parent it names; a run goes on from what it put itself.
        return not any(name.startswith("__pregel_") for name in given)


def is_run(config: Mapping[str, Any]) -> bool:
    """Whether a graph asks that is about to run, not somebody who looks at its state."""
    return _RUNTIME in (config.get("configurable") or {})


def config_of(place: Place, checkpoint: str) -> dict[str, Any]:
    """The config of a checkpoint."""
    return {"configurable": {"thread_id": place.thread, "checkpoint_ns": place.ns, "checkpoint_id": checkpoint}}
