"""Which words a file of settings is written in. Another dialect is a reader here, and its heads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from perdure.app.config.hector import HEADS, read_hector
from perdure.app.config.keys import BY_NAME
from perdure.app.config.places import Placed
from perdure.app.config.reading import Section
from perdure.app.config.settings import Settings, read_keys


class Dialect(NamedTuple):
    """The words of a file: what its top keys are, and how it is read."""

    name: str
    heads: frozenset[str]
    read: Callable[[Section], Settings]


def read_perdure(root: Section) -> Settings:
    """All settings of a `perdure.yaml`."""
    found = read_keys(root, BY_NAME)
    root.close()
    return found


PERDURE = Dialect("perdure", frozenset(name.partition(".")[0] for name in BY_NAME), read_perdure)
HECTOR = Dialect("hector", frozenset(HEADS), read_hector)
DIALECTS: Mapping[str, Dialect] = {each.name: each for each in (PERDURE, HECTOR)}


def dialect_of(path: str, tree: Placed) -> Dialect:
    """The dialect whose top keys a file has; where it has none that are known, the name of the file says."""
    keys = tree.value if isinstance(tree.value, dict) else {}
    for each in DIALECTS.values():
        if any(key in each.heads for key in keys):
            return each
    return PERDURE if "perdure" in path.replace("\\", "/").rsplit("/", 1)[-1] else HECTOR
