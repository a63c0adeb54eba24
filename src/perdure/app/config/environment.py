"""Settings in the environment and in a `.env` file: `PERDURE_CHECKPOINTS__STRATEGY`, `DATABASE_URL` and the like."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

from perdure.app.config.keys import ALIASES, BY_NAME, CONFIG_VARIABLE, PREFIX, Key, variable_of
from perdure.app.config.places import Page, Place, Placed, parse_page
from perdure.app.config.reading import Section
from perdure.app.config.scalars import scalar
from perdure.app.config.settings import Settings, read_keys
from perdure.core.errors import InvalidConfigError

_LINE = re.compile(r"\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*?)\s*")
_ESCAPES = {"\\n": "\n", "\\t": "\t", "\\r": "\r", '\\"': '"', "\\\\": "\\", "\\$": "$"}
_ESCAPE = re.compile(r"\\.")
_AS_TEXT = ("text", "secret", "choice")
_KEYS = {variable_of(key.name): key for key in BY_NAME.values()} | {
    name: BY_NAME[target] for name, target in ALIASES.items()
}
_LEAST_ALIKE = 0.8


class Variable(NamedTuple):
    """A value of the environment, and where it was written."""

    text: str
    place: Place


class Variables(Page):
    """The variables of the environment, which have names in the place of lines."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        super().__init__("the environment", variables)
        self._names = sorted(variables)

    def place_of(self, name: str) -> Place:
        """The place of a variable."""
        return Place(self._names.index(name) + 1, 0)

    def where(self, place: Place) -> str:
        """The name of a variable."""
        return f"environment variable {self._names[place.line - 1]}" if place.line else self.path


def read_environment(variables: Mapping[str, str]) -> tuple[Page, Settings]:
    """What the environment says."""
    ours = {name: text for name, text in variables.items() if name in _KEYS or name.startswith(PREFIX)}
    page = Variables(ours)
    return page, _read(page, {name: Variable(text, page.place_of(name)) for name, text in ours.items()})


def parse_env_file(path: str, data: bytes) -> tuple[Page, dict[str, Variable]]:
    """The variables of a `.env` file, all of them. Nothing in it is expanded or run."""
    page = Page(path, {})
    found: dict[str, Variable] = {}
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        page.problem(Place(1, 1), "it is not UTF-8 text")
        text = ""
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        matched = _LINE.fullmatch(line)
        if matched is None:
            page.problem(Place(number, 1), "expected NAME=value")
        else:
            found[matched[1]] = Variable(_unquoted(matched[2]), Place(number, matched.start(2) + 1))
    return page, found


def read_env_file(page: Page, variables: Mapping[str, Variable]) -> Settings:
    """What the settings of a `.env` file say."""
    return _read(page, {name: each for name, each in variables.items() if name in _KEYS or name.startswith(PREFIX)})


def _unquoted(text: str) -> str:
    if len(text) > 1 and text[0] == text[-1] == "'":
        return text[1:-1]
    if len(text) > 1 and text[0] == text[-1] == '"':
        return _ESCAPE.sub(lambda found: _ESCAPES.get(found[0], found[0]), text[1:-1])
    return text.partition(" #")[0].rstrip()


def _read(page: Page, variables: Mapping[str, Variable]) -> Settings:
    tree: dict[str, Any] = {}
    names: dict[str, str] = {}
    # An alias counts less than the name of our own: DATABASE_URL is often there for another program.
    for name in sorted(variables, key=lambda name: name.startswith(PREFIX)):
        variable = variables[name]
        key = _KEYS.get(name)
        if key is None:
            _check_known(page, name, variable.place)
        elif variable.text:  # an empty variable is one that is not set, as for ${NAME:-default}
            names[key.name] = name
            _put(tree, key, Placed(_value(page, key, variable), variable.place, is_secret=True))
    _drop_alone(tree, variables)
    found = read_keys(Section(page, _placed(tree)), BY_NAME)
    return {name: each._replace(name=names[name]) for name, each in found.items()}


def _value(page: Page, key: Key, variable: Variable) -> Any:
    if key.kind in _AS_TEXT:
        return variable.text
    if key.kind == "texts" and variable.text[:1] != "[":
        return [Placed(each.strip(), variable.place, is_secret=True) for each in variable.text.split(",")]
    if variable.text[:1] in ("[", "{"):
        return _moved(_flow(page, variable), variable.place).value
    return scalar(variable.text)


def _flow(page: Page, variable: Variable) -> Placed:
    """A list or a mapping in a variable, as JSON or as YAML between braces."""
    try:
        return parse_page("value", variable.text.encode("utf-8", "surrogatepass"), {}, no_variables="${} stays")[1]
    except InvalidConfigError:
        page.problem(variable.place, "expected JSON")
        return Placed(None, variable.place)


def _moved(placed: Placed, place: Place) -> Placed:
    value = placed.value
    if isinstance(value, dict):
        inside = {name: _moved(each, place) for name, each in value.items()}
        return Placed(inside, place, dict.fromkeys(inside, place), is_secret=True)
    if isinstance(value, list):
        return Placed([_moved(each, place) for each in value], place, is_secret=True)
    return Placed(value, place, is_secret=True)


def _put(tree: dict[str, Any], key: Key, placed: Placed) -> None:
    *above, last = key.name.split(".")
    for each in above:
        tree = tree.setdefault(each, {})
    tree[last] = placed


def _placed(tree: Mapping[str, Any]) -> Placed:
    inside = {name: each if isinstance(each, Placed) else _placed(each) for name, each in tree.items()}
    places = {name: each.place for name, each in inside.items()}
    return Placed(inside, next(iter(places.values()), Place(0, 0)), places)


def _drop_alone(tree: dict[str, Any], variables: Mapping[str, Variable]) -> None:
    """CACHE_TTL is a name that many programs use: by itself it does not mean ours."""
    if "CACHE_TTL" in variables and variable_of("cache_ttl") not in variables and "hot" not in tree:
        tree.pop("cache_ttl", None)


def _check_known(page: Page, name: str, place: Place) -> None:
    """A name that is nearly one of ours is a typing mistake. Others belong to somebody: Kubernetes, a test."""
    import difflib

    ours = [each.removeprefix(PREFIX) for each in _KEYS if each.startswith(PREFIX)]
    near = difflib.get_close_matches(name.removeprefix(PREFIX), ours, 1, _LEAST_ALIKE)
    if near and name != CONFIG_VARIABLE:
        page.problem(place, f"{name} is not a setting, did you mean {PREFIX}{near[0]}?")


def is_env_file(path: str | os.PathLike[str]) -> bool:
    """Whether a file has variables and not YAML, by its name."""
    return os.path.basename(os.fspath(path)).startswith(".env")


def env_path(folder: str) -> str | None:
    """The `.env` of a folder, if there is one."""
    path = os.path.join(folder, ".env")
    return path if os.path.isfile(path) else None
