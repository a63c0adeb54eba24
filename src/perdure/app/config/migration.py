"""Another dialect as a `perdure.yaml`: the same settings under our names, variables and secrets untouched."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Mapping
from typing import Any

from perdure.app.config.dialects import PERDURE, dialect_of
from perdure.app.config.hector import NAMES, address_of, needed_by
from perdure.app.config.places import Placed, parse_page, read_bytes
from perdure.app.config.reading import Section
from perdure.core.errors import InvalidConfigError


def migrate(path: str | os.PathLike[str]) -> str:
    """The text of a `perdure.yaml` that means the same as a file of another dialect; raise `InvalidConfigError`.

    Variables such as `${DATABASE_URL}` are kept and not read, so no secret gets into the text. Comments are left out.
    """
    shown, data = os.fspath(path), read_bytes(path)
    page, tree = parse_page(shown, data, {}, no_variables="it is a variable", lenient=True)
    dialect = dialect_of(shown, tree)
    dialect.read(Section(page, tree))
    page.check()
    if dialect is PERDURE:
        raise InvalidConfigError(shown, [f"{shown}: it is a perdure.yaml already: nothing is to be done"])
    _, raw = parse_page(shown, data, {}, literal=True)
    found: dict[str, Any] = {}
    for name, value in _renamed(raw):
        *above, last = name.split(".")
        at = found
        for each in above:
            at = at.setdefault(each, {})
        at[last] = value
    return _text(found)


def _renamed(tree: Placed) -> Iterator[tuple[str, Any]]:
    told = dict(_leaves(tree))
    store = _store(told)
    if store is not None:
        yield "store", store
    for name, value in told.items():
        if name in NAMES:
            yield NAMES[name], value


def _store(told: Mapping[str, Any]) -> Any:
    backend = told.get("storage.sessions.backend")
    if backend is None:
        return told.get("storage.sessions", told.get("storage.sessions.url"))
    needed = needed_by(backend)
    value = told.get(f"storage.sessions.{needed}")
    return "memory://" if not needed else value if needed == "dsn" else address_of(backend, str(value))


def _leaves(placed: Placed, name: str = "") -> Iterator[tuple[str, Any]]:
    for key, each in placed.value.items() if isinstance(placed.value, dict) else ():
        dotted = f"{name}.{key}" if name else key
        if isinstance(each.value, dict):
            yield from _leaves(each, dotted)
        else:
            yield dotted, _plain(each)


def _plain(placed: Placed) -> Any:
    if isinstance(placed.value, dict):
        return {name: _plain(each) for name, each in placed.value.items()}
    if isinstance(placed.value, list):
        return [_plain(each) for each in placed.value]
    return placed.value


def _text(found: Mapping[str, Any]) -> str:
    from ruamel.yaml import YAML

    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]
    yaml.width = 4096
    stream = io.StringIO()
    yaml.dump(dict(found), stream)
    return stream.getvalue()
