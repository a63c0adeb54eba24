"""YAML with its places: every value knows its line and column, so that a mistake can be pointed at.

Nothing is built from a file but dicts, lists, texts, numbers, true, false and null: the nodes of the parser are walked
here, no tag makes an object. Whatever a file holds, the only error is `InvalidConfigError`.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from types import MappingProxyType
from typing import Any, NamedTuple

from perdure.app.config.scalars import Unset, has_variables, scalar, substituted
from perdure.core.errors import InvalidConfigError
from perdure.core.extras import check_releases, missing

_MOST_BYTES = 256 * 1024  # the parser is slow, and settings are short
_MOST_NODES = 20_000  # with those that aliases repeat: ten lines of them can mean a billion
_DEEPEST = 64
_PLAIN = ("str", "int", "float", "bool", "null", "timestamp", "value", "map", "seq")
_TAG = "tag:yaml.org,2002:"


class Place(NamedTuple):
    """Where something stands in a file, as editors count."""

    line: int
    column: int


class Placed(NamedTuple):
    """A value and its place. A mapping has the places of its keys too."""

    value: Any  # a dict of Placed by key, a list of Placed, or a scalar
    place: Place
    keys: Mapping[str, Place] = {}
    is_secret: bool = False  # it came out of the environment, where secrets are


class Page:
    """A file that is being read, and what is wrong with it so far."""

    def __init__(
        self, path: str, environment: Mapping[str, str], no_variables: str = "", *, literal: bool = False
    ) -> None:
        self.path = path
        self.environment = environment
        self.literal = literal  # a `${VARIABLE}` is the text itself
        self.no_variables = no_variables  # why a `${VARIABLE}` is refused here; "" where it is filled in
        self.elsewhere: Mapping[str, str] = {}  # variables that are set where they do not count, each with the reason
        self.later: dict[Place, str] | None = None  # refused variables, where only the keys that are used matter
        self._problems: list[tuple[Place, str]] = []

    @property
    def folder(self) -> str:
        """What relative paths in it start from."""
        return os.path.dirname(self.path)

    @property
    def problems(self) -> list[tuple[Place, str]]:
        """What is wrong so far."""
        return self._problems

    def where(self, place: Place) -> str:
        """A place for people."""
        return f"{self.path}:{place.line}:{place.column}"

    def problem(self, place: Place, text: str) -> None:
        """Something is wrong at a place; reading goes on, so that everything is told at once."""
        self._problems.append((place, text))

    def check(self) -> None:
        """Raise `InvalidConfigError` with everything that is wrong, in the order of the file."""
        if self._problems:
            raise InvalidConfigError(self.path, self.lines())

    def lines(self) -> list[str]:
        """Everything that is wrong, in the order of the file."""
        found = dict.fromkeys(sorted(self._problems, key=lambda each: each[0]))
        return [f"{self.where(at)}: {text}" for at, text in found]


def read_bytes(path: str | os.PathLike[str]) -> bytes:
    """What a file holds, as far as it is read at all; raise `InvalidConfigError`."""
    shown = os.fspath(path)
    try:
        with open(path, "rb") as file:
            return file.read(_MOST_BYTES + 1)
    except (OSError, ValueError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        raise InvalidConfigError(shown, [f"{shown}: it cannot be read: {reason}"]) from exc


def parse_page(
    path: str, data: bytes, environment: Mapping[str, str] | None = None, *, no_variables: str = "",
    literal: bool = False, elsewhere: Mapping[str, str] = MappingProxyType({}), lenient: bool = False,
) -> tuple[Page, Placed]:  # fmt: skip
    """Parse a file; raise `InvalidConfigError`, and `MissingExtraError` where the parser is not installed.

    With `no_variables`, a reason, each `${VARIABLE}` is a mistake and nothing of the environment is read; a `lenient`
    page only remembers where they are. With `literal` it is a text like any other. `elsewhere` adds a reason to the
    mistake of a variable that is not set.
    """
    page = Page(path, os.environ if environment is None else environment, no_variables, literal=literal)
    page.elsewhere, page.later = elsewhere, {} if lenient else None
    if len(data) > _MOST_BYTES:
        page.problem(Place(1, 1), f"the file is larger than {_MOST_BYTES // 1024} KB")
        page.check()
    node = _composed(page, _text(page, data))
    tree = Placed({}, Place(1, 1)) if node is None else _Walk(page).placed(node, 0)
    return page, tree


def _text(page: Page, data: bytes) -> str:
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as exc:
        before = data[: exc.start].decode("utf-8", "replace")
        page.problem(_at(before), f"byte 0x{data[exc.start]:02x} is not UTF-8")
        page.check()
        raise


def _at(before: str) -> Place:
    return Place(before.count("\n") + 1, len(before) - (before.rfind("\n") + 1) + 1)


def _composed(page: Page, text: str) -> Any:
    """The nodes of the only document of a text."""
    try:
        from ruamel.yaml import YAML
    except ModuleNotFoundError as exc:
        raise missing("a file of settings", "config") from exc
    check_releases("a file of settings", "config")
    with _told(page, text):
        deep = _too_deep(YAML(typ="safe", pure=True).parse(text))
    if deep is not None:
        page.problem(deep, "it is nested too deep")
        page.check()
    with _told(page, text):
        return YAML(typ="safe", pure=True).compose(text)


def _too_deep(events: Iterable[Any]) -> Place | None:
    """Where it is nested too deep: making nodes of that would take the square of its depth."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind.endswith("StartEvent") - kind.endswith("EndEvent")
        if depth > _DEEPEST + 3:  # the stream and the document count too; the exact limit is the walk's
            return Place(event.start_mark.line + 1, event.start_mark.column + 1)
    return None


@contextmanager
def _told(page: Page, text: str) -> Generator[None]:
    """What the parser raises, as a problem of the page."""
    from ruamel.yaml.error import YAMLError
    from ruamel.yaml.reader import ReaderError

    try:
        yield
    except ReaderError as exc:
        sign: Any = exc.character  # a number or a character, by the way the text came in
        code = sign if isinstance(sign, int) else ord(sign[:1] or "?")
        page.problem(_at(text[: exc.position]), f"character U+{code:04X} is not allowed in YAML")
    except YAMLError as exc:
        mark = getattr(exc, "problem_mark", None) or getattr(exc, "context_mark", None)
        reason = getattr(exc, "problem", None) or "cannot be read"
        page.problem(Place(mark.line + 1, mark.column + 1) if mark else Place(1, 1), f"not YAML: {_one_line(reason)}")
    except RecursionError:
        page.problem(Place(1, 1), "it is nested too deep")
    except Exception as exc:  # the parser stumbles over some escapes and directives with errors of other kinds
        page.problem(Place(1, 1), f"not YAML: {_one_line(str(exc)) or type(exc).__name__}")
    page.check()


def _one_line(text: str) -> str:
    return " ".join(text.split())


class _Walk:
    """Goes through the nodes of a page."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._nodes = 0

    def placed(self, node: Any, depth: int) -> Placed:
        """What a node says."""
        place = _place(node)
        self._nodes += 1
        if depth > _DEEPEST or self._nodes > _MOST_NODES:
            what = "it is nested too deep" if depth > _DEEPEST else f"with its aliases it has over {_MOST_NODES} values"
            self._page.problem(place, what)
            self._page.check()
        tag = str(node.tag)
        if not tag.startswith(_TAG) or tag.removeprefix(_TAG) not in _PLAIN:
            self._page.problem(place, f"tag {_one_line(tag)!r} is not allowed: only plain values are")
            return Placed(None, place)
        return self._by_kind(node, place, depth)

    def _by_kind(self, node: Any, place: Place, depth: int) -> Placed:
        if node.id == "mapping":
            return self._mapping(node, place, depth)
        if node.id == "sequence":
            return Placed([self.placed(each, depth + 1) for each in node.value], place)
        return Placed(self._scalar(node, place), place, is_secret="${" in node.value and not self._page.literal)

    def _scalar(self, node: Any, place: Place) -> Any:
        if self._page.literal:
            return scalar(node.value) if not node.style else node.value
        if self._page.no_variables and has_variables(node.value):
            if self._page.later is None:
                self._page.problem(place, self._page.no_variables)
            else:
                self._page.later[place] = self._page.no_variables
            return Unset()
        try:
            text = substituted(node.value, self._page.environment, self._page.folder)
        except Unset as exc:
            known = next((why for name, why in self._page.elsewhere.items() if f"variable {name!r} " in str(exc)), "")
            self._page.problem(place, f"{exc}{known}")
            return exc
        return scalar(text) if not node.style else text

    def _mapping(self, node: Any, place: Place, depth: int) -> Placed:
        values: dict[str, Placed] = {}
        keys: dict[str, Place] = {}
        for key, value in node.value:
            at = _place(key)
            if key.id == "mapping":
                self._page.problem(at, 'a value that begins with {{ must be quoted: "{{ … }}"')
            elif key.id != "scalar" or not str(key.tag).startswith(_TAG) or key.tag.endswith(":merge"):
                self._page.problem(at, "a key must be a word: neither lists, mappings, tags nor << are read")
            elif key.value in keys:
                self._page.problem(at, f"key {key.value!r} stands here twice, first in line {keys[key.value].line}")
            else:
                keys[key.value], values[key.value] = at, self.placed(value, depth + 1)
        return Placed(values, place, keys)


def _place(node: Any) -> Place:
    return Place(node.start_mark.line + 1, node.start_mark.column + 1)
