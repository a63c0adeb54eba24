"""Reading a mapping key by key: what is not asked for is a mistake in the file, what has the wrong type is one too."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from perdure.app.config.places import Page, Place, Placed
from perdure.app.config.scalars import Unset
from perdure.app.options import hint
from perdure.core.addresses import may_hold_password
from perdure.core.errors import InvalidInputError
from perdure.storage.permissions import parse_file_mode

T = TypeVar("T")
_KINDS = {str: "text", bool: "true or false", int: "a whole number", float: "a number", dict: "keys and values",
          list: "a list", type(None): "nothing"}  # fmt: skip
# What is found there instead may be a password: a number as one, or an address or a header in the place of its section.
_UNSHOWN = ("text", "keys and values")
_SHOWN = 40  # characters of a value in a message


class Section:
    """A mapping of a file. Ask for its keys, then `close()` it: what nobody asked for is unknown."""

    def __init__(self, page: Page, placed: Placed, name: str = "", asked: set[str] | None = None) -> None:
        self.page = page
        self.place = placed.place
        self.name = name
        self.asked: set[str] = set() if asked is None else asked  # the keys of the whole file that are read, dotted
        self._keys = placed.keys
        self._known: list[str] = []
        self._values: dict[str, Placed] = {}
        if isinstance(placed.value, dict):
            self._values = placed.value
        elif placed.value is not None and not isinstance(placed.value, Unset):
            self.wrong(placed, "keys and values")

    @property
    def is_there(self) -> bool:
        """Whether the file has anything in it."""
        return bool(self._values)

    def has(self, name: str) -> bool:
        """Whether the file has a key; asking makes it known."""
        self._know(name)
        return name in self._values

    def placed(self, name: str) -> Placed | None:
        """The value of a key as it stands in the file, None where there is none; asking makes the key known."""
        return self._values.get(name) if self.has(name) else None

    def is_text(self, name: str) -> bool:
        """Whether a key has a single value, not keys or a list."""
        return self.has(name) and not isinstance(self._values[name].value, dict | list)

    def is_null(self, name: str) -> bool:
        """Whether a key stands there with nothing behind it."""
        return self.has(name) and self._values[name].value is None

    def text(self, name: str, default: Any = None) -> Any:
        """A text that is not empty."""
        return self._checked(name, default, "text", lambda value: type(value) is str and value != "")

    def flag(self, name: str, default: bool) -> bool:
        """True or false."""
        return self._checked(name, default, "true or false", lambda value: type(value) is bool)

    def count(self, name: str, default: Any, least: int = 1) -> Any:
        """A whole number."""
        expected = f"a whole number from {least} on"
        return self._checked(name, default, expected, lambda value: type(value) is int and value >= least)

    def seconds(self, name: str, default: Any, *, zero: bool = False) -> Any:
        """A time."""

        def fits(value: object) -> bool:
            return type(value) in (int, float) and (value > 0 or (zero and value == 0)) and value < 1e10  # type: ignore[operator]

        return self._checked(name, default, "a number of seconds", fits)

    def number(self, name: str, default: Any) -> Any:
        """A number that is not negative."""

        def fits(value: object) -> bool:
            return type(value) in (int, float) and 0 <= value < 1e15  # type: ignore[operator]

        return self._checked(name, default, "a number from 0 on", fits)

    def file_mode(self, name: str) -> int | None:
        """The mode of files, in octal digits."""
        value = self._checked(name, None, "the mode of a file, such as 0o660", _is_file_mode)
        return None if value is None else parse_file_mode(value)

    def choice(self, name: str, choices: Sequence[str], default: Any = None) -> Any:
        """One of some words."""
        expected = f"one of {', '.join(choices)}"
        return self._checked(name, default, expected, lambda value: value in choices, choices)

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts."""
        return tuple(each for each in (self._item(each, "text") for each in self._list(name)) if each is not None)

    def pairs(self, name: str) -> dict[str, str]:
        """A mapping of texts to texts."""
        inner = self.section(name, leaf=True)
        found = {key: self._item(each, "text") for key, each in inner._values.items()}
        return {key: value for key, value in found.items() if value is not None}

    def plain(self, name: str) -> dict[str, Any]:
        """A mapping of words to any values."""
        self._know(name)
        placed = self._values.get(name)
        if placed is None or isinstance(placed.value, Unset):
            return {}
        if not isinstance(placed.value, dict):
            self.wrong(placed, "keys and values")
            return {}
        return _plain(placed)

    def lists(self, name: str) -> bool:
        """Whether the file has a key, without saying that the key itself is one with a value."""
        return name in self._values

    def named_sections(self, name: str) -> Iterator[tuple[str, Section]]:
        """The mappings inside of a mapping whose keys are anybody's words."""
        inner = self.section(name, leaf=True)
        for each, placed in inner._values.items():
            if placed.value is None:
                self.wrong(placed, "keys and values")
            yield each, Section(self.page, placed, f"{self.dotted(name)}.*", self.asked)

    def section(self, name: str, *, leaf: bool = False) -> Section:
        """A mapping inside; an empty one where there is none."""
        self._know(name, leaf=leaf)
        placed = self._values.get(name, Placed(None, self.place))
        return Section(self.page, placed, self.dotted(name), self.asked)

    def sections(self, name: str) -> Iterator[Section]:
        """A list of mappings."""
        for each in self._list(name, leaf=False):
            if each.value is None:
                self.wrong(each, "keys and values")
            yield Section(self.page, each, f"{self.dotted(name)}[]", self.asked)

    def dotted(self, name: str) -> str:
        """A key of this section as the whole file calls it."""
        return f"{self.name}.{name}" if self.name else name

    def place_of(self, name: str) -> Place:
        """Where the value of a key stands, or would stand."""
        return self._values[name].place if name in self._values else self.place

    def made(self, make: Callable[[], T], instead: T, place: Place | None = None) -> T:
        """What `make` gives; where it refuses its values, that is a problem of this section."""
        try:
            return make()
        except InvalidInputError as exc:
            self.page.problem(place or self.place, str(exc))
            return instead

    def close(self) -> None:
        """Whatever nobody asked for is unknown."""
        for name in self._values:
            if name not in self._known:
                known = tuple(self._known)
                self.page.problem(self._keys[name], f"unknown key {name!r}{hint(name, known) or _known(known)}")

    def wrong(self, placed: Placed, expected: str, choices: Sequence[str] = ()) -> None:
        """A value is not what was expected."""
        value = placed.value
        found = _KINDS.get(type(value), "something else")
        if isinstance(value, str | int | float) and not (
            placed.is_secret or expected in _UNSHOWN or (isinstance(value, str) and may_hold_password(value))
        ):
            found = f"{'text ' if type(value) is str else ''}{_short(value)}"
        near = hint(value, tuple(choices)) if isinstance(value, str) else ""
        self.page.problem(placed.place, f"expected {expected}, found {found}{near}")

    def _checked(
        self, name: str, default: Any, expected: str, fits: Callable[[Any], bool], choices: Sequence[str] = ()
    ) -> Any:
        if not self.has(name):
            return default
        placed = self._values[name]
        if not isinstance(placed.value, dict | list) and fits(placed.value):
            return placed.value
        if not isinstance(placed.value, Unset):
            self.wrong(placed, expected, choices)
        return default

    def _list(self, name: str, *, leaf: bool = True) -> list[Placed]:
        self._know(name, leaf=leaf)
        placed = self._values.get(name)
        if placed is None or isinstance(placed.value, Unset):
            return []
        if not isinstance(placed.value, list):
            self.wrong(placed, "a list")
            return []
        return placed.value

    def _item(self, placed: Placed, expected: str) -> str | None:
        if type(placed.value) is str and placed.value:
            return placed.value
        if not isinstance(placed.value, Unset):
            self.wrong(placed, expected)
        return None

    def _know(self, name: str, *, leaf: bool = True) -> None:
        self._known.append(name)
        if leaf:
            self.asked.add(self.dotted(name))


def _plain(placed: Placed) -> Any:
    if isinstance(placed.value, dict):
        return {name: _plain(each) for name, each in placed.value.items()}
    if isinstance(placed.value, list):
        return [_plain(each) for each in placed.value]
    return None if isinstance(placed.value, Unset) else placed.value


def _is_file_mode(value: object) -> bool:
    try:
        parse_file_mode(value)
    except InvalidInputError:
        return False
    return True


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"


def _known(known: Sequence[str]) -> str:
    return f"; there {'are' if len(known) > 1 else 'is'} {', '.join(dict.fromkeys(known))}" if known else ""
