"""Planting a fault: replacing a function or a constant everywhere it was imported."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from typing import Any

import perdure


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
    """Change the text of a statement."""
    text = getattr(module, name)
    assert old in text, f"{name} has no {old!r}"
    setattr(module, name, text.replace(old, new))
