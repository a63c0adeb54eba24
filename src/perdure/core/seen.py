"""What was saved last, as far as it can be recognised in the next state without encoding it again."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import Raw

from perdure.core.codec import encode, encode_into
from perdure.core.delta import Altered, Grown
from perdure.core.frozen import FrozenItems
from perdure.core.leaves import FlatDict, PlainItems

if TYPE_CHECKING:
    from perdure.core.objects import ObjectItems

    Items = PlainItems | FrozenItems | ObjectItems

_LONG = 16  # a shorter list is encoded sooner than it is compared
_PATIENCE = 3  # lists that changed elsewhere than at their end this often are not remembered for a while
_REST = 32


class Seen:
    """The long lists of a state as they were last saved, by key, and the flat dicts beside them."""

    __slots__ = ("_dicts", "_lists", "_misses", "_tails")

    def __init__(
        self,
        lists: dict[str, Items] | None = None,
        misses: dict[str, int] | None = None,
        tails: dict[str, Any] | None = None,
        dicts: dict[str, FlatDict] | None = None,
    ) -> None:
        self._lists = lists or {}
        self._misses = misses or {}
        self._tails = tails or {}  # what comes to the lists once the state is saved
        self._dicts = dicts or {}

    def settled(self) -> Seen:
        """The state was saved: its lists have become longer. They are too long to be copied at each save."""
        for key, tail in self._tails.items():
            self._lists[key].extend(tail)
        self._tails = {}
        return self

    def encoded(self, state: Any, buffer: bytearray) -> tuple[Any, Seen]:
        """Encode a state, leaving out parts that are still what they were; return it and what is seen now.

        The result is what `delta` takes: a view of the buffer, or a dict of encoded, `Grown` and `Altered` values. What
        is seen now takes the place of this once the state is saved (`settled`).
        """
        long = _long_lists(state)
        if not long:
            return encode_into(state, buffer), _NOTHING
        grown = {key: known for key, known in self._lists.items() if key in long and known.grown_to(long[key])}
        if not grown:
            return encode_into(state, buffer), self._after(long, grown, {})
        dicts: dict[str, FlatDict] = {}
        new = {
            key: _tail(key, value, grown[key]) if key in grown else self._part(key, value, dicts)
            for key, value in state.items()
        }
        return new, self._after(long, grown, dicts)

    def _part(self, key: str, value: Any, dicts: dict[str, FlatDict]) -> Raw | Altered:
        """A value that is no long list; `dicts` takes what is to be remembered of it."""
        known = self._dicts.get(key)
        changed = known.changed_in(value) if known and type(value) is dict else None
        flat = known.after(value, changed) if known and changed is not None else FlatDict.of(value)
        if flat is not None:
            dicts[key] = flat
        if changed is None:
            return Raw(encode(value, at=(key,)))
        return Altered({name: Raw(encode(each, at=(key, name))) for name, each in changed.items()})

    def _after(self, long: dict[str, list[Any]], grown: dict[str, Items], dicts: dict[str, FlatDict]) -> Seen:
        misses = {key: 0 if key in grown else (self._misses.get(key, -1) + 1) % _REST for key in long}
        tails = {key: known.of(long[key][known.count :]) for key, known in grown.items()}
        lists = {key: known for key, known in grown.items() if tails[key] is not None}
        for key, value in long.items():
            # Not at the first save: a process that saves once and ends would remember for nobody.
            if key not in grown and key in self._misses and (items := _remembered(value, misses[key])):
                lists[key] = items
        return Seen(lists, misses, {key: tails[key] for key in lists if key in tails}, dicts)


_NOTHING = Seen()


def _long_lists(state: Any) -> dict[str, list[Any]]:
    if type(state) is not dict:
        return {}
    long = {key: value for key, value in state.items() if type(value) is list and len(value) >= _LONG}
    return long if long and all(type(key) is str and key.isprintable() for key in state) else {}


def _tail(key: str, value: list[Any], known: Items) -> Grown:
    fresh = enumerate(value[known.count :], known.count)
    return Grown(known.count, [Raw(encode(item, at=(key, at))) for at, item in fresh])


def _remembered(value: list[Any], misses: int) -> Items | None:
    if misses > _PATIENCE:
        return None
    return PlainItems.of(value) or FrozenItems.of(value) or _objects(value)


def _objects(value: list[Any]) -> Items | None:
    from perdure.core.objects import ObjectItems  # few states have any

    return ObjectItems.of(value)
