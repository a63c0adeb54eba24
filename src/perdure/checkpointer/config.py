"""The `config` that every call takes: whose thread it is about; and what constructors take."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import msgspec

from perdure.app.options import hint
from perdure.app.users import UserId
from perdure.core.errors import InvalidInputError
from perdure.core.identity import ANY_USER

Config = Mapping[str, Any]
_SCALARS = (str, int, float, bool, type(None))
_DEEP = 20


class Place(msgspec.Struct, frozen=True):
    """A thread that a config names."""

    thread_id: str
    user: UserId | None
    extra: dict[str, Any]  # what else the config says, as far as it is plain data

    def run(self) -> dict[str, Any]:
        """What a config tells of every message: the run that it is of."""
        run = self.extra.get("run_id")
        return {} if run is None else {"run_id": run}


def place_of(config: Config, *, isolated: bool, texts: bool) -> Place:
    """Read a config; raise `InvalidInputError` saying what is missing. `texts`: user ids are texts."""
    _check(config)
    thread_id = config.get("thread_id")
    if thread_id is None:
        raise InvalidInputError("config needs a thread_id, such as {'thread_id': 'conv_123'}")
    extra = {name: value for name, value in config.items() if name not in ("thread_id", "user_id") and _is_plain(value)}
    return Place(_text(thread_id, "thread_id"), user_of(config, isolated=isolated, texts=texts), extra)


def user_of(config: Config, *, isolated: bool, texts: bool) -> UserId | None:
    """The user a config names; None for trusted code that names none.

    An empty text is a user who is nobody: what an anonymous session sends must not make it trusted code.
    """
    _check(config)
    user = None if (named := config.get("user_id")) is ANY_USER else named
    if isolated and (user is None or user == ""):
        raise InvalidInputError("config needs a user_id: this checkpointer was made with enforce_user_isolation")
    return user if user is None or user == "" or not texts else _text(user, "user_id")


def _check(config: Config) -> None:
    if not isinstance(config, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInputError(f"config must be a mapping with a thread_id, not {config!r}")


def _text(value: Any, what: str) -> str:
    """Ids may be whole numbers."""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise InvalidInputError(f"{what} in config must be a str or an int, not {value!r}")
    return value


def _is_plain(value: Any, depth: int = _DEEP) -> bool:
    """Whether it is data that can be kept: a callback or a client in a config is for this process only."""
    if isinstance(value, dict | list | tuple) and depth:
        parts = [*value.keys(), *value.values()] if isinstance(value, dict) else value
        return all(_is_plain(part, depth - 1) for part in parts)
    return type(value) in _SCALARS


def check_names(cls: type, options: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Raise `TypeError` for an argument of a constructor that nobody reads, with a suggestion."""
    for name in options:
        if name not in known:
            near = hint(name, (*_arguments(cls), *known))
            raise TypeError(f"{cls.__name__}() got an unexpected keyword argument {name!r}{near}")


def _arguments(cls: type) -> list[str]:
    """The arguments by name of a class and of those it is made of."""
    made = [vars(each)["__init__"] for each in cls.__mro__ if "__init__" in vars(each) and each is not object]
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    found = [each for init in made for each in inspect.signature(init).parameters.values()]
    return [each.name for each in found if each.kind in named and each.name not in ("self", "url")]
