"""One namespace of LangGraph's long-term store as a state of ours: its items, and the labels below it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from typing import Any

import msgspec
from msgspec import Raw

from perdure.checkpoints.restoring import Head
from perdure.core.changes import Change
from perdure.core.codec import decode
from perdure.core.document import Document, DoesNotFit, closed, opened
from perdure.core.errors import InvalidInputError
from perdure.core.identity import MAX_ID

Labels = tuple[str, ...]
_LABELS, _ITEMS, _BELOW, _SINCE = "namespace", "items", "below", "since"
_READ_AGAIN = 100  # an item that is read is kept on only where that moves its end by a hundredth of its time


def thread_id(labels: Labels) -> str:
    """The id of the thread of a namespace: the labels themselves, as JSON, or a digest of it where it is too long."""
    try:
        text = msgspec.json.encode(labels).decode()
    except UnicodeEncodeError:
        raise InvalidInputError(
            f"the namespace {labels!r} holds a lone surrogate, which databases cannot keep"
        ) from None
    return text if len(text) <= MAX_ID else f"sha256:{sha256(text.encode()).hexdigest()}"


class Kept(msgspec.Struct, frozen=True, kw_only=True):
    """An item. Times are microseconds."""

    value: dict[str, Any]
    created: int
    updated: int
    ttl: int | None = None
    expires: int | None = None
    vectors: dict[str, bytes] = {}

    def is_over(self, now: int) -> bool:
        """Whether its time has run out."""
        return is_over(self.expires, now)

    def stored(self) -> dict[str, Any]:
        """What is stored of it: what it has not is left out."""
        fields = msgspec.structs.asdict(self).items()
        return {name: value for name, value in fields if name == "value" or value not in (None, {})}


class Shelf:
    """What a namespace holds at one version. Look at it before anything is waited for: the head behind it goes on."""

    def __init__(self, labels: Labels, head: Head) -> None:
        self.labels = labels
        self.version = head.version
        self.is_new = head.uid is None
        self._document = head.document

    @property
    def items(self) -> dict[str, Any]:
        """Its items, encoded."""
        return _part(self._document, _ITEMS)

    @property
    def below(self) -> dict[str, Any]:
        """The labels of the namespaces below it."""
        return _part(self._document, _BELOW)

    @property
    def since(self) -> str:
        """Sorts namespaces by when something was first put into them; "" for one in which nothing ever was."""
        node = _part(self._document, _SINCE)
        return decode(node) if type(node) is Raw else ""

    def get(self, key: str) -> Kept | None:
        """An item, whether its time has run out or not."""
        node = self.items.get(key)
        return None if node is None else kept(closed(node))

    def encoded(self) -> list[tuple[str, Raw]]:
        """All items, encoded, in the order in which their keys were first put; they may be looked at later."""
        return [(key, closed(node)) for key, node in self.items.items()]


def kept(encoded: Raw) -> Kept:
    """An item that was stored."""
    return Kept(**decode(encoded))


def is_over(expires: int | None, now: int) -> bool:
    """Whether the time of something has run out."""
    return expires is not None and expires <= now


def _part(document: Document, name: str) -> Any:
    try:
        return document.reach((name,))
    except DoesNotFit:
        return {}


def _expires(node: Any) -> int | None:
    end = opened(node).get("expires")  # the rest of an item may be large
    return None if end is None else decode(closed(end))


class Given(msgspec.Struct, frozen=True, kw_only=True):
    """What is put under a key; no value deletes it."""

    value: Mapping[str, Any] | None
    ttl: int | None = None
    vectors: dict[str, bytes] = {}


def putting(shelf: Shelf, given: Mapping[str, Given], now: int, since: str) -> Change | None:
    """The change that puts and deletes items; None where it would change nothing."""
    sets: dict[tuple[str, ...], Any] = {
        (_ITEMS, key): _record(each, shelf.get(key), now).stored()
        for key, each in given.items()
        if each.value is not None
    }
    gone = [(_ITEMS, key) for key, each in given.items() if each.value is None and key in shelf.items]
    if sets and not shelf.since:
        sets[_SINCE,] = since
    return _change(shelf, sets, gone)


def _record(given: Given, old: Kept | None, now: int) -> Kept:
    created = now if old is None or old.is_over(now) else old.created
    end = None if given.ttl is None else now + given.ttl
    value = dict(given.value or {})
    return Kept(value=value, created=created, updated=now, ttl=given.ttl, expires=end, vectors=given.vectors)


def touching(shelf: Shelf, read: set[str], now: int, *, sweep: bool) -> tuple[Change | None, int]:
    """The change that keeps on what was read and drops what is over, and how many items that drops."""
    looked_at = shelf.items if sweep else {key: shelf.items[key] for key in read if key in shelf.items}
    gone = [(_ITEMS, key) for key, node in looked_at.items() if is_over(_expires(node), now)]
    sets: dict[tuple[str, ...], Any] = {}
    for key in read:
        end = _kept_on(shelf.get(key), now)
        if end is not None:
            sets[_ITEMS, key, "expires"] = end
    return _change(shelf, sets, gone), len(gone)


def _kept_on(item: Kept | None, now: int) -> int | None:
    """When an item ends that was read just now; None where that stays as it is."""
    if item is None or item.ttl is None or item.expires is None or item.is_over(now):
        return None
    end = now + item.ttl
    return end if end - item.expires >= max(item.ttl // _READ_AGAIN, 1) else None


def naming(shelf: Shelf, labels: Iterable[str]) -> Change | None:
    """The change that names namespaces in the one above them; None where they are named there."""
    return _change(shelf, {(_BELOW, label): True for label in labels if label not in shelf.below}, [])


def _change(shelf: Shelf, sets: dict[tuple[str, ...], Any], gone: list[tuple[str, ...]]) -> Change | None:
    if not sets and not gone:
        return None
    if shelf.is_new:
        sets = {(_LABELS,): list(shelf.labels), **sets}
    return Change(sets, {}, gone, "plain")
