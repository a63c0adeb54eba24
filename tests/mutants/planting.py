"""Planting a fault: replacing a function or a constant everywhere it was imported."""

from __future__ import annotations

import importlib
import pkgutil
import re
import sys
from collections.abc import Callable
from typing import Any

import msgspec

import perdure
from perdure.core.writes import Write
from perdure.storage.sql.statements import Statements

Plant = Callable[[], None]


def load_everything() -> None:
    """Import the core, the storages and the engine, so that every copy of a name is there to be replaced."""
    for package in ("core", "storage", "checkpoints"):
        for module in pkgutil.walk_packages([f"{path}/{package}" for path in perdure.__path__], f"perdure.{package}."):
            importlib.import_module(module.name)


def replace(original: Any, replacement: Any) -> None:
    """Put `replacement` wherever a module of ours, but for the suite itself, has `original`."""
    found = 0
    for name, module in list(sys.modules.items()):
        if name.startswith("perdure.") and not name.startswith("perdure.testing"):
            for attribute, value in list(vars(module).items()):
                if value is original:
                    setattr(module, attribute, replacement)
                    found += 1
    assert found, f"{original!r} is nowhere to be replaced"


def rewrite(module: Any, name: str, old: str, new: str) -> None:
    """Change a text that a module has."""
    text = getattr(module, name)
    assert old in text, f"{name} has no {old!r}"
    setattr(module, name, text.replace(old, new))


def restate(name: str, old: str, new: str) -> None:
    """Change a statement in the words of every database; `old` is a pattern, since values are bound in several ways."""
    if name.isupper():
        _restate_constant(name, old, new)
    else:
        written = getattr(Statements, name)
        setattr(Statements, name, lambda self, *asked: re.sub(old, new, written(self, *asked)))


def _restate_constant(name: str, old: str, new: str) -> None:
    write = Statements.__init__

    def write_otherwise(self: Statements, dialect: Any) -> None:
        write(self, dialect)
        _reword(self, name, old, new)

    Statements.__init__ = write_otherwise
    for made in _made_already():
        _reword(made, name, old, new)


def _made_already() -> list[Statements]:
    """Those that a module made when it was imported."""
    modules = [module for name, module in sys.modules.items() if name.startswith("perdure.storage.")]
    found = [value for module in modules for value in vars(module).values() if isinstance(value, Statements)]
    return list({id(each): each for each in found}.values())


def _reword(statements: Statements, name: str, old: str, new: str) -> None:
    text, count = re.subn(old, new, getattr(statements, name))
    assert count, f"{name} has no {old!r}"
    setattr(statements, name, text)


def with_changes(write: Write, **changes: Any) -> Write:
    """The write with some fields changed."""
    return msgspec.structs.replace(write, **changes)
