"""Paths inside a state: a dotted string, or a tuple of keys where a key has a dot."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from perdure.core.errors import InvalidPathError, NestingTooDeepError, short_repr
from perdure.core.plain import MAX_DEPTH

Step = str | int
Path = tuple[Step, ...]


def parse(path: object) -> Path:
    """Read `"context.city"` or `("context", "a.b", 3)`; raise `InvalidPathError` for anything else."""
    return _text_parsed(path) if type(path) is str else _checked(path)


@lru_cache(4096)  # programs name the same few places again and again
def _text_parsed(path: str) -> Path:
    return _checked(path)


def _checked(path: object) -> Path:
    parsed = _parsed(path)
    if len(parsed) >= MAX_DEPTH:
        raise NestingTooDeepError(show(parsed[:8]).removeprefix(".") + "…", MAX_DEPTH)
    for step in parsed:
        if type(step) is str and not step.isascii() and _is_broken(step):
            raise InvalidPathError(ascii(path), "holds a lone surrogate; save the whole state to set such a key")
    return parsed


def _is_broken(text: str) -> bool:
    return any("\ud800" <= char <= "\udfff" for char in text)


def _parsed(path: object) -> Path:
    if isinstance(path, str):
        if not path or ".." in f".{path}.":
            raise InvalidPathError(path, "has an empty part; use a tuple of keys where a key is empty or has a dot")
        return tuple(path.split("."))
    if isinstance(path, tuple) and path:
        for step in path:
            if type(step) not in (str, int):
                raise InvalidPathError(short_repr(path), "has a part that is neither a str nor an int")
        return path
    raise InvalidPathError(short_repr(path), "is not a path; use a dotted string or a tuple of keys")


def show(path: Sequence[Step]) -> str:
    """Write a path for people: `.tools[3].client`."""
    return "".join(map(_show, path))


def _show(step: Step) -> str:
    return f".{step}" if isinstance(step, str) and _simple(step) else f"[{short_repr(step)}]"


def _simple(step: str) -> bool:
    return bool(step) and "." not in step and "[" not in step and step.isprintable()
