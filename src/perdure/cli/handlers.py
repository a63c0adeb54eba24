"""The handlers of a person's own: found by the name they type, never by one that is stored."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from perdure.app.config.resolve import resolve_config
from perdure.app.store import Perdure
from perdure.cli.common_options import StoreOptions
from perdure.cli.problems import UsageError
from perdure.core.errors import InvalidInputError, PerdureError

_FUNCTION = "register"


def handlers_named(typed: str | None, at: StoreOptions) -> str:
    """The module that was typed, else worker.handlers of the configuration; raise `UsageError` without one."""
    named = typed or resolve_config(at.config, at.store).worker.handlers
    if not named:
        raise UsageError("which handlers? name their module or file.py, or set worker.handlers in perdure.yaml")
    return named


def handlers_option(at: StoreOptions) -> dict[str, str | bool | None]:
    """The option of a hint that names the handlers; none is needed where the configuration does."""
    try:
        is_named = resolve_config(at.config, at.store).worker.handlers is not None
    except PerdureError:
        is_named = False
    return {} if is_named else {"--handlers": "MODULE"}


async def register(store: Perdure, named: str) -> list[str]:
    """Call the function that registers handlers, and return their names.

    `named` is `module`, `module:function`, `file.py` or `file.py:function`; the function is `register` by default and
    is given the store. What the code of the module raises is raised.
    """
    done = function_named(named, "store")(store)
    if inspect.isawaitable(done):
        await done
    names = store._parts.running.handlers.names  # pyright: ignore[reportPrivateUsage]
    if not names:
        raise InvalidInputError(f'--handlers {named}: it registered none; add @store.handler("name") to a function')
    return names


def register_graphs(saver: Any, named: str) -> None:
    """Call the same function with a LangGraph saver: it tells the saver of graphs, saver.graph("name", factory)."""
    function_named(named, "saver")(saver)


def function_named(named: str, given: str, default: str = _FUNCTION) -> Callable[[Any], Any]:
    """The function that `named` means; where it names none, the one called `default`."""
    where, _, function = named.partition(":")
    found = getattr(_module(where), function or default, None)
    if not callable(found):
        what = f"{where} has no function {function or default!r}"
        raise InvalidInputError(f"--handlers {named}: {what}; it is given the {given}: def {default}({given}): …")
    return found


def _module(where: str) -> ModuleType:
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # as `python -m` does
    return _file(where) if where.endswith(".py") else _named(where)


def _named(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as exc:
        if exc.name is None or not f"{name}.".startswith(f"{exc.name}."):
            raise  # the module is there, and lacks something itself
        raise InvalidInputError(f"--handlers {name}: there is no module {exc.name!r} in {os.getcwd()}") from None
    except (TypeError, ValueError) as exc:
        raise InvalidInputError(f"--handlers {name!r} must be a module or a file.py ({exc})") from None


def _file(path: str) -> ModuleType:
    name = os.path.basename(path).removesuffix(".py")
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None or not os.path.isfile(path):
        raise InvalidInputError(f"--handlers {path}: there is no such file in {os.getcwd()}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    spec.loader.exec_module(module)
    return module
